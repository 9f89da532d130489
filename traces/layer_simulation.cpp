#include "traces/layer_simulation.h"

#include <algorithm>
#include <cmath>

#include "sim/units/check.h"
#include "traces/trace_layers.h"

namespace moesim {
namespace {

// Adds one routing's kernels, which are not empty.
void add_spans(const std::vector<KernelSummary>& kernels, SimulatedLayer& layer) {
  std::vector<std::pair<TimePoint, TimePoint>> spans;
  TimePoint last = kernels.front().result.end;
  for (const KernelSummary& kernel : kernels) {
    spans.emplace_back(kernel.result.start, kernel.result.end);
    last = std::max(last, kernel.result.end);
  }
  layer.busy += covered_time(std::move(spans));
  layer.span += last - kernels.front().result.start;
}

std::vector<SimulatedKernel> from_first(const std::vector<KernelSummary>& kernels) {
  const TimePoint origin = kernels.front().result.start;
  const auto moved = [origin](TimePoint at) { return TimePoint((at - origin).value()); };
  std::vector<SimulatedKernel> result;
  for (const KernelSummary& kernel : kernels) {
    result.push_back({kernel.name, kernel.stage, moved(kernel.result.start), moved(kernel.result.end),
                      limit_of(kernel.result.attribution).first, kernel.result.memory_read});
  }
  return result;
}

}  // namespace

const LayerRun& LayerSimulation::run(const StrategyChoice& choice, std::int64_t tokens, Scope scope,
                                     LaunchMode launch) {
  const std::tuple key(choice.text, tokens, scope, launch);
  const auto known = runs_.find(key);
  if (known != runs_.end()) return known->second;
  return runs_.emplace(key, simulate(choice, tokens, scope, launch)).first->second;
}

LayerRun LayerSimulation::simulate(const StrategyChoice& choice, std::int64_t tokens, Scope scope,
                                   LaunchMode launch) const {
  const std::vector<RoutedBatch> batches = inputs_.batches(tokens);
  MOESIM_CHECK(!batches.empty());
  PredictOptions options;
  options.scope = scope;
  options.launch = launch;
  options.clock_hz = inputs_.clock_hz;
  if (inputs_.calibration) options.calibration = &*inputs_.calibration;
  LayerRun run;
  SimulatedLayer layer;
  Attribution attribution{};
  for (const RoutedBatch& batch : batches) {
    const MoeLayer shard = shard_layer(inputs_.model, batch, inputs_.activations, inputs_.tp, inputs_.ep);
    PredictionOrInfeasible predicted = predict(shard, inputs_.hardware, choice, options);
    if (auto* reason = std::get_if<Infeasible>(&predicted)) return {std::move(*reason), {}};
    auto& prediction = std::get<Prediction>(predicted);
    MOESIM_CHECK(!prediction.kernels.empty());
    std::vector<KernelSummary>& kernels = run.kernels.emplace_back(std::move(prediction.kernels));
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const KernelSummary& a, const KernelSummary& b) { return a.result.start < b.result.start; });
    layer.strategy = prediction.strategy;
    layer.implementation = prediction.implementation;
    layer.distinct_experts += static_cast<double>(shard.active) / static_cast<double>(batches.size());
    for (std::size_t b = 0; b < kBlameCount; ++b) attribution[b] += prediction.attribution[b];
    add_spans(kernels, layer);
  }
  layer.busy = mean_of(layer.busy, batches.size());
  layer.span = mean_of(layer.span, batches.size());
  layer.limited_by = largest(attribution);
  layer.samples = static_cast<std::int64_t>(batches.size());
  layer.kernels = from_first(run.kernels.front());
  run.layer = std::move(layer);
  return run;
}

std::vector<Duration> own_times(const std::vector<std::pair<TimePoint, TimePoint>>& kernels) {
  std::vector<Duration> times;
  std::optional<TimePoint> until;
  for (const auto& [start, end] : kernels) {
    const TimePoint from = until ? std::max(*until, start) : start;
    times.push_back(end > from ? end - from : Duration());
    until = until ? std::max(*until, end) : end;
  }
  return times;
}

Duration mean_of(Duration total, std::size_t count) {
  return Duration(std::llround(total.as_double() / static_cast<double>(count)));
}

std::pair<Blame, double> limit_of(Attribution attribution) {
  attribution[static_cast<std::size_t>(Blame::kLaunch)] = Duration();
  const Blame limit = largest(attribution);
  const double whole = sum(attribution).as_double();
  return {limit, whole > 0 ? attribution[static_cast<std::size_t>(limit)].as_double() / whole : 0};
}

}  // namespace moesim
