// What decides the rate of a class of alike items, and what binds it.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/channel_solver.h"
#include "sim/engine/effects.h"
#include "sim/engine/machine.h"
#include "sim/plan/kernel.h"
#include "sim/timeline/attribution.h"

namespace moesim {

// Misses in each cache, in steps of CacheState::kShareSteps, of the bytes that reach it.
using MissSteps = std::array<std::int8_t, kMaxChannels>;

// Loads that are sent for before the wait: a flow of these alone, or of an item of which so many are there.
struct Ahead {
  static constexpr std::int8_t kShareSteps = 32;
  bool alone = false;
  std::int8_t loaded = 0;  // share of an item's `read`, in steps
  friend bool operator==(const Ahead&, const Ahead&) = default;
};
// An item, or a piece of it, of which that is asked; of a step's loads that are there, none are in flight.
ItemClass with_ahead(const ItemClass& item, Ahead ahead, double cuts);
// Share of an item's loads that are sent for ahead.
double ahead_share(const ItemClass& item, double cuts);

// Kernels alike share their physics, so that rates solved once are found again.
struct FlowPhysics {
  FlowClass flow;    // floor left out
  double steps = 1;  // K-steps of an item (fractional when items are cut for an ablation)
  std::array<double, kPipeCount> pipe_seconds{};
  double useful_share = 1;
  double stationary_share = 0;
  double sequence = 0;      // seconds
  double issue = 0;         // seconds
  double load = 0;          // seconds: of the loads beyond the channels' latency
  ChannelArray inserted{};  // bytes of a step that come into each cache
  bool reread = false;
  friend bool operator==(const FlowPhysics&, const FlowPhysics&) = default;

  // Seconds of the dependent chain of a step.
  [[nodiscard]] double chain() const { return flow.serial - issue - load; }
  // Least step time of an item that shares its unit's pipes with `sharing` items, itself included.
  [[nodiscard]] double floor(double sharing) const;
};

FlowPhysics make_physics(const Machine& machine, const ItemClass& item, const MissSteps& misses, bool reread,
                         double cuts, EffectSet without);

// Bytes that a step moves over each channel as they are (FlowClass::bytes weighs them); written ones over the memory's.
ChannelArray bytes_moved(const Machine& machine, const ItemClass& item, const MissSteps& misses);

// What items on empty slots wait for their first bytes beyond their step times. Later items find their loads among others
// in flight. Of items of `rounds` rounds of loads, each round's step time is L f(t) at an offered load of t, but for the
// first round, of which all is asked for at once, L + bytes / peak = L (1 + t): so the fill is L (1 - (f(t) - t) / rounds),
// for one round nothing when the channel is idle and all of L when its rate alone counts.
[[nodiscard]] double fill_seconds(const Machine& machine, const FlowClass& flow, double items, double rounds);

// How far apart `items` that start together end when memory is what they wait for, first to last, as a share of an item's
// progress. They ask for their loads at once, and memory serves one item after another as far as none waits for an earlier load: all
// of an item's where they are in flight together, else its last step's.
double burst_share(const Machine& machine, const FlowClass& flow, double items, const ItemClass& item);

// Shares of an active item's time among its binding constraints (sum 1), at these latency factors and this floor.
std::array<double, kBlameCount> blame_shares(const FlowPhysics& physics, double floor, const ChannelArray& factors,
                                             std::size_t channels);

}  // namespace moesim
