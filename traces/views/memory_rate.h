// How fast memory delivers over a run's time, in few numbers whatever its length.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/timeline/timeline.h"

namespace moesim {

struct MemoryRate {
  Duration step;  // between two means
  std::vector<double>
      bytes_per_second;  // means over a step each, reads and writes; the last one's step may end with the run
  BytesPerSecond peak;   // of the channel
};

// Starts with short steps; where these become too many, two make one.
class MemoryRateMeter : public TimelineListener {
 public:
  static constexpr std::size_t kMostSteps = 400;

  void on_start(const ExecutionPlan& plan, const Machine& machine) override;
  void on_span(const Span& span) override;
  void on_load(const MachineLoad& load) override;
  void on_end(const SimulationResult& result) override;

  // After the run.
  [[nodiscard]] MemoryRate rate() const;

 private:
  std::size_t channel_ = 0;
  BytesPerSecond peak_;
  Duration step_;
  TimePoint end_;
  std::vector<double> bytes_;  // of each step
};

}  // namespace moesim
