#include "traces/timeline/item_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moesim {

ItemLanes::ItemLanes(TrackWriter& writer, TrackWriter::Track group, const ExecutionPlan& plan, const Machine& machine,
                     std::optional<std::int64_t> units)
    : writer_(writer),
      group_(group),
      plan_(plan),
      units_(machine.units),
      shown_(std::min(units.value_or(machine.units), machine.units)),
      lanes_(static_cast<std::size_t>(shown_)) {}

void ItemLanes::add(const Span& span) {
  const Kernel& kernel = plan_.kernels()[span.kernel];
  const auto [it, first] = slots_.try_emplace(span.kernel);
  Slots& slots = it->second;
  if (first) slots.unseen = kernel.items();
  const bool overlaps = kernel.schedule.kind == Schedule::Kind::kPersistent && kernel.schedule.look_ahead > 0;
  const TimePoint leaves = overlaps ? span.drain : span.end;
  const std::int32_t label = kernel.groups[span.group].label;
  const std::string name = label < 0 ? kernel.name : fmt::format("{}, expert {}", kernel.name, label);

  std::vector<std::int64_t> taken;
  taken.reserve(static_cast<std::size_t>(span.items));
  // Spans come in the order of their ends: the slot that was left last before the start leaves the most room to others.
  for (std::int64_t left = span.items; left > 0;) {
    auto after = slots.free.upper_bound(span.start);
    if (after == slots.free.begin()) {
      for (; left > 0; --left) taken.push_back(slots.made++);
      break;
    }
    --after;
    std::vector<std::int64_t>& here = after->second;
    const std::int64_t count = std::min(left, static_cast<std::int64_t>(here.size()));
    taken.insert(taken.end(), here.end() - count, here.end());
    here.resize(here.size() - static_cast<std::size_t>(count));
    if (here.empty()) slots.free.erase(after);
    left -= count;
  }
  bool described = false;
  for (const std::int64_t slot : taken) {
    const std::int64_t unit = slot % units_;
    if (unit >= shown_) continue;
    if (!described) describe(span);
    described = true;
    draw(unit, span, leaves, name);
  }
  std::vector<std::int64_t>& left = slots.free[leaves];
  left.insert(left.end(), taken.begin(), taken.end());
  slots.unseen -= span.items;
  if (slots.unseen == 0) slots_.erase(it);
}

void ItemLanes::draw(std::int64_t unit, const Span& span, TimePoint leaves, const std::string& name) {
  std::vector<Lane>& lanes = lanes_[static_cast<std::size_t>(unit)];
  Lane* best = nullptr;
  for (Lane& lane : lanes) {
    if (lane.free <= span.start && (best == nullptr || lane.free > best->free)) best = &lane;
  }
  if (best == nullptr) {
    const TrackWriter::Track track = writer_.add_track(group_, fmt::format("unit {}, item {}", unit, lanes.size()));
    best = &lanes.emplace_back(Lane{track, TimePoint()});
  }
  writer_.slice(best->track, span.start, leaves - span.start, name, "items", arguments_.all());
  best->free = leaves;
}

void ItemLanes::describe(const Span& span) {
  const Kernel& kernel = plan_.kernels()[span.kernel];
  const ItemGroup& group = kernel.groups[span.group];
  const ItemClass& item = kernel.classes[group.item_class];
  arguments_.clear();
  if (kernel.layer >= 0) arguments_.whole("layer", kernel.layer);
  arguments_.text("stage", kernel.stage);
  if (group.label >= 0) {
    arguments_.whole("expert", group.label);
    arguments_.whole("rows", group.rows);
  }
  arguments_.whole("alike_items", span.items);
  arguments_.whole("first_item", span.first_item);
  arguments_.whole("k_steps", item.steps);
  arguments_.whole("weight_bytes", item.read.value());
  arguments_.whole("other_bytes", item.resident_read.value());
  arguments_.whole("bytes_written", item.write.value());
  arguments_.whole("flops_useful", std::llround(item.useful_flops));
  arguments_.whole("flops_issued", std::llround(item.issued_flops));
  arguments_.whole("until_first_step_ps", (span.flow - span.start).value());
  arguments_.whole("steps_ps", (span.drain - span.flow).value());
  arguments_.whole("epilogue_ps", (span.end - span.drain).value());
  std::array<double, kBlameCount> blame{};
  const Duration time = span.end - span.start;
  for (std::size_t b = 0; b < kBlameCount; ++b) blame[b] = span.blame[b] * time.as_double();
  arguments_.attribution(round_attribution(blame, time));
}

}  // namespace moesim
