// Tells a listener what the engine does. The engine calls it only where there is a listener.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/blame_meter.h"
#include "sim/engine/flow_table.h"
#include "sim/plan/execution_plan.h"
#include "sim/timeline/timeline.h"

namespace moesim {

class Recorder {
 public:
  Recorder(const ExecutionPlan& plan, const Machine& machine, TimelineListener& listener);

  // Items of a kernel that are neither finished nor still to start, those of them in their K-steps, and those that hold
  // a slot; of the others, those that wait.
  struct KernelItems {
    std::uint32_t kernel = 0;
    std::int64_t active = 0, flowing = 0, resident = 0, parked = 0;
  };

  // --- a cohort's way, by the engine's number of it ---
  void dispatched(std::uint32_t cohort, const Span& span, std::int64_t before_wait);  // picoseconds
  void released(std::uint32_t cohort, std::int64_t at);                               // the wait is over
  void flow_started(std::uint32_t cohort, std::uint32_t record, std::int64_t at);
  void merged(std::uint32_t into, std::uint32_t cohort);
  void split(std::uint32_t cohort, std::uint32_t off, std::int64_t items);  // so many of its items become a cohort
  void drained(std::uint32_t cohort, std::uint32_t record, std::int64_t at);
  void ended(std::uint32_t cohort, std::int64_t at);

  // From now on until the next call.
  void changed(std::int64_t now, const std::vector<KernelItems>& running, const FlowTable& flows,
               const BlameMeter& meter);
  void advance(std::int64_t to, const FlowTable& flows);
  void finish(const SimulationResult& result);

 private:
  using Blames = std::array<double, kBlameCount>;
  struct Piece {
    Span span;  // its blame in picoseconds
    std::int64_t may_wait_from = 0;
  };

  [[nodiscard]] const ChannelArray& moved(std::uint32_t record, const FlowTable& flows);

  const ExecutionPlan& plan_;
  const Machine& machine_;
  TimelineListener& listener_;
  std::vector<std::vector<Piece>> pieces_;  // by cohort
  std::vector<Blames> blamed_;              // by record: what bound an item from the run's begin on, picoseconds
  std::vector<Blames> binding_;             // by record: shares at present
  std::vector<ChannelArray> moved_;         // by record: bytes of a step; [0] negative: not yet known
  MachineLoad load_;
};

}  // namespace moesim
