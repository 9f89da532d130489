#include "traces/timeline/simulated_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/units/check.h"
#include "workloads/predict.h"

namespace moesim {
namespace {

constexpr double kTera = 1e12, kThousandths = 1000;

double rounded(double value) { return std::round(value * kThousandths) / kThousandths; }

// What of a kernel's time shows on the track of launches; the rest on the track of kernels.
Attribution launch_part(const Attribution& all) {
  Attribution part{};
  part[static_cast<std::size_t>(Blame::kLaunch)] = all[static_cast<std::size_t>(Blame::kLaunch)];
  return part;
}

Attribution without_launch(Attribution all) {
  all[static_cast<std::size_t>(Blame::kLaunch)] = Duration(0);
  return all;
}

}  // namespace

OverlapTracks::OverlapTracks(TrackWriter& writer, TrackWriter::Track group, std::string name)
    : writer_(writer), group_(group), name_(std::move(name)), lanes_{{writer.add_track(group, name_), TimePoint()}} {}

TrackWriter::Track OverlapTracks::take(TimePoint start, TimePoint end) {
  auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.free <= start; });
  if (lane == lanes_.end()) {
    const std::string name = fmt::format("{} that overlap, {}", name_, lanes_.size());
    lane = lanes_.insert(lanes_.end(), {writer_.add_track(group_, name), TimePoint()});
  }
  lane->free = end;
  return lane->track;
}

SimulatedTimeline::SimulatedTimeline(TrackWriter& writer, SimulatedTimelineOptions options)
    : writer_(writer), options_(std::move(options)) {}

void SimulatedTimeline::on_start(const ExecutionPlan& plan, const Machine& machine) {
  MOESIM_CHECK(plan_ == nullptr);  // one run
  plan_ = &plan;
  machine_ = &machine;
  group_ = writer_.add_group(options_.title);
  run_ = writer_.add_track(group_, "run");
  const auto of_layer = [](const Kernel& kernel) { return kernel.layer >= 0; };
  if (std::any_of(plan.kernels().begin(), plan.kernels().end(), of_layer)) {
    layers_ = writer_.add_track(group_, "layers");
  }
  launches_.emplace(writer_, group_, "launches");
  kernels_.emplace(writer_, group_, "kernels");
  counters_.emplace(writer_, group_, machine, options_.counter_step);
  const std::int64_t shown = std::min(options_.units.value_or(machine.units), machine.units);
  const TrackWriter::Track items =
      writer_.add_group(fmt::format("{}: work items of {} of {} units", options_.title, shown, machine.units));
  items_.emplace(writer_, items, plan, machine, options_.units);
  experts_.emplace(writer_, options_.title + ": experts whose weights stream", plan);
}

void SimulatedTimeline::on_span(const Span& span) {
  items_->add(span);
  experts_->add(span);
}

void SimulatedTimeline::on_load(const MachineLoad& load) { counters_->add(load); }

void SimulatedTimeline::on_end(const SimulationResult& result) {
  counters_->finish();
  write_run(result);
  std::vector<std::uint32_t> order(result.kernels.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return result.kernels[a].start < result.kernels[b].start; });
  if (layers_ != 0) write_layers(result, order);
  for (const std::uint32_t k : order) {
    write_launch(k, result);
    write_kernel(k, result.kernels[k]);
  }
}

void SimulatedTimeline::write_run(const SimulationResult& result) {
  arguments_.clear();
  for (const auto& [name, value] : options_.facts) arguments_.text(name, value);
  arguments_.whole("kernels", static_cast<std::int64_t>(result.kernels.size()));
  arguments_.whole("work_items", result.items);
  for (std::size_t j = machine_->channels.size(); j-- > 0;) {
    const Channel& channel = machine_->channels[j];
    arguments_.text(j + 1 == machine_->channels.size() ? "memory_peak" : "cache_peak",
                    fmt::format("{:.3f} TB/s", channel.peak.value() / kTera));
  }
  arguments_.attribution(result.attribution);
  writer_.slice(run_, TimePoint(), result.total,
                fmt::format("{}, {:.2f} us", options_.title, to_microseconds(result.total)), "run", arguments_.all());
}

