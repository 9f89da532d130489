#include "sim/engine/recorder.h"

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

constexpr std::size_t index(Blame blame) { return static_cast<std::size_t>(blame); }

template <class Value>
Value& grown(std::vector<Value>& values, std::size_t at, const Value& fill) {
  if (at >= values.size()) values.resize(at + 1, fill);
  return values[at];
}

}  // namespace

Recorder::Recorder(const ExecutionPlan& plan, const Machine& machine, TimelineListener& listener)
    : plan_(plan), machine_(machine), listener_(listener) {
  listener_.on_start(plan, machine);
}

void Recorder::dispatched(std::uint32_t cohort, const Span& span, std::int64_t before_wait) {
  grown(pieces_, cohort, {}).assign(1, {span, span.start.value() + before_wait});
}

void Recorder::released(std::uint32_t cohort, std::int64_t at) {
  Piece& piece = pieces_[cohort].front();
  piece.span.blame[index(Blame::kSynchronisation)] = static_cast<double>(at - piece.may_wait_from);
}

void Recorder::flow_started(std::uint32_t cohort, std::uint32_t record, std::int64_t at) {
  Span& span = pieces_[cohort].front().span;
  span.flow = TimePoint(at);
  const double waited = span.blame[index(Blame::kSynchronisation)];
  span.blame[index(Blame::kDispatchFill)] = (span.flow - span.start).as_double() - waited;
  const Blames& until_now = grown(blamed_, record, {});
  for (std::size_t b = 0; b < kBlameCount; ++b) span.blame[b] -= until_now[b];
}

void Recorder::merged(std::uint32_t into, std::uint32_t cohort) {
  pieces_[into].insert(pieces_[into].end(), pieces_[cohort].begin(), pieces_[cohort].end());
}

void Recorder::split(std::uint32_t cohort, std::uint32_t off, std::int64_t items) {
  std::vector<Piece>& taken = grown(pieces_, off, {});
  std::vector<Piece>& left = pieces_[cohort];
  taken.clear();
  while (items > 0) {
    taken.push_back(left.back());
    Span& from = left.back().span;
    Span& to = taken.back().span;
    to.items = std::min(items, from.items);
    from.items -= to.items;
    to.first_item += from.items;
    items -= to.items;
    if (from.items == 0) left.pop_back();
  }
}

void Recorder::drained(std::uint32_t cohort, std::uint32_t record, std::int64_t at) {
  for (Piece& piece : pieces_[cohort]) {
    piece.span.drain = TimePoint(at);
    for (std::size_t b = 0; b < kBlameCount; ++b) piece.span.blame[b] += blamed_[record][b];
  }
}

void Recorder::ended(std::uint32_t cohort, std::int64_t at) {
  for (Piece& piece : pieces_[cohort]) {
    Span& span = piece.span;
    span.end = TimePoint(at);
    span.blame[index(Blame::kDispatchFill)] += (span.end - span.drain).as_double();
    double all = 0;
    for (double& picoseconds : span.blame) all += picoseconds = std::max(0.0, picoseconds);
    if (all > 0) {
      for (double& share : span.blame) share /= all;
    } else {
      span.blame[index(Blame::kDispatchFill)] = 1;
    }
    listener_.on_span(span);
  }
}

const ChannelArray& Recorder::moved(std::uint32_t record, const FlowTable& flows) {
  ChannelArray& bytes = grown(moved_, record, {-1});
  if (bytes[0] < 0) {
    const FlowKey& key = flows[record].key;
    const ItemClass& item = plan_.kernels()[key.kernel].classes[key.item_class];
    bytes = bytes_moved(machine_, with_ahead(item, key.ahead, 1), key.misses);
  }
  return bytes;
}

void Recorder::changed(std::int64_t now, const std::vector<KernelItems>& running, const FlowTable& flows,
                       const BlameMeter& meter) {
  if (load_.to > load_.from) listener_.on_load(load_);
  load_ = {};
  load_.from = load_.to = TimePoint(now);
  for (const KernelItems& items : running) {
    load_.flowing += items.flowing;
    load_.waiting += items.active - items.flowing;
    load_.on_chip_bytes += static_cast<double>(items.resident) *
                           static_cast<double>(plan_.kernels()[items.kernel].footprint[kOnChipBytesAt]);
    load_.bound[index(Blame::kSynchronisation)] += static_cast<double>(items.parked);
    load_.bound[index(Blame::kDispatchFill)] += static_cast<double>(items.active - items.flowing - items.parked);
  }
  for (const std::uint32_t i : flows.active()) {
    const FlowRecord& record = flows[i];
    const FlowPhysics& physics = flows.physics(record);
    const auto items = static_cast<double>(record.items);
    const double steps = items * record.rate * record.steps;  // of all items, a second
    const ChannelArray& bytes = moved(i, flows);
    double latency = physics.load;  // seconds, of a step's loads
    for (std::size_t j = 0; j < machine_.channels.size(); ++j) {
      load_.rate[j] += steps * bytes[j];
      load_.use[j] += steps * record.flow.bytes[j] / machine_.channels[j].peak.value();
      latency += record.flow.hop[j] + record.flow.queue[j] * (flows.factors()[j] - 1);
    }
    const ItemClass& item = plan_.kernels()[record.key.kernel].classes[record.key.item_class];
    const double asked = (item.read + item.resident_read).as_double() / static_cast<double>(item.steps);
    load_.bytes_in_flight += steps * asked * latency;
    load_.matrix_use += steps * physics.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)];

    Blames& binding = grown(binding_, i, {});
    const double tail = meter.tail(record.key.kernel);
    for (std::size_t b = 0; b < kBlameCount; ++b) binding[b] = (1 - tail) * record.blame[b];
    binding[index(Blame::kTail)] += tail;
    for (std::size_t b = 0; b < kBlameCount; ++b) load_.bound[b] += items * binding[b];
  }
  load_.matrix_use = std::min(1.0, load_.matrix_use / static_cast<double>(machine_.units));
  for (double& use : load_.use) use = std::min(1.0, use);
}

void Recorder::advance(std::int64_t to, const FlowTable& flows) {
  const double interval = (TimePoint(to) - load_.to).as_double();
  for (const std::uint32_t i : flows.active()) {
    Blames& blamed = grown(blamed_, i, {});
    for (std::size_t b = 0; b < kBlameCount; ++b) blamed[b] += interval * binding_[i][b];
  }
  load_.to = TimePoint(to);
}

void Recorder::finish(const SimulationResult& result) {
  if (load_.to > load_.from) listener_.on_load(load_);
  listener_.on_end(result);
}

}  // namespace moesim
