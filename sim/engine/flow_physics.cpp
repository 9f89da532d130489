#include "sim/engine/flow_physics.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/cache.h"

namespace moesim {
namespace {

constexpr std::size_t index(PipeKind pipe) { return static_cast<std::size_t>(pipe); }

}  // namespace

double FlowPhysics::floor(double sharing) const {
  double least = std::max(chain(), issue);
  for (const double seconds : pipe_seconds) least = std::max(least, sequence + sharing * seconds);
  return least;
}

FlowPhysics make_physics(const Machine& machine, const ItemClass& item, const MissSteps& misses, bool reread,
                         double cuts, EffectSet without) {
  FlowPhysics physics;
  const auto steps = static_cast<double>(item.steps);
  physics.steps = steps / cuts;
  physics.pipe_seconds = item.pipe_seconds;
  physics.useful_share = item.useful_share;
  physics.stationary_share = item.stationary_share;
  physics.sequence = without.has(Effect::kSerialStep) ? 0 : to_seconds(item.step_sequence);
  physics.issue = to_seconds(item.step_issue);
  physics.load = to_seconds(item.load_latency);
  physics.reread = reread;
  if (without.has(Effect::kPadding)) {
    physics.pipe_seconds[index(PipeKind::kMatrix)] *=
        item.stationary_share + (1 - item.stationary_share) * item.useful_share;
    physics.useful_share = 1;
  }
  if (without.has(Effect::kVector)) physics.pipe_seconds[index(PipeKind::kVector)] = 0;
  if (without.has(Effect::kCacheBandwidth)) physics.pipe_seconds[index(PipeKind::kLoadPort)] = 0;

  FlowClass& flow = physics.flow;
  const std::size_t memory = machine.caches.size();
  const double from_region = item.read.as_double() / steps;
  const double all = from_region + item.resident_read.as_double() / steps;
  double reaching = all;
  for (std::size_t j = 0; j <= memory; ++j) {
    double beyond = 0;  // goes on to the next level
    if (j < memory) {
      const double may_miss = j == 0 ? from_region * item.first_share : reaching;
      beyond = may_miss * static_cast<double>(misses[j]) / CacheState::kShareSteps;
    }
    flow.bytes[j] = j < memory ? reaching + machine.caches[j].fill_weight * beyond : reaching * item.read_weight;
    if (all > 0) {
      const double latency = to_seconds(machine.channels[j].latency);
      flow.hop[j] = (reaching - beyond) / all * latency;
      flow.queue[j] = reaching / all * latency;
    }
    reaching = beyond;
  }
  // Stores are not waited for, but back up when the memory does. Turning between reads and writes costs (machine.h): the
  // fewer the writes, the smaller the batches in which they are drained.
  const double stored = item.write.as_double() / steps;
  const double turns = (machine.memory_write_weight - 1) * std::sqrt(flow.bytes[memory] * stored);
  const double written = stored + turns;
  flow.bytes[memory] += written;
  if (written > 0) flow.queue[memory] += written / (all + written) * to_seconds(machine.channels[memory].latency);
  if (without.has(Effect::kCacheBandwidth)) {
    for (std::size_t j = 0; j < memory; ++j) flow.bytes[j] = flow.queue[j] = 0;
  }
  flow.serial = physics.issue + physics.load + (without.has(Effect::kSerialStep) ? 0 : to_seconds(item.step_latency));
  flow.stages = item.ring_spans_items ? item.stages : std::min(item.stages, steps);
  return physics;
}

double fill_seconds(const Machine& machine, const FlowClass& flow, double items, double rounds) {
  double seconds = 0;
  for (std::size_t j = 0; j < machine.channels.size(); ++j) {
    if (flow.hop[j] == 0) continue;
    const Channel& channel = machine.channels[j];
    const double t = items * flow.stages * flow.bytes[j] / (channel.peak.value() * flow.hop[j]);
    const double factor = std::max(t, 1.0) * std::pow(1 + std::pow(std::min(t, 1 / t), channel.knee), 1 / channel.knee);
    seconds += flow.hop[j] * (1 - (factor - t) / rounds);
  }
  return seconds;
}

std::array<double, kBlameCount> blame_shares(const FlowPhysics& physics, double floor, const ChannelArray& factors,
                                             std::size_t channels) {
  std::array<double, kBlameCount> shares{};
  const auto give = [&](Blame blame, double share) { shares[static_cast<std::size_t>(blame)] += share; };
  const FlowClass& flow = physics.flow;
  double unloaded = 0, queued = 0;
  for (std::size_t j = 0; j < channels; ++j) {
    unloaded += flow.hop[j];
    queued += flow.queue[j] * (factors[j] - 1);
  }
  const double round = unloaded + queued + flow.serial;
  const double chain = physics.chain();
  if (round > 0 && round / flow.stages >= floor) {
    // Bytes in flight bind: split between the item's own latency, its chain, and the queues of the channels.
    give(Blame::kUnderfilled, (unloaded + physics.issue + physics.load) / round);
    give(Blame::kSerialStep, chain / round);
    for (std::size_t j = 0; j < channels; ++j) {
      const bool memory = j + 1 == channels;
      const Blame where = !memory          ? Blame::kCacheBandwidth
                          : physics.reread ? Blame::kMemoryRereads
                                           : Blame::kMemoryStream;
      give(where, flow.queue[j] * (factors[j] - 1) / round);
    }
    return shares;
  }
  const auto& pipes = physics.pipe_seconds;
  const double busiest = *std::max_element(pipes.begin(), pipes.end());
  if (floor <= 0) {
    give(Blame::kDispatchFill, 1);  // an item that does nothing
  } else if (physics.issue >= floor) {
    give(Blame::kUnderfilled, 1);
  } else if (chain >= floor) {
    give(Blame::kSerialStep, 1);
  } else {
    const double sequence = physics.sequence / floor, work = 1 - sequence;
    give(Blame::kSerialStep, sequence);
    if (pipes[index(PipeKind::kMatrix)] >= busiest) {
      const double rows = work * (1 - physics.stationary_share);
      give(Blame::kWeightLoad, work * physics.stationary_share);
      give(Blame::kMatrix, rows * physics.useful_share);
      give(Blame::kPadding, rows * (1 - physics.useful_share));
    } else {
      give(pipes[index(PipeKind::kVector)] >= busiest ? Blame::kVector : Blame::kCacheBandwidth, work);
    }
  }
  return shares;
}

}  // namespace moesim