// A layer lasts from the end of what came before it to its last kernel's.
void SimulatedTimeline::write_layers(const SimulationResult& result, const std::vector<std::uint32_t>& order) {
  TimePoint from;
  for (std::size_t i = 0; i < order.size();) {
    const std::int32_t layer = plan_->kernels()[order[i]].layer;
    TimePoint to = from;
    Attribution attribution{};
    std::int64_t kernels = 0;
    for (; i < order.size() && plan_->kernels()[order[i]].layer == layer; ++i, ++kernels) {
      const KernelResult& kernel = result.kernels[order[i]];
      to = std::max(to, kernel.end);
      for (std::size_t b = 0; b < kBlameCount; ++b) attribution[b] += kernel.attribution[b];
    }
    arguments_.clear();
    arguments_.whole("kernels", kernels);
    arguments_.attribution(attribution);
    const std::string name = layer >= 0 ? fmt::format("layer {}", layer) : "outside the layers";
    writer_.slice(layers_, from, to - from, name, "layer", arguments_.all());
    from = to;
  }
}

void SimulatedTimeline::write_launch(std::uint32_t k, const SimulationResult& result) {
  const KernelResult& kernel = result.kernels[k];
  arguments_.clear();
  arguments_.text("mode", launch_name(plan_->launch_mode()));
  const std::uint32_t begin = plan_->predecessor_offsets()[k], end = plan_->predecessor_offsets()[k + 1];
  std::string after = "nothing";
  TimePoint latest(-1);
  for (std::uint32_t i = begin; i < end; ++i) {
    const std::uint32_t before = plan_->predecessors()[i];
    if (result.kernels[before].end <= latest) continue;
    latest = result.kernels[before].end;
    after = plan_->kernels()[before].name;
  }
  arguments_.text("waited_for", std::move(after));
  arguments_.attribution(launch_part(kernel.attribution));
  writer_.slice(launches_->take(kernel.launch, kernel.start), kernel.launch, kernel.start - kernel.launch,
                plan_->kernels()[k].name, "launch", arguments_.all());
}

void SimulatedTimeline::write_kernel(std::uint32_t k, const KernelResult& result) {
  const Kernel& kernel = plan_->kernels()[k];
  const ExpertRows experts = expert_rows(kernel);
  double useful = 0, issued = 0;
  for (const ItemGroup& group : kernel.groups) {
    useful += static_cast<double>(group.count) * kernel.classes[group.item_class].useful_flops;
    issued += static_cast<double>(group.count) * kernel.classes[group.item_class].issued_flops;
  }
  const double seconds = to_seconds(result.end - result.start);
  arguments_.clear();
  if (kernel.layer >= 0) arguments_.whole("layer", kernel.layer);
  arguments_.text("stage", kernel.stage);
  arguments_.text("kind", kernel.helper ? "helper" : "product or attention");
  arguments_.whole("grid", result.items);
  arguments_.whole("slots", result.slots);
  arguments_.number("waves", rounded(static_cast<double>(result.items) / static_cast<double>(result.slots)));
  arguments_.whole("threads_of_item", kernel.footprint[kThreadsAt]);
  arguments_.whole("registers_of_item", kernel.footprint[kRegistersAt]);
  arguments_.whole("on_chip_bytes_of_item", kernel.footprint[kOnChipBytesAt]);
  arguments_.whole("bytes_from_memory", result.memory_read.value());
  arguments_.whole("bytes_reread", result.memory_reread.value());
  arguments_.whole("bytes_into_units", result.cache_read.value());
  arguments_.whole("bytes_written", result.written.value());
  arguments_.number("memory_tb_per_s", seconds > 0 ? rounded(result.memory_read.as_double() / seconds / kTera) : 0);
  arguments_.whole("flops_useful", std::llround(useful));
  arguments_.whole("flops_issued", std::llround(issued));
  if (experts.experts > 0) {
    arguments_.whole("experts", experts.experts);
    arguments_.whole("rows", experts.rows);
  }
  arguments_.attribution(without_launch(result.attribution));
  writer_.slice(kernels_->take(result.start, result.end), result.start, result.end - result.start, kernel.name,
                kernel.helper ? "helper" : "kernel", arguments_.all());
}

}  // namespace moesim
