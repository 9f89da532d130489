// The keys of a profiler trace that are read, by the place where they stand.
#pragma once

#include <string_view>

namespace moesim {

// What stands where. Anything else is passed over.
enum class Place {
  kTop,          // the document's object
  kEvents,       // the array of events
  kEvent,        // one of them
  kArguments,    // its "args"
  kGrid,         // args.grid
  kBlock,        // args.block
  kInputs,       // args["Input Dims"]
  kInput,        // one of them
  kDevices,      // deviceProperties
  kDevice,       // one of them
  kDistributed,  // distributedInfo
};

// Keys that are read, of all places.
enum class Key {
  kTraceEvents,
  kDeviceProperties,
  kDistributedInfo,  // top
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kStart,
  kLength,
  kArguments,  // event
  kDevice,
  kStream,
  kCorrelation,
  kGrid,
  kBlock,
  kInputs,  // arguments
  kDeviceName,
  kMemory,
  kUnits,
  kWarp,       // device
  kWorldSize,  // distributedInfo
  kOther
};

Key key_of(Place place, std::string_view text);  // kOther: passed over
std::string_view key_text(Key key);

}  // namespace moesim
