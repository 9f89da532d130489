// The active flows: one record per class of alike items, whatever their number.
//
// All items of a record progress at one rate, so a record keeps one virtual progress and a FIFO of cohorts; starting or
// ending a cohort costs the same for one item as for a thousand. Rates change only when a cohort starts or ends; states
// solved before are remembered.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/engine/flow_physics.h"

namespace moesim {

struct FlowKey {
  std::uint32_t kernel = 0;
  std::uint32_t item_class = 0;
  Ahead ahead;
  std::int64_t level = 1;  // items that share a unit's pipes
  MissSteps misses{};
  bool reread = false;      // the region had been read before
  bool short_port = false;  // on units behind short ports
  bool settled = false;     // its items share their units with as many until they end
  friend bool operator==(const FlowKey&, const FlowKey&) = default;
};

struct FlowCohort {
  double finish;         // virtual progress at which its items are done
  std::uint32_t cohort;  // index in the engine's table
};

struct FlowRecord {
  FlowKey key;
  std::uint32_t physics = 0;
  FlowClass flow;                           // the physics' with the present floor
  double steps = 1;                         // K-steps of an item
  std::int64_t items = 0;                   // active now
  double progress = 0;                      // items' worth of progress since the record was made
  double rate = 0;                          // of progress, per second
  std::array<double, kBlameCount> blame{};  // shares of an active item's time, sum 1
  std::vector<FlowCohort> fifo;
  std::size_t head = 0;

  [[nodiscard]] bool empty() const { return head == fifo.size(); }
  [[nodiscard]] const FlowCohort& front() const { return fifo[head]; }
  FlowCohort pop();
};

class FlowTable {
 public:
  explicit FlowTable(const Machine& machine);

  [[nodiscard]] FlowRecord& operator[](std::uint32_t index) { return records_[index]; }
  [[nodiscard]] const FlowRecord& operator[](std::uint32_t index) const { return records_[index]; }
  // Records with items, in the order in which they became active (empty ones are dropped by resolve()).
  [[nodiscard]] const std::vector<std::uint32_t>& active() const { return active_; }
  [[nodiscard]] const FlowPhysics& physics(const FlowRecord& record) const { return physics_[record.physics]; }

  std::uint32_t add_record(const FlowKey& key, const FlowPhysics& physics);
  void start(std::uint32_t index, std::int64_t items);  // the caller pushes or merges the cohort

  // Solves the rates. `sharing(record)`: items that share a unit's pipes with one of the record's, itself included.
  template <class Sharing>
  void resolve(const Sharing& sharing) {
    drop_empty();
    for (const std::uint32_t i : active_) {
      FlowRecord& record = records_[i];
      record.flow.floor = physics_[record.physics].floor(sharing(record));
    }
    solve();
  }
  ChannelArray advance(double seconds);  // bytes that came into each cache
  // The channels' latency factors at the rates last solved.
  [[nodiscard]] const ChannelArray& factors() const { return solved_->factors; }

  // When the next cohorts end, and in due() when the first cohort of each active record does. Those that end within a
  // window of the earliest, a share `window(earliest)` of an item's time, are drawn to one time in their middle.
  template <class Window>
  std::int64_t next_end(std::int64_t now, const Window& window) {
    const FlowRecord* earliest = find_earliest(now);
    return earliest == nullptr ? std::numeric_limits<std::int64_t>::max() : draw_together(*earliest, window(*earliest));
  }
  [[nodiscard]] const std::vector<std::int64_t>& due() const { return due_; }

 private:
  // Rates of a state that was solved before.
  struct Memo {
    std::vector<double> key;  // per active record: its physics, items, floor
    std::vector<double> rates;
    std::vector<std::array<double, kBlameCount>> blames;
    ChannelArray factors{};
  };

  void drop_empty();
  void solve();
  const FlowRecord* find_earliest(std::int64_t now);
  std::int64_t draw_together(const FlowRecord& earliest, double window);

  ChannelSolver solver_;
  std::vector<FlowPhysics> physics_;
  std::vector<FlowRecord> records_;
  std::vector<std::uint32_t> active_;
  std::vector<std::int64_t> due_;
  std::vector<Memo> memo_;
  const Memo* solved_ = nullptr;
  std::vector<ChannelArray> guesses_;  // solutions by a coarse hash of the state, as starts for like states
  std::vector<double> key_;
  std::vector<ActiveFlow> solver_flows_;
  std::vector<double> step_times_;
};

}  // namespace moesim
