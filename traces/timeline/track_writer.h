// A timeline file, written as a stream: tracks with slices and counters, in the two formats that Perfetto and chrome://tracing
// open. What is written is not kept: memory does not grow with the number of events.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "sim/units/quantity.h"

namespace moesim {

struct Argument {
  std::string_view name;
  std::variant<std::int64_t, double, std::string_view> value;  // times in picoseconds: "..._ps"
};

class TrackWriter {
 public:
  // A group of tracks, a slice track and a counter of it. Numbers start at 1, in order.
  using Track = std::uint64_t;

  virtual ~TrackWriter() = default;
  virtual Track add_group(std::string_view name) = 0;
  virtual Track add_track(Track group, std::string_view name) = 0;
  virtual Track add_counter(Track group, std::string_view name, std::string_view unit) = 0;

  // Slices of a track lie apart or within each other. Tracks may take turns; within one, slices come in the order of their
  // starts, an outer one before those in it. The writer adds the arguments start_ps and duration_ps. Times are not negative,
  // numbers finite; text that is not UTF-8 is replaced.
  virtual void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
                     std::span<const Argument> arguments) = 0;
  virtual void count(Track counter, TimePoint at, double value) = 0;
  virtual void finish() = 0;  // once, last
};

// Trace Event Format: one JSON object.
std::unique_ptr<TrackWriter> chrome_writer(std::ostream& out);
// perfetto.protos.Trace.
std::unique_ptr<TrackWriter> perfetto_writer(std::ostream& out);

}  // namespace moesim
