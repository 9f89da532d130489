#include "traces/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr StageSet kRouting = StageSet(MoeStage::kRouter) | MoeStage::kTopk;
// Of layers in which a kernel began while the one before still ran: from this share on launches count as programmatic.
constexpr double kOverlapShare = 0.5;
constexpr Duration kOverlap(100'000);  // picoseconds: above the profiler's resolution
// Of a layer's time in gaps: above, the host was waited for; below, the trace shows none.
constexpr double kHostGapShare = 0.2;
constexpr double kNoGapShare = 0.005;
constexpr double kExpertTolerance = 0.1;
constexpr Duration kLeastMeasured(50'000);  // picoseconds: below, an error in percent says nothing

// Of an even count the mean of the middle two; `values` is not empty.
Duration median(std::vector<Duration> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return Duration((values[middle - 1] + values[middle]).value() / 2);
}

MeasuredTime over_layers(const std::vector<Duration>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

// Groups of stages that some kernel of either side does together.
std::vector<StageSet> fused_groups(const std::vector<StageSet>& kernels) {
  std::vector<StageSet> groups;
  for (StageSet merged : kernels) {
    if (merged.empty()) continue;
    std::erase_if(groups, [&merged](StageSet group) {
      if (!group.meets(merged)) return false;
      merged = merged | group;
      return true;
    });
    groups.push_back(merged);
  }
  const auto first_stage = [](StageSet group) {
    std::size_t s = 0;
    while (!group.has(static_cast<MoeStage>(s))) ++s;
    return s;
  };
  std::sort(groups.begin(), groups.end(), [&](StageSet a, StageSet b) { return first_stage(a) < first_stage(b); });
  return groups;
}

using Spans = std::vector<std::pair<TimePoint, TimePoint>>;

class SectionComparer {
 public:
  SectionComparer(const ProfilerTrace& trace, const TraceSection& section, const ComparisonRequest& request,
                  LayerSimulation& simulation)
      : trace_(trace), section_(section), request_(request), simulation_(simulation) {
    for (const LayerInstance& layer : section.layers) {
      if (layer.regular) alike_.push_back(&layer);
    }
    for (const LayerInstance* layer : alike_) {
      Spans spans;
      for (const std::size_t i : layer->kernels) {
        measured_sets_.insert(section.events[i].stages);
        spans.emplace_back(event_of(i).start, event_of(i).end());
      }
      own_times_.push_back(own_times(spans));
    }
  }

  SectionComparison compare() {
    SectionComparison result;
    result.name = section_.name;
    result.repeats = section_.repeats;
    result.layers = static_cast<std::int64_t>(section_.layers.size());
    result.alike = static_cast<std::int64_t>(alike_.size());
    result.period = section_.period;
    result.signature = alike_.front()->signature;
    result.tokens = tokens();
    const Scope scope = request_.scope.value_or(routes() ? Scope::kMoeLayer : Scope::kExpertFfn);
    const LaunchMode launch = request_.launch.value_or(launch_seen());
    result.scope = scope_name(scope);
    result.launch = launch_name(launch);
    run_ = &simulation_.run(strategy(), result.tokens, scope, launch);
    result.simulated = run_->layer;
    measure_totals(result);
    fill_stages(result);
    note_limits(result);
    return result;
  }

 private:
  [[nodiscard]] const DeviceEvent& event_of(std::size_t i) const { return trace_.events[section_.events[i].event]; }
  [[nodiscard]] std::string place() const {
    return section_.name.empty() ? "the trace" : fmt::format("'{}'", section_.name);
  }

  [[nodiscard]] std::int64_t tokens() const {
    if (request_.tokens) return *request_.tokens;
    if (section_.tokens) return *section_.tokens;
    throw InputError({"--concurrency", "",
                      fmt::format("not given, and {} does not tell the tokens of its step", place()),
                      "a number of tokens", ""});
  }

  [[nodiscard]] StrategyChoice strategy() const {
    if (request_.strategy) return *request_.strategy;
    if (!section_.strategy.empty()) return parse_strategy(section_.strategy);
    throw InputError({"--strategy", "", fmt::format("not given, and the kernels of {} do not tell it", place()),
                      "a strategy (moesim strategies)", ""});
  }

  [[nodiscard]] bool routes() const {
    return std::any_of(measured_sets_.begin(), measured_sets_.end(), [](StageSet s) { return s.meets(kRouting); });
  }

  [[nodiscard]] LaunchMode launch_seen() const {
    std::size_t overlapped = 0;
    for (const LayerInstance* layer : alike_) {
      bool overlaps = false;
      for (std::size_t k = 1; k < layer->kernels.size(); ++k) {
        const DeviceEvent& before = event_of(layer->kernels[k - 1]);
        overlaps = overlaps || event_of(layer->kernels[k]).start + kOverlap < before.end();
      }
      overlapped += overlaps ? 1 : 0;
    }
    if (static_cast<double>(overlapped) >= kOverlapShare * static_cast<double>(alike_.size())) {
      return LaunchMode::kProgrammatic;
    }
    return trace_.graph_launches ? LaunchMode::kGraph : LaunchMode::kStream;
  }

  void measure_totals(SectionComparison& result) const {
    std::vector<Duration> busy, gaps, spans;
    for (const LayerInstance* layer : alike_) {
      busy.push_back(busy_time(trace_, section_, layer->kernels));
      TimePoint last = event_of(layer->kernels.front()).end();
      for (const std::size_t i : layer->kernels) last = std::max(last, event_of(i).end());
      spans.push_back(last - event_of(layer->kernels.front()).start);
      gaps.push_back(spans.back() - busy.back());
    }
    result.busy = over_layers(busy);
    result.gaps = over_layers(gaps);
    result.span = over_layers(spans);
    std::vector<std::size_t> moe, all;
    for (std::size_t i = 0; i < section_.events.size(); ++i) {
      all.push_back(i);
      if (section_.events[i].in_layer) moe.push_back(i);
    }
    result.moe_time = busy_time(trace_, section_, moe);
    result.device_time = busy_time(trace_, section_, all);
  }

  static StageSet stage_of(const KernelSummary& kernel) {
    const std::optional<StageSet> stages = parse_stages(kernel.stage);
    MOESIM_CHECK(stages.has_value());
    return *stages;
  }

  void fill_stages(SectionComparison& result) const {
    std::vector<StageSet> sets(measured_sets_.begin(), measured_sets_.end());
    for (const std::vector<KernelSummary>& kernels : run_->kernels) {
      for (const KernelSummary& kernel : kernels) sets.push_back(stage_of(kernel));
    }
    for (const StageSet group : fused_groups(sets)) {
      StageRow row{group, measured_stage(group), result.layer() ? simulated_stage(group) : std::nullopt};
      result.stages.push_back(std::move(row));
    }
  }

  [[nodiscard]] std::optional<MeasuredStage> measured_stage(StageSet group) const {
    std::vector<Duration> times;
    std::vector<std::int64_t> counts;
    for (std::size_t l = 0; l < alike_.size(); ++l) {
      Duration time;
      std::int64_t count = 0;
      for (std::size_t k = 0; k < alike_[l]->kernels.size(); ++k) {
        if (!section_.events[alike_[l]->kernels[k]].stages.meets(group)) continue;
        time += own_times_[l][k];
        ++count;
      }
      if (count == 0) continue;
      times.push_back(time);
      counts.push_back(count);
    }
    if (times.empty()) return std::nullopt;
    std::sort(counts.begin(), counts.end());
    return MeasuredStage{over_layers(times), counts[counts.size() / 2]};
  }

  [[nodiscard]] std::optional<SimulatedStage> simulated_stage(StageSet group) const {
    Duration time;
    std::size_t kernels = 0;
    Attribution attribution{};
    for (const std::vector<KernelSummary>& prediction : run_->kernels) {
      Spans spans;
      for (const KernelSummary& kernel : prediction) spans.emplace_back(kernel.result.start, kernel.result.end);
      const std::vector<Duration> own = own_times(spans);
      for (std::size_t k = 0; k < prediction.size(); ++k) {
        if (!stage_of(prediction[k]).meets(group)) continue;
        ++kernels;
        time += own[k];
        for (std::size_t b = 0; b < kBlameCount; ++b) attribution[b] += prediction[k].result.attribution[b];
      }
    }
    if (kernels == 0) return std::nullopt;
    const auto [limit, share] = limit_of(attribution);
    return SimulatedStage{mean_of(time, run_->kernels.size()),
                          static_cast<double>(kernels) / static_cast<double>(run_->kernels.size()), limit, share};
  }

  // Of a loop over experts with two products each: how many it ran; median over layers.
  [[nodiscard]] std::optional<std::int64_t> looped_experts() const {
    std::vector<std::int64_t> counts;
    for (const LayerInstance* layer : alike_) {
      counts.push_back(std::count_if(layer->kernels.begin(), layer->kernels.end(), [&](std::size_t i) {
        const ClassifiedEvent& event = section_.events[i];
        return event.kernel_class == KernelClass::kGemm && event.stages == StageSet(MoeStage::kGemm2);
      }));
    }
    std::sort(counts.begin(), counts.end());
    const std::int64_t count = counts[counts.size() / 2];
    return count > 1 ? std::optional(count) : std::nullopt;
  }

  // What stands behind a large error that the table does not show.
  void note_limits(SectionComparison& result) const {
    if (result.alike == 1) {
      result.limits.emplace_back("one layer: no spread, and what the kernel's first run costs is in it");
    }
    if (const SimulatedLayer* layer = result.layer()) note_simulated(*layer, result.limits);
    note_gaps(result);
    note_left_out(result.limits);
  }

  void note_simulated(const SimulatedLayer& layer, std::vector<std::string>& notes) const {
    if (layer.implementation.empty()) notes.emplace_back("no fit to these kernels: the device's constants alone");
    const std::optional<std::int64_t> experts = looped_experts();
    const double drawn = layer.distinct_experts;
    if (!experts || std::abs(static_cast<double>(*experts) - drawn) <= kExpertTolerance * drawn) return;
    notes.push_back(
        fmt::format("the loop ran {} experts, the routings drawn have {:.4g} (--routing)", *experts, drawn));
  }

  void note_gaps(SectionComparison& result) const {
    const double share = result.gaps.median.as_double() / std::max(result.span.median.as_double(), 1.0);
    if (!trace_.graph_launches && share > kHostGapShare) {
      result.limits.emplace_back(
          "launched kernel by kernel under a profiler: the gaps wait for the host, which the simulation leaves out");
    }
    if (trace_.graph_launches && share < kNoGapShare) {
      result.limits.emplace_back(
          "kernels follow each other without a gap: their times hold their launches, which the simulation counts as "
          "gaps");
    }
  }

  // MoE kernels that no row of the table holds.
  void note_left_out(std::vector<std::string>& notes) const {
    std::int64_t unstaged = 0;
    Duration unstaged_time, apart_time;
    StageSet apart;
    for (const LayerInstance* layer : alike_) {
      for (const std::size_t i : layer->kernels) {
        if (!section_.events[i].stages.empty()) continue;
        ++unstaged;
        unstaged_time += event_of(i).length;
      }
    }
    for (const LayerInstance& other : section_.apart) {
      for (const std::size_t i : other.kernels) {
        apart = apart | section_.events[i].stages;
        apart_time += event_of(i).length;
      }
    }
    if (unstaged > 0) {
      notes.push_back(
          fmt::format("{} kernels of these layers ({:.2f} µs in all) have no stage: --kernels FILE names them",
                      unstaged, to_microseconds(unstaged_time)));
    }
    if (!section_.apart.empty()) {
      notes.push_back(
          fmt::format("{} on streams of their own or cut off from their layer, {:.2f} µs in all, are not compared",
                      apart.name(), to_microseconds(apart_time)));
    }
  }

  const ProfilerTrace& trace_;
  const TraceSection& section_;
  const ComparisonRequest& request_;
  LayerSimulation& simulation_;
  const LayerRun* run_ = nullptr;
  std::vector<const LayerInstance*> alike_;
  std::vector<std::vector<Duration>> own_times_;  // of each layer's kernels
  std::set<StageSet> measured_sets_;
};

void check_model(const TraceSection& section, const ComparisonRequest& request) {
  if (section.experts == 0 || section.experts == request.model.experts + request.model.zero_experts) return;
  throw InputError({"--model", "", fmt::format("{} with {} experts", request.model.name, request.model.experts),
                    fmt::format("a model of {} experts, as the trace's MoE operator says", section.experts), ""});
}

}  // namespace

std::optional<double> error_percent(Duration simulated, Duration measured) {
  if (measured < kLeastMeasured) return std::nullopt;
  return 100 * (simulated.as_double() - measured.as_double()) / measured.as_double();
}

Duration SectionComparison::compared_measured() const {
  Duration total;
  for (const StageRow& row : stages) {
    if (row.measured && row.simulated) total += row.measured->time.median;
  }
  return total;
}

Duration SectionComparison::compared_simulated() const {
  Duration total;
  for (const StageRow& row : stages) {
    if (row.measured && row.simulated) total += row.simulated->time;
  }
  return total;
}

Comparison compare(const ProfilerTrace& trace, const TraceLayers& layers, const ComparisonRequest& request) {
  MOESIM_CHECK(layers.has_layers());
  Comparison result;
  result.tool_version = request.tool_version;
  result.trace_file = trace.file;
  result.model = request.model.name;
  result.model_file = request.model.file;
  result.model_overrides = request.model_overrides;
  result.weights = format_name(request.model.expert_weights);
  result.activations = format_name(request.activations);
  result.device = request.hardware.name;
  result.device_title = request.hardware.title;
  result.device_file = request.hardware.file;
  result.device_hash = request.hardware.hash;
  result.overrides = request.overrides;
  result.clock_hz = request.clock_hz.value_or(request.hardware[Hw::kClockBoost]);
  result.calibration = request.calibration ? calibration_name(*request.calibration, request.hardware) : "uncalibrated";
  result.routing = request.routing;
  result.seed = request.seed;
  result.tp = request.tp;
  result.ep = request.ep;
  result.taken = request.taken;
  result.all_events = trace.all_events;
  result.device_events = static_cast<std::int64_t>(trace.events.size());
  result.device_time = layers.device_time;
  result.named_time = layers.named_time;
  result.by_class = layers.by_class;
  result.moe_kernels = layers.moe_kernels;
  result.staged_kernels = layers.staged_kernels;
  LayerSimulation simulation(request);
  for (std::size_t s = 0; s < layers.sections.size(); ++s) {
    const TraceSection& section = layers.sections[s];
    if (section.layers.empty()) continue;
    check_model(section, request);
    SectionComparison comparison = SectionComparer(trace, section, request, simulation).compare();
    comparison.section = s;
    if (const SimulatedLayer* layer = comparison.layer()) result.samples = std::max(result.samples, layer->samples);
    result.sections.push_back(std::move(comparison));
  }
  return result;
}

}  // namespace moesim
