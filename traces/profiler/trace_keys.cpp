#include "traces/profiler/trace_keys.h"

namespace moesim {
namespace {

struct KnownKey {
  Place place;
  std::string_view text;
  Key key;
};

constexpr KnownKey kKnownKeys[] = {
    {Place::kTop, "traceEvents", Key::kTraceEvents},
    {Place::kTop, "deviceProperties", Key::kDeviceProperties},
    {Place::kTop, "distributedInfo", Key::kDistributedInfo},
    {Place::kEvent, "ph", Key::kPhase},
    {Place::kEvent, "cat", Key::kCategory},
    {Place::kEvent, "name", Key::kName},
    {Place::kEvent, "pid", Key::kProcess},
    {Place::kEvent, "tid", Key::kThread},
    {Place::kEvent, "ts", Key::kStart},
    {Place::kEvent, "dur", Key::kLength},
    {Place::kEvent, "args", Key::kArguments},
    {Place::kArguments, "device", Key::kDevice},
    {Place::kArguments, "stream", Key::kStream},
    {Place::kArguments, "correlation", Key::kCorrelation},
    {Place::kArguments, "grid", Key::kGrid},
    {Place::kArguments, "block", Key::kBlock},
    {Place::kArguments, "Input Dims", Key::kInputs},
    {Place::kDevice, "name", Key::kDeviceName},
    {Place::kDevice, "totalGlobalMem", Key::kMemory},
    {Place::kDevice, "numSms", Key::kUnits},
    {Place::kDevice, "warpSize", Key::kWarp},
    {Place::kDistributed, "world_size", Key::kWorldSize},
};

}  // namespace

Key key_of(Place place, std::string_view text) {
  for (const KnownKey& known : kKnownKeys) {
    if (known.place == place && known.text == text) return known.key;
  }
  return Key::kOther;
}

std::string_view key_text(Key key) {
  for (const KnownKey& known : kKnownKeys) {
    if (known.key == key) return known.text;
  }
  return "";
}

}  // namespace moesim
