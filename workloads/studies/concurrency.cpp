#include "workloads/studies/concurrency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "sim/units/check.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

constexpr double kMedian = 0.5;
constexpr double kP95 = 0.95;

// Linear between the two neighbours of the place; `values` not empty.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

Duration duration_quantile(const std::vector<double>& picoseconds, double share) {
  return Duration(std::llround(quantile(picoseconds, share)));
}

// One strategy at one concurrency, sample by sample.
class StrategySamples {
 public:
  explicit StrategySamples(const StrategyChoice& choice) : choice_(choice) {}

  void add(const MoeLayer& layer, const ConcurrencyRequest& request, bool keep_kernels) {
    if (infeasible_) return;
    PredictOptions options = request.options;
    if (request.calibration) options.calibration = &*request.calibration;
    PredictionOrInfeasible predicted = predict(layer, request.hardware, choice_, options);
    if (auto* reason = std::get_if<Infeasible>(&predicted)) {
      infeasible_ = std::move(*reason);
      return;
    }
    auto& prediction = std::get<Prediction>(predicted);
    note_constants(prediction.implementation, layer, options.calibration);
    times_.push_back(prediction.time.as_double());
    fractions_.push_back(prediction.bound.as_double() / prediction.time.as_double());
    figures_.time_sum += prediction.time;
    figures_.memory_read_mean += prediction.memory_read.as_double();
    figures_.memory_reread_mean += prediction.memory_reread.as_double();
    for (std::size_t b = 0; b < kBlameCount; ++b) figures_.attribution[b] += prediction.attribution[b];
    if (choice_.strategy == nullptr) ++figures_.picked[prediction.strategy];
    if (keep_kernels && times_.size() == 1) figures_.kernels = std::move(prediction.kernels);
  }

  StrategyRow row() && {
    StrategyRow row;
    row.strategy = choice_.text;
    row.implementation = fmt::format("{}", fmt::join(implementations_, " + "));
    row.in_range = in_range_ && !times_.empty();
    if (infeasible_) {
      row.result = std::move(*infeasible_);
      return row;
    }
    const auto samples = static_cast<double>(times_.size());
    figures_.time_median = duration_quantile(times_, kMedian);
    figures_.time_p95 = duration_quantile(times_, kP95);
    figures_.bound_fraction_median = quantile(fractions_, kMedian);
    figures_.achieved_rate = figures_.memory_read_mean / to_seconds(figures_.time_sum);
    figures_.memory_read_mean /= samples;
    figures_.memory_reread_mean /= samples;
    row.result = std::move(figures_);
    return row;
  }

 private:
  void note_constants(const std::string& name, const MoeLayer& layer, const Calibration* calibration) {
    const Implementation* implementation = name.empty() ? nullptr : calibration->find(name, format_name(layer.weights));
    if (implementation != nullptr) implementations_.insert(name);
    if (implementation == nullptr || layer.tokens > implementation->most_tokens) in_range_ = false;
  }

  const StrategyChoice& choice_;
  std::set<std::string> implementations_;
  bool in_range_ = true;
  std::optional<Infeasible> infeasible_;
  std::vector<double> times_, fractions_;  // picoseconds; bound / time
  StrategyFigures figures_;                // means are sums until row()
};

bool is_auto(const StrategyChoice& choice) { return choice.strategy == nullptr; }

// At equal medians the first named; auto only where it is faster than what it chose from.
void mark_winner(std::vector<StrategyRow>& rows, const std::vector<StrategyChoice>& choices) {
  StrategyRow* best = nullptr;
  for (const bool autos : {false, true}) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const StrategyFigures* figures = rows[i].figures();
      if (figures == nullptr || is_auto(choices[i]) != autos) continue;
      if (best == nullptr || figures->time_median < best->figures()->time_median) best = &rows[i];
    }
  }
  if (best != nullptr) best->winner = true;
}

