// simulate(): runs a plan on a machine. A free function without state: two runs may go on in two threads.
//
// What it models: items of a class share channels, pipes and slots alike (machine.h, kernel.h). A class of active items
// has one progress rate v = 1 / (steps * step time) with
//     step time = max( (step_issue + load_latency + L + step_latency) / stages, step_latency, step_issue,
//                      step_sequence + sharing * pipe_seconds )
// L: mean latency of a step's loads at the channels' present use; sharing: items on the unit that use the pipe. Rates
// change only when a cohort starts or ends, so an event costs the same however many items are active. What it leaves
// out: the order of bytes within a step, DRAM pages and refresh, unit-to-unit distance, clusters' placement; a
// persistent kernel's tiles go to whichever slot is free (static striding differs only for unequal tiles).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/effects.h"
#include "sim/engine/machine.h"
#include "sim/plan/execution_plan.h"
#include "sim/timeline/attribution.h"
#include "sim/timeline/timeline.h"

namespace moesim {

struct SimulateOptions {
  bool cohorts = true;                   // false: every item is its own cohort (slow; times agree within 0.5 %)
  TimelineListener* listener = nullptr;  // nullptr: nothing is recorded, which costs nothing
  EffectSet without;                     // what the run leaves out, to tell what that costs
  std::optional<Duration> deadline;      // a run that takes longer is of no interest: it stops there
};

struct KernelResult {
  TimePoint launch;  // its predecessors had ended
  TimePoint start;   // first item dispatched
  TimePoint end;     // last epilogue done
  std::int64_t items = 0;
  std::int64_t slots = 0;  // items that can be in flight together
  Bytes memory_read;       // by region reads, once and again
  Bytes memory_reread;     // of these, bytes that memory had delivered before
  Bytes cache_read;        // bytes that entered units
  Bytes written;
  Attribution attribution;  // each category sums over kernels to the run's
};

struct SimulationResult {
  Duration total;
  Attribution attribution;
  std::vector<KernelResult> kernels;  // indexed as the plan's
  std::int64_t items = 0;
  std::int64_t cohorts = 0;
  std::int64_t events = 0;
  bool stopped = false;  // at its deadline: the total would be above it, and nothing else is known
};

SimulationResult simulate(const ExecutionPlan& plan, const Machine& machine, const SimulateOptions& options = {});

}  // namespace moesim
