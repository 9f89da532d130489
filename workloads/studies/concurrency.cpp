#include "workloads/studies/concurrency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "hwmodels/residuals.h"
#include "sim/units/check.h"
#include "workloads/step/predict_step.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

constexpr double kMedian = 0.5;
constexpr double kP95 = 0.95;

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return sorted_quantile(values, share);
}

Duration duration_quantile(const std::vector<double>& picoseconds, double share) {
  return Duration(std::llround(quantile(picoseconds, share)));
}

bool is_auto(const StrategyChoice& choice) { return choice.strategy == nullptr; }
bool is_what_if(const StrategyChoice& choice) { return !is_auto(choice) && choice.strategy->what_if_of != nullptr; }

// One strategy at one concurrency, sample by sample.
class StrategySamples {
 public:
  explicit StrategySamples(const StrategyChoice& choice) : choice_(choice) {}

  void add(const DecodeStep& sample, const ConcurrencyRequest& request, bool keep_kernels) {
    if (infeasible_) return;
    PredictionOrInfeasible predicted = predict_sample(sample, request, choice_, request.options.simulate);
    if (auto* reason = std::get_if<Infeasible>(&predicted)) {
      infeasible_ = std::move(*reason);
      return;
    }
    auto& prediction = std::get<Prediction>(predicted);
    note_constants(prediction.implementation, sample, request.calibration);
    times_.push_back(prediction.time.as_double());
    fractions_.push_back(share_of_time(prediction.bound, prediction.time));
    figures_.time_sum += prediction.time;
    figures_.memory_read_mean += prediction.memory_read.as_double();
    figures_.memory_reread_mean += prediction.memory_reread.as_double();
    for (std::size_t b = 0; b < kBlameCount; ++b) figures_.attribution[b] += prediction.attribution[b];
    for (std::size_t p = 0; p < kStepPartCount; ++p) figures_.parts[p] += prediction.parts[p];
    if (choice_.strategy == nullptr) ++figures_.picked[prediction.strategy];
    if (keep_kernels && times_.size() == 1) figures_.kernels = std::move(prediction.kernels);
  }

  StrategyRow row() && {
    StrategyRow row;
    row.strategy = choice_.text;
    row.what_if = is_what_if(choice_);
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
    const double seconds = to_seconds(figures_.time_sum);
    figures_.achieved_rate = seconds > 0 ? figures_.memory_read_mean / seconds : 0;
    figures_.memory_read_mean /= samples;
    figures_.memory_reread_mean /= samples;
    row.result = std::move(figures_);
    return row;
  }

 private:
  void note_constants(const std::string& name, const DecodeStep& sample,
                      const std::optional<Calibration>& calibration) {
    const Implementation* implementation =
        name.empty() ? nullptr : calibration->find(name, format_name(sample.model.expert_weights));
    if (implementation != nullptr) implementations_.insert(name);
    if (implementation == nullptr || sample.sequences > implementation->most_tokens) in_range_ = false;
  }

  const StrategyChoice& choice_;
  std::set<std::string> implementations_;
  bool in_range_ = true;
  std::optional<Infeasible> infeasible_;
  std::vector<double> times_, fractions_;  // picoseconds; bound / time
  StrategyFigures figures_;                // means are sums until row()
};

// At equal medians the first named; auto only where it is faster than what it chose from; a what-if where nothing else is
// feasible.
void mark_winner(std::vector<StrategyRow>& rows, const std::vector<StrategyChoice>& choices) {
  StrategyRow* best = nullptr;
  const auto consider = [&](const auto& eligible) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const StrategyFigures* figures = rows[i].figures();
      if (figures == nullptr || !eligible(choices[i])) continue;
      if (best == nullptr || figures->time_median < best->figures()->time_median) best = &rows[i];
    }
  };
  consider([](const StrategyChoice& choice) { return !is_auto(choice) && !is_what_if(choice); });
  consider(is_auto);
  if (best == nullptr) consider(is_what_if);
  if (best != nullptr) best->winner = true;
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

Duration bound_of(const DecodeStep& sample, const ConcurrencyRequest& request, bool* matrix_bound) {
  return request.options.scope == Scope::kStep
             ? step_bound(sample, request.hardware, request.options, matrix_bound)
             : bound(sample.moe_layers.front(), request.hardware, request.options, matrix_bound);
}

