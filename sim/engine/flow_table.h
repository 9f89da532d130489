// The active flows: one record per class of alike items, whatever their number.
//
// All items of a record progress at one rate, so a record keeps one virtual progress and a FIFO of cohorts; starting or
// ending a cohort costs the same for one item as for a thousand.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/channel_solver.h"
#include "sim/plan/kernel.h"
#include "sim/timeline/attribution.h"

namespace moesim {

struct FlowKey {
  std::uint32_t kernel = 0;
  std::uint32_t item_class = 0;
  std::int64_t level = 1;                          // items that share a unit's pipes
  std::array<std::int8_t, kMaxChannels> misses{};  // of CacheState::kShareSteps, per cache level
  bool reread = false;                             // the region had been read before
  friend bool operator==(const FlowKey&, const FlowKey&) = default;
};

struct FlowCohort {
  double finish;         // virtual progress at which its items are done
  std::uint32_t cohort;  // index in the engine's table
};

// All that decides a class's rate and blame; kernels alike share it, so that solved rates are found again.
struct FlowPhysics {
  FlowClass flow;    // floor left out
  double steps = 1;  // K-steps of an item (fractional when items are cut for an ablation)
  std::array<double, kPipeCount> pipe_seconds{};
  double useful_share = 1;
  double issue = 0;  // seconds
  bool reread = false;
  friend bool operator==(const FlowPhysics&, const FlowPhysics&) = default;
};

struct FlowRecord {
  FlowKey key;
  std::uint32_t physics = 0;  // index of its FlowPhysics
  FlowClass flow;             // as of now: with its floor
  double steps = 1;
  std::int64_t items = 0;                   // active now
  double progress = 0;                      // items' worth of progress since the record was made
  double rate = 0;                          // of progress, per second
  std::array<double, kBlameCount> blame{};  // shares of an active item's time, sum 1
  std::vector<FlowCohort> fifo;
  std::size_t head = 0;

  [[nodiscard]] bool empty() const { return head == fifo.size(); }
  void push(double finish, std::uint32_t cohort) { fifo.push_back({finish, cohort}); }
  FlowCohort pop() {
    const FlowCohort front = fifo[head++];
    if (head == fifo.size()) {
      fifo.clear();
      head = 0;
    }
    return front;
  }
};

}  // namespace moesim
