#include "sim/engine/flow_physics.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/cache.h"

namespace moesim {
namespace {

// Ablation of bytes in flight: so many times as many are. Channels come to their peak but for a millionth.
constexpr double kAnyInFlight = 1 << 20;

constexpr std::size_t index(PipeKind pipe) { return static_cast<std::size_t>(pipe); }

// Bytes of a step that reach each level: all the nearest, what misses there the next.
ChannelArray bytes_reaching(const Machine& machine, const ItemClass& item, const MissSteps& misses) {
  const auto steps = static_cast<double>(item.steps);
  const double from_region = item.read.as_double() / steps;
  ChannelArray reaching{};
  reaching[0] = from_region + item.resident_read.as_double() / steps;
  for (std::size_t j = 0; j < machine.caches.size(); ++j) {
    const double may_miss = j == 0 ? from_region * item.first_share : reaching[j];
    reaching[j + 1] = may_miss * static_cast<double>(misses[j]) / CacheState::kShareSteps;
  }
  return reaching;
}

}  // namespace

double ahead_share(const ItemClass& item, double cuts) {
  return std::min(1.0, item.ahead * cuts / static_cast<double>(item.steps));
}

ItemClass with_ahead(const ItemClass& item, Ahead ahead, double cuts) {
  ItemClass some = item;
  if (ahead.alone) {
    const double share = ahead_share(item, cuts);
    some.read = Bytes(std::llround(item.read.as_double() * share));
    some.resident_read = some.write = Bytes();
    some.stages /= share;  // steps of the whole item stand for these loads
    some.pipe_seconds[index(PipeKind::kMatrix)] = some.pipe_seconds[index(PipeKind::kVector)] = 0;
    some.pipe_seconds[index(PipeKind::kLoadPort)] *= share;
    some.step_latency = some.step_issue = some.step_sequence = Duration();
  } else if (ahead.loaded > 0) {
    const double left = 1 - static_cast<double>(ahead.loaded) / Ahead::kShareSteps;
    some.read = Bytes(std::llround(item.read.as_double() * left));
    some.stages = left > 0 ? item.stages / left : static_cast<double>(item.steps);
    some.step_issue = duration_from_seconds(to_seconds(item.step_issue) * left);
    if (left == 0) some.load_latency = Duration();
  }
  return some;
}

double FlowPhysics::floor(double sharing) const {
  double least = std::max(chain(), issue);
  for (const double seconds : pipe_seconds) least = std::max(least, sequence + sharing * seconds);
  // Items take turns at the port less evenly than a shared pipe would let them, and their chains go on meanwhile.
  const double port = pipe_seconds[index(PipeKind::kLoadPort)];
  const double alone = std::max(chain(), port);
  return std::max(least, std::sqrt(alone * alone + (sharing * sharing - 1) * port * port));
}

FlowPhysics make_physics(const Machine& machine, const ItemClass& item, const MissSteps& misses, bool reread,
                         double cuts, EffectSet without) {
  FlowPhysics physics;
  const auto steps = static_cast<double>(item.steps);
  physics.steps = steps / cuts;
  physics.pipe_seconds = item.pipe_seconds;
  physics.useful_share = item.useful_share;
  const bool any_in_flight = without.has(Effect::kInFlight);
  physics.sequence = without.has(Effect::kSerialStep) ? 0 : to_seconds(item.step_sequence);
  physics.issue = any_in_flight ? 0 : to_seconds(item.step_issue);
  physics.load = any_in_flight ? 0 : to_seconds(item.load_latency);
  physics.reread = reread;
  double& matrix = physics.pipe_seconds[index(PipeKind::kMatrix)];
  double weights = matrix * item.stationary_share, rows = matrix - weights;
  if (without.has(Effect::kPadding)) {
    rows *= item.useful_share;
    physics.useful_share = 1;
  }
  if (without.has(Effect::kWeightLoad)) weights = 0;
  if (without.has(Effect::kMatrix)) rows = 0;
  matrix = weights + rows;
  physics.stationary_share = matrix > 0 ? weights / matrix : 0;
  if (without.has(Effect::kVector)) physics.pipe_seconds[index(PipeKind::kVector)] = 0;
  if (without.has(Effect::kCacheBandwidth)) physics.pipe_seconds[index(PipeKind::kLoadPort)] = 0;

  FlowClass& flow = physics.flow;
  const std::size_t memory = machine.caches.size();
  const double read_weight = without.has(Effect::kByteWeight) ? 1 : item.read_weight;
  const ChannelArray reaching = bytes_reaching(machine, item, misses);
  const double all = reaching[0];
  if (all > 0) flow.memory_share = reaching[memory] / all;
  const double passing =
      (item.read.as_double() * item.read_port_weight + item.resident_read.as_double() * item.resident_port_weight) /
      steps;  // the nearest cache's ports
  for (std::size_t j = 0; j <= memory; ++j) {
    const double beyond = j < memory ? reaching[j + 1] : 0;  // goes on to the next level
    const double here = j == 0 ? passing : reaching[j];
    flow.bytes[j] = j < memory ? here + machine.caches[j].fill_weight * beyond : reaching[j] * read_weight;
    if (all > 0) {
      const double latency = to_seconds(machine.channels[j].latency);
      flow.hop[j] = (reaching[j] - beyond) / all * latency;
      flow.queue[j] = reaching[j] / all * latency;
    }
  }
  // Stores are not waited for, but back up when the memory does. Turning between reads and writes costs (machine.h): the
  // fewer the writes, the smaller the batches in which they are drained.
  const double stored = without.has(Effect::kWrites) ? 0 : item.write.as_double() / steps;
  for (std::size_t j = 0; j < memory; ++j) physics.inserted[j] = reaching[j + 1] + stored;
  const double turns = (machine.memory_write_weight - 1) * std::sqrt(flow.bytes[memory] * stored);
  const double written = stored + turns;
  flow.bytes[memory] += written;
  if (written > 0) flow.queue[memory] += written / (all + written) * to_seconds(machine.channels[memory].latency);
  if (without.has(Effect::kCacheBandwidth)) {
    for (std::size_t j = 0; j < memory; ++j) flow.bytes[j] = flow.queue[j] = 0;
  }
  flow.serial = physics.issue + physics.load + (without.has(Effect::kSerialStep) ? 0 : to_seconds(item.step_latency));
  flow.stages = item.ring_spans_items ? item.stages : std::min(item.stages, steps);
  if (any_in_flight) flow.stages *= kAnyInFlight;
  return physics;
}

ChannelArray bytes_moved(const Machine& machine, const ItemClass& item, const MissSteps& misses) {
  ChannelArray bytes = bytes_reaching(machine, item, misses);
  bytes[machine.caches.size()] += item.write.as_double() / static_cast<double>(item.steps);
  return bytes;
}

double fill_seconds(const Machine& machine, const FlowClass& flow, double items, double rounds) {
  double seconds = 0;
  for (std::size_t j = 0; j < machine.channels.size(); ++j) {
    if (flow.hop[j] == 0) continue;
    const Channel& channel = machine.channels[j];
    const double t = items * flow.stages * flow.bytes[j] / (channel.peak.value() * flow.hop[j]);
    seconds += flow.hop[j] * (1 - (knee(t, channel.knee).factor - t) / rounds);
  }
  return seconds;
}

double burst_share(const Machine& machine, const FlowClass& flow, double items, const ItemClass& item) {
  const std::size_t memory = machine.caches.size();
  const Channel& channel = machine.channels[memory];
  const double unloaded = channel.peak.value() * to_seconds(channel.latency);
  const double queued = 1 - 1 / knee(items * flow.stages * flow.bytes[memory] / unloaded, channel.knee).factor;
  const auto steps = static_cast<double>(item.steps);
  return flow.memory_share * queued * (steps <= item.stages ? 1 : 1 / steps);
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