// `step` is called after each sample.
ConcurrencyPoint simulate_point(const ConcurrencyRequest& request, std::int64_t concurrency, bool keep_kernels,
                                const std::function<void()>& step) {
  std::vector<StrategySamples> strategies(request.strategies.begin(), request.strategies.end());
  ConcurrencyPoint point;
  point.concurrency = concurrency;
  std::vector<double> bounds;
  std::int64_t matrix_bounds = 0, layers = 0;
  const std::int64_t samples = sample_count(request);
  for (std::int64_t i = 0; i < samples; ++i) {
    const DecodeStep sample = sample_of(request, concurrency, static_cast<std::size_t>(i));
    for (const MoeLayer& layer : sample.moe_layers) {
      const auto active = static_cast<double>(layer.active);
      const auto picks = static_cast<double>(layer.picks);
      point.distinct_experts += active;
      if (layer.picks > 0) {  // none where all picks are of zero experts
        point.duplicate_share += 1 - active / picks;
        point.rows_per_expert += picks / active;
      }
      for (const std::int64_t rows : layer.rows) {
        if (rows > 0) ++point.experts_by_rows[rows];
      }
      ++layers;
    }
    bool matrix_bound = false;
    bounds.push_back(bound_of(sample, request, &matrix_bound).as_double());
    matrix_bounds += matrix_bound ? 1 : 0;
    for (StrategySamples& strategy : strategies) strategy.add(sample, request, keep_kernels);
    step();
  }
  for (double* mean : {&point.distinct_experts, &point.duplicate_share, &point.rows_per_expert}) {
    if (layers > 0) *mean /= static_cast<double>(layers);
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
    } else if (row.figures() != nullptr && !is_auto(choices[i]) && !row.what_if &&
               (next == nullptr || row.figures()->time_median < next->figures()->time_median)) {
      next = &row;
    }
  }
  if (winner != nullptr) verdict.winner = winner->strategy;
  if (winner != nullptr && next != nullptr) {
    const Duration least = winner->figures()->time_median;
    if (least > Duration(0)) {
      verdict.lead_min = verdict.lead_max = next->figures()->time_median.as_double() / least.as_double();
    }
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
  for (const Effect effect : all_effects()) {
    if (request.options.simulate.without.has(effect)) p.without.emplace_back(effect_name(effect));
  }
  p.clock_hz = request.options.clock_hz.value_or(request.hardware[Hw::kClockBoost]);
  p.model = request.model.name;
  p.model_file = request.model.file;
  p.model_overrides = request.model_overrides;
  p.weights = format_name(request.model.expert_weights);
  p.activations = format_name(request.activations);
  p.scope = scope_name(request.options.scope);
  p.launch = launch_name(request.options.launch);
  p.routing = routing_name(request.routing, request.routing_options);
  if (!request.routing_match.empty()) p.routing += fmt::format(", matched: {}", request.routing_match);
  p.samples = sample_count(request);
  p.seed = request.seed;
  p.tp = request.tp;
  p.ep = request.ep;
  if (request.options.scope == Scope::kStep) {
    const auto all = static_cast<std::int64_t>(request.model.decoder_layers.size());
    const std::int64_t layers = std::min(all, request.step.layers.value_or(all));
    p.step = {request.step.context, format_name(request.step.cache), layers, all};
    p.moe_layers = moe_layers_among(request.model, layers);
  }
  return p;
}

bool ConcurrencyStudy::feasible() const {
  return std::any_of(points.begin(), points.end(), [](const ConcurrencyPoint& point) {
    return std::any_of(point.rows.begin(), point.rows.end(), [](const StrategyRow& row) { return row.figures(); });
  });
}

// Not auto, which is one of the others.
std::optional<std::pair<StrategyChoice, StrategyChoice>> ladder_ends(const ConcurrencyRequest& request,
                                                                     const ConcurrencyPoint& point) {
  if (request.ladder || !request.explain) return request.ladder;
  std::vector<std::pair<Duration, const StrategyChoice*>> feasible;
  for (std::size_t i = 0; i < point.rows.size(); ++i) {
    const StrategyFigures* figures = point.rows[i].figures();
    if (figures == nullptr || is_auto(request.strategies[i]) || point.rows[i].what_if) continue;
    feasible.emplace_back(figures->time_median, &request.strategies[i]);
  }
  if (feasible.size() < 2) return std::nullopt;
  std::stable_sort(feasible.begin(), feasible.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return std::pair{*feasible[1].second, *feasible[0].second};
}

PredictionOrInfeasible predict_first(const ConcurrencyRequest& request, const StrategyChoice& choice,
                                     TimelineListener* listener) {
  SimulateOptions simulate = request.options.simulate;
  simulate.listener = listener;
  return predict_sample(sample_of(request, request.concurrencies.front(), 0), request, choice, simulate);
}

ConcurrencyStudy run_concurrency_study(const ConcurrencyRequest& request) {
  MOESIM_CHECK(!request.concurrencies.empty() && !request.strategies.empty() && sample_count(request) > 0);
  if (request.options.scope == Scope::kStep) check_step_model(request.model);
  ConcurrencyStudy study;
  study.provenance = provenance_of(request);
  study.explained = request.explain;
  const std::size_t all = request.concurrencies.size() * static_cast<std::size_t>(sample_count(request));
  std::size_t done = 0;
  const auto step = [&] {
    ++done;
    if (request.progress) request.progress(done, all);
  };
  for (const std::int64_t concurrency : request.concurrencies) {
    const bool keep_kernels = request.explain && (request.all_kernels || study.points.empty());
    study.points.push_back(simulate_point(request, concurrency, keep_kernels, step));
  }
  study.verdicts = verdicts_of(study.points, request.strategies);
  if (const auto ends = ladder_ends(request, study.points.front())) {
    study.ladder = ladder_between(request, request.concurrencies.front(), ends->first, ends->second);
  }
  return study;
}

}  // namespace moesim
