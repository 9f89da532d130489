// Counters of what the machine does: bytes a second by channel, bytes in flight and on chip, use of the matrix pipes, items.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline/timeline.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

class LoadCounters {
 public:
  // One value for each `step` of time, its mean (0: for each change). Counters of the group.
  LoadCounters(TrackWriter& writer, TrackWriter::Track group, const Machine& machine, Duration step);
  void add(const MachineLoad& load);
  void finish();

 private:
  struct Counter {
    std::string name, unit;
    double scale = 1;     // of what is shown
    double decimals = 1;  // it is rounded to 1 / decimals
    std::function<double(const MachineLoad&)> value;
    std::optional<TrackWriter::Track> track;  // of those that are shown only where they are not always 0: later
    double sum = 0;                           // value x picoseconds, of the step in progress
    double shown = -1;
  };
  void add_counter(std::string name, std::string unit, double scale, double decimals, bool always,
                   std::function<double(const MachineLoad&)> value);
  void show(TimePoint at, TimePoint until);

  TrackWriter& writer_;
  TrackWriter::Track group_;
  Duration step_;
  std::vector<Counter> counters_;
  TimePoint begin_, now_;  // of the step in progress
};

}  // namespace moesim
