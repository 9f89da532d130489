// Traces of the PyTorch profiler (Kineto), CUDA and ROCm: what ran on the device, when, and what the host called it.
//
// Read as a stream: memory grows with the events that are kept (of the device, annotations, MoE operators, launches), not
// with the file. Foreign files: unknown keys pass; duplicates of what is read, wrong types, numbers out of range, NaN
// and truncation do not. Times are decimal microseconds in the file and exact picoseconds here, from the first device event
// or annotation on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

// A kernel, a copy or a fill.
struct DeviceEvent {
  enum class Kind : std::uint8_t { kKernel, kCopy, kFill };
  Kind kind = Kind::kKernel;
  std::uint32_t name = 0;  // index into ProfilerTrace::names
  std::int32_t device = 0;
  std::int64_t stream = 0;
  TimePoint start;
  Duration length;
  std::optional<TimePoint> launched;            // by the host: the call's start, where the trace has it
  std::int64_t thread = 0;                      // of that call
  std::array<std::int32_t, 3> grid{}, block{};  // 0: not in the trace
  std::int64_t correlation = -1;                // with the host's call; -1: not in the trace

  [[nodiscard]] TimePoint end() const { return start + length; }
};

// user_annotation (of the host, or of the device: gpu_user_annotation).
struct Annotation {
  std::uint32_t name = 0;
  bool on_device = false;
  std::int64_t thread = 0;  // host: thread; device: stream
  TimePoint start;
  Duration length;

  [[nodiscard]] TimePoint end() const { return start + length; }
};

// An operator on the host whose name speaks of MoE, as vllm::moe_forward.
struct MoeOperator {
  std::uint32_t name = 0;
  std::int64_t thread = 0;
  TimePoint start;
  Duration length;
  std::vector<std::vector<std::int64_t>> inputs;  // sizes of its inputs, [] for what is no tensor

  [[nodiscard]] TimePoint end() const { return start + length; }
};

struct ProfiledDevice {
  std::string name;         // AMD's parts leave it empty
  std::int64_t memory = 0;  // bytes
  std::int64_t units = 0;   // SMs, CUs
  std::int64_t warp = 0;    // threads
};

struct ProfilerTrace {
  std::string file;
  std::vector<std::string> names;
  std::vector<DeviceEvent> events;  // by start
  std::vector<Annotation> annotations;
  std::vector<MoeOperator> operators;
  std::vector<ProfiledDevice> devices;  // by id
  std::int64_t world_size = 1;          // of distributedInfo
  bool graph_launches = false;          // cudaGraphLaunch, hipGraphLaunch
  std::int64_t all_events = 0;          // of any kind

  [[nodiscard]] const std::string& name_of(const DeviceEvent& event) const { return names[event.name]; }
};

// Device events that are kept at most; a trace with more is an error (cut it, or profile fewer steps).
inline constexpr std::size_t kMostDeviceEvents = 2'000'000;

// Plain or packed by gzip; an object with "traceEvents", or its array alone. Throws InputError with file and byte or JSON
// pointer.
ProfilerTrace read_profiler_trace(const std::string& path);

}  // namespace moesim
