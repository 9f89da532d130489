#include "traces/timeline/expert_tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace moesim {
namespace {

constexpr double kRounding = 1e-9;  // of an item: no part of it

template <class Visit>
void visit_labels(const Kernel& kernel, const Visit& visit) {
  for (const LabelRows& label : kernel.labels) visit(label.label, label.rows);
  for (const ItemGroup& group : kernel.groups) {
    if (group.label >= 0) visit(group.label, group.rows);
  }
}

}  // namespace

ExpertRows expert_rows(const Kernel& kernel) {
  std::set<std::int32_t> experts;
  ExpertRows all;
  visit_labels(kernel, [&](std::int32_t label, std::int32_t rows) {
    experts.insert(label);
    all.rows += rows;
  });
  all.experts = static_cast<std::int64_t>(experts.size());
  return all;
}

void ExpertTracks::Use::add(const Span& span, const ItemClass& item, double share) {
  const double items = static_cast<double>(span.items) * share;
  const double time = items * (span.end - span.start).as_double();
  from = std::min(from, span.flow);
  to = std::max(to, span.drain);
  bytes += items * item.read.as_double();
  useful_flops += items * item.useful_flops;
  issued_flops += items * item.issued_flops;
  for (std::size_t b = 0; b < kBlameCount; ++b) bound[b] += time * span.blame[b];
}

ExpertTracks::ExpertTracks(TrackWriter& writer, const std::string& group, const ExecutionPlan& plan)
    : writer_(writer), plan_(plan) {
  for (const Kernel& kernel : plan.kernels()) {
    visit_labels(kernel, [&](std::int32_t label, std::int32_t) { tracks_.try_emplace(label); });
  }
  if (tracks_.empty()) return;
  const TrackWriter::Track of_all = writer.add_group(group);
  for (auto& [label, track] : tracks_) track.track = writer.add_track(of_all, fmt::format("expert {}", label));
}

void ExpertTracks::add(const Span& span) {
  const Kernel& kernel = plan_.kernels()[span.kernel];
  const ItemGroup& group = kernel.groups[span.group];
  const auto [it, first] = uses_.try_emplace(span.kernel);
  Uses& uses = it->second;
  if (first) {
    uses.unseen = kernel.items();
    uses.counted.resize(kernel.groups.size());
    uses.rows_before.push_back(0);
    for (const LabelRows& label : kernel.labels) uses.rows_before.push_back(uses.rows_before.back() + label.rows);
  }
  if (group.label >= 0) {
    Use& use = uses.experts[group.label];
    use.add(span, kernel.classes[group.item_class], 1);
    if (!uses.counted[span.group]) use.rows += group.rows;
    uses.counted[span.group] = true;
  } else if (!kernel.labels.empty()) {
    add_of_kernel(kernel, span, uses);
  }
  uses.unseen -= span.items;
  if (uses.unseen > 0) return;
  write(kernel, uses);
  uses_.erase(it);
}

void ExpertTracks::add_of_kernel(const Kernel& kernel, const Span& span, Uses& uses) {
  const ItemGroup& group = kernel.groups[span.group];
  const auto entries = static_cast<std::int64_t>(kernel.labels.size());
  const std::int64_t all_rows = uses.rows_before.back();
  const auto entry_of_row = [&](std::int64_t row) {
    return std::upper_bound(uses.rows_before.begin(), uses.rows_before.end(), row) - uses.rows_before.begin() - 1;
  };
  const auto touch = [&](std::int64_t entry, double share) {
    const LabelRows& label = kernel.labels[static_cast<std::size_t>(entry)];
    Use& use = uses.experts[label.label];
    use.rows = label.rows;
    use.add(span, kernel.classes[group.item_class], share);
  };
  switch (kernel.label_order) {
    case LabelOrder::kInterleaved:
      if (span.items < all_rows) {
        for (std::int64_t i = 0; i < span.items; ++i) {
          touch(entry_of_row((span.first_item + i) % all_rows), 1 / static_cast<double>(span.items));
        }
        return;
      }
      for (std::int64_t e = 0; e < entries; ++e) {
        const std::int32_t rows = kernel.labels[static_cast<std::size_t>(e)].rows;
        touch(e, static_cast<double>(rows) / static_cast<double>(all_rows));
      }
      return;
    case LabelOrder::kItemsInTurn: {
      const double rows_of_item = static_cast<double>(all_rows) / static_cast<double>(group.count);
      const double from = static_cast<double>(span.first_item) * rows_of_item;
      const double to = static_cast<double>(span.first_item + span.items) * rows_of_item;
      for (std::int64_t e = 0; e < entries; ++e) {
        const auto begin = static_cast<double>(uses.rows_before[static_cast<std::size_t>(e)]);
        const auto end = static_cast<double>(uses.rows_before[static_cast<std::size_t>(e + 1)]);
        const double overlap = std::min(to, end) - std::max(from, begin);
        if (overlap > kRounding * rows_of_item) touch(e, overlap / (to - from));
      }
      return;
    }
    case LabelOrder::kEachInTurn:
      for (std::int64_t e = 0; e < entries; ++e) touch(e, 1 / static_cast<double>(entries));
      return;
  }
}

void ExpertTracks::write(const Kernel& kernel, Uses& uses) {
  if (kernel.label_order == LabelOrder::kEachInTurn && !kernel.labels.empty() && !uses.experts.empty()) {
    // All items go through the experts side by side: equal parts of the kernel's time.
    const TimePoint from = uses.experts.begin()->second.from;
    const Duration all = uses.experts.begin()->second.to - from;
    const auto parts = static_cast<std::int64_t>(uses.experts.size());
    std::int64_t part = 0;
    for (auto& [label, use] : uses.experts) {
      use.from = from + Duration(all.value() / parts * part);
      ++part;
      use.to = part == parts ? from + all : from + Duration(all.value() / parts * part);
    }
  }
  const std::string name = kernel.layer < 0 ? kernel.name : fmt::format("layer {} {}", kernel.layer, kernel.name);
  for (const auto& [label, use] : uses.experts) {
    Track& track = tracks_.at(label);
    const TimePoint from = std::max(use.from, track.end);  // kernels that overlap are drawn one after another
    if (from > use.to) continue;
    arguments_.clear();
    if (kernel.layer >= 0) arguments_.whole("layer", kernel.layer);
    arguments_.text("stage", kernel.stage);
    arguments_.whole("expert", label);
    arguments_.whole("rows", use.rows);
    arguments_.whole("weight_bytes", std::llround(use.bytes));
    arguments_.whole("flops_useful", std::llround(use.useful_flops));
    arguments_.whole("flops_issued", std::llround(use.issued_flops));
    arguments_.limited_by(use.bound);
    writer_.slice(track.track, from, use.to - from, name, "expert", arguments_.all());
    track.end = use.to;
  }
}

}  // namespace moesim