RoutedBatch batch_of(const ConcurrencyRequest& request, std::int64_t concurrency, std::size_t sample) {
  if (request.routing.kind == RoutingKind::kTrace) return request.trace[sample];
  const RouterShape shape{request.model.experts, request.model.topk};
  const RoutingOptions options = of_single_step(request.routing_options);
  const bool plain = options == RoutingOptions{} && request.routing_layers == 1;
  if (plain || !is_popularity_law(request.routing.kind)) {
    return draw_batch(request.routing, shape.experts, shape.topk, concurrency, request.seed, sample);
  }
  const auto layer = static_cast<std::int64_t>(sample) % request.routing_layers;
  const LayerRouter router(request.routing, options, shape, request.seed, layer);
  RoutedBatch batch{.topk = shape.topk, .experts = shape.experts, .ids = {}};
  RowScratch scratch(shape.experts);
  RandomStream stream = stream_of(request.seed, sample);
  draw_fresh_batch(router, options, concurrency, batch, scratch, stream);
  return batch;
}

std::size_t sample_count(const ConcurrencyRequest& request) {
  return request.routing.kind == RoutingKind::kTrace ? request.trace.size() : static_cast<std::size_t>(request.samples);
}

std::vector<StrategyConstants> constants_of(const ConcurrencyRequest& request) {
  std::vector<StrategyConstants> list;
  if (!request.calibration) return list;
  for (const StrategyChoice& choice : request.strategies) {
    if (is_auto(choice)) continue;
    StrategyConstants& constants = list.emplace_back();
    constants.strategy = choice.text;
    const Implementation* implementation =
        implementation_of(choice, &*request.calibration, request.model.expert_weights);
    if (implementation == nullptr) continue;
    constants.implementation = implementation->name;
    constants.most_tokens = implementation->most_tokens;
    constants.held_out = implementation->held_out;
  }
  return list;
}

Provenance provenance_of(const ConcurrencyRequest& request) {
  Provenance p;
  p.tool_version = request.tool_version;
  p.calibration = request.calibration ? calibration_name(*request.calibration, request.hardware) : "uncalibrated";
  p.constants = constants_of(request);
  p.device = request.hardware.name;
  p.device_title = request.hardware.title;
  p.device_file = request.hardware.file;
  p.device_hash = request.hardware.hash;
  p.overrides = request.overrides;
  p.clock_hz = request.options.clock_hz.value_or(request.hardware[Hw::kClockBoost]);
  p.model = request.model.name;
  p.model_file = request.model.file;
  p.weights = format_name(request.model.expert_weights);
  p.activations = format_name(request.activations);
  p.scope = scope_name(request.options.scope);
  p.launch = launch_name(request.options.launch);
  p.routing = routing_name(request.routing, request.routing_options);
  if (!request.routing_match.empty()) p.routing += fmt::format(", matched: {}", request.routing_match);
  p.samples = static_cast<std::int64_t>(sample_count(request));
  p.seed = request.seed;
  p.tp = request.tp;
  p.ep = request.ep;
  return p;
}

// `step` is called after each routing.
ConcurrencyPoint simulate_point(const ConcurrencyRequest& request, std::int64_t concurrency, bool keep_kernels,
                                const std::function<void()>& step) {
  std::vector<StrategySamples> strategies(request.strategies.begin(), request.strategies.end());
  ConcurrencyPoint point;
  point.concurrency = concurrency;
  std::vector<double> bounds;
  std::size_t matrix_bounds = 0;
  const std::size_t samples = sample_count(request);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const RoutedBatch batch = batch_of(request, concurrency, sample);
    MOESIM_CHECK(batch.tokens == concurrency);
    const MoeLayer layer = shard_layer(request.model, batch, request.activations, request.tp, request.ep);
    const auto active = static_cast<double>(layer.active);
    const auto picks = static_cast<double>(layer.picks);
    point.distinct_experts += active;
    point.duplicate_share += 1 - active / picks;
    point.rows_per_expert += picks / active;
    bool matrix_bound = false;
    bounds.push_back(bound(layer, request.hardware, request.options, &matrix_bound).as_double());
    matrix_bounds += matrix_bound ? 1 : 0;
    for (StrategySamples& strategy : strategies) strategy.add(layer, request, keep_kernels);
    step();
  }
  for (double* mean : {&point.distinct_experts, &point.duplicate_share, &point.rows_per_expert}) {
    *mean /= static_cast<double>(samples);
  }
  point.bound_median = duration_quantile(bounds, kMedian);
  point.matrix_bound = 2 * matrix_bounds > samples;
  for (StrategySamples& strategy : strategies) point.rows.push_back(std::move(strategy).row());
  mark_winner(point.rows, request.strategies);
  return point;
}

// The winner of one concurrency and the next best of the rest; auto, which is one of the others, is no rival.
Verdict verdict_of(const ConcurrencyPoint& point, const std::vector<StrategyChoice>& choices) {
  Verdict verdict{.from = point.concurrency, .to = point.concurrency, .winner = "", .next_best = {}};
  const StrategyRow* winner = nullptr;
  const StrategyRow* next = nullptr;
  for (std::size_t i = 0; i < point.rows.size(); ++i) {
    const StrategyRow& row = point.rows[i];
    if (row.winner) {
      winner = &row;
    } else if (row.figures() != nullptr && !is_auto(choices[i]) &&
               (next == nullptr || row.figures()->time_median < next->figures()->time_median)) {
      next = &row;
    }
  }
  if (winner != nullptr) verdict.winner = winner->strategy;
  if (winner != nullptr && next != nullptr) {
    verdict.lead_min = verdict.lead_max =
        next->figures()->time_median.as_double() / winner->figures()->time_median.as_double();
    verdict.next_best = {next->strategy};
  }
  return verdict;
}

std::vector<Verdict> verdicts_of(const std::vector<ConcurrencyPoint>& points,
                                 const std::vector<StrategyChoice>& choices) {
  std::vector<Verdict> verdicts;
  for (const ConcurrencyPoint& point : points) {
    Verdict here = verdict_of(point, choices);
    if (verdicts.empty() || verdicts.back().winner != here.winner ||
        verdicts.back().next_best.empty() != here.next_best.empty()) {
      verdicts.push_back(std::move(here));
      continue;
    }
    Verdict& range = verdicts.back();
    range.to = here.to;
    range.lead_min = std::min(range.lead_min, here.lead_min);
    range.lead_max = std::max(range.lead_max, here.lead_max);
    for (const std::string& name : here.next_best) {
      if (std::find(range.next_best.begin(), range.next_best.end(), name) == range.next_best.end()) {
        range.next_best.push_back(name);
      }
    }
  }
  return verdicts;
}

}  // namespace

bool ConcurrencyStudy::feasible() const {
  return std::any_of(points.begin(), points.end(), [](const ConcurrencyPoint& point) {
    return std::any_of(point.rows.begin(), point.rows.end(), [](const StrategyRow& row) { return row.figures(); });
  });
}

ConcurrencyStudy run_concurrency_study(const ConcurrencyRequest& request) {
  MOESIM_CHECK(!request.concurrencies.empty() && !request.strategies.empty() && sample_count(request) > 0);
  ConcurrencyStudy study;
  study.provenance = provenance_of(request);
  study.explained = request.explain;
  const std::size_t all = request.concurrencies.size() * sample_count(request);
  std::size_t done = 0;
  const auto step = [&] {
    ++done;
    if (request.progress) request.progress(done, all);
  };
  for (const std::int64_t concurrency : request.concurrencies) {
    const bool keep_kernels = request.explain && study.points.empty();
    study.points.push_back(simulate_point(request, concurrency, keep_kernels, step));
  }
  study.verdicts = verdicts_of(study.points, request.strategies);
  return study;
}

}  // namespace moesim
