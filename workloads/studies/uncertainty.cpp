#include "workloads/studies/uncertainty.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

#include "hwmodels/uncertainty.h"
#include "workloads/routing/random_stream.h"
#include "workloads/studies/factors.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

// The residuals in use, and what else an interval needs to know of them.
struct Standing {
  ResidualRecord residuals;
  UncertaintyRecord record;
};

std::optional<Standing> standing_of(const ConcurrencyRequest& request) {
  Standing standing;
  standing.record.draws = kFastestDraws;
  if (request.calibration && !request.calibration->residuals.device_alone.empty()) {
    standing.residuals = request.calibration->residuals;
    standing.record.residuals_of = request.calibration->file;
  } else {
    std::optional<ReferenceResiduals> reference = reference_residuals();
    if (!reference) return std::nullopt;
    standing.record.device_spread = reference->device != request.hardware.name;
    standing.record.residuals_of = "uncalibrated predictions on " + reference->device;
    standing.residuals = {.held_out = {},
                          .device_alone = std::move(reference->residuals.device_alone),
                          .strategy_correlation = reference->residuals.strategy_correlation};
  }
  standing.record.strategy_correlation = standing.residuals.strategy_correlation;
  return standing;
}

// A strategy whose spread is wanted, at every concurrency.
struct Subject {
  StrategyChoice choice;
  const Implementation* implementation = nullptr;
  std::vector<double> parameter_variance, device_variance;  // by point
};

// What auto took most often; equal counts: the first by name.
std::string most_picked(const StrategyFigures& figures) {
  std::string best;
  std::int64_t most = 0;
  for (const auto& [name, count] : figures.picked) {
    if (count <= most) continue;
    best = name;
    most = count;
  }
  return best;
}

std::string subject_name(const StrategyChoice& choice, const StrategyRow& row) {
  return choice.strategy == nullptr ? most_picked(*row.figures()) : choice.text;
}

std::map<std::string, Subject> subjects_of(const ConcurrencyRequest& request, const ConcurrencyStudy& study) {
  std::map<std::string, Subject> subjects;
  for (const ConcurrencyPoint& point : study.points) {
    for (std::size_t s = 0; s < point.rows.size(); ++s) {
      if (point.rows[s].figures() == nullptr) continue;
      const std::string name = subject_name(request.strategies[s], point.rows[s]);
      const auto [subject, fresh] = subjects.try_emplace(name);
      if (!fresh) continue;
      const bool is_auto = request.strategies[s].strategy == nullptr;
      subject->second.choice = is_auto ? parse_strategy(name) : request.strategies[s];
      const Calibration* calibration = request.calibration ? &*request.calibration : nullptr;
      subject->second.implementation =
          implementation_of(subject->second.choice, calibration, request.model.expert_weights);
    }
  }
  return subjects;
}

// One constant of device or fit at its two ends; what it makes of ln(time) at each point, half of the difference.
struct Probe {
  Subject* subject = nullptr;
  FactorTarget target;
  double low = 0, high = 0;
  std::vector<double> effect;

  [[nodiscard]] bool of_device() const { return std::holds_alternative<Hw>(target); }
};

std::vector<Probe> probes_of(const ConcurrencyRequest& request, std::map<std::string, Subject>& subjects,
                             bool device_spread) {
  const std::vector<Factor> device = device_spread ? device_factors(request.hardware) : std::vector<Factor>();
  std::vector<Probe> probes;
  for (auto& [name, subject] : subjects) {
    if (const Implementation* of = subject.implementation) {
      for (const auto& [constant, fitted] : of->constants) {
        const ConstantRange range = constant_range(fitted, 1);
        probes.push_back({&subject, FittedFactor{of->name, of->weights, constant}, range.low, range.high, {}});
      }
    }
    for (const Factor& factor : device) probes.push_back({&subject, factor.target, factor.low, factor.high, {}});
  }
  return probes;
}

// `request`: what all probes share.
void run_probe(const ConcurrencyRequest& request, Probe& probe) {
  ConcurrencyRequest one = request;
  one.strategies = {probe.subject->choice};
  const ConcurrencyStudy low = run_concurrency_study(with_factor(one, probe.target, probe.low));
  const ConcurrencyStudy high = run_concurrency_study(with_factor(one, probe.target, probe.high));
  for (std::size_t i = 0; i < low.points.size(); ++i) {
    const StrategyFigures* below = low.points[i].rows.front().figures();
    const StrategyFigures* above = high.points[i].rows.front().figures();
    const bool known =
        below != nullptr && above != nullptr && below->time_sum > Duration(0) && above->time_sum > Duration(0);
    probe.effect.push_back(known ? std::log(above->time_sum.as_double() / below->time_sum.as_double()) / 2 : 0);
  }
}

// From the effects of all its constants; the device's ends are p5 and p95, a fitted constant's one standard error.
void set_variances(const std::vector<Probe>& probes, std::size_t points, Subject& subject) {
  for (std::size_t i = 0; i < points; ++i) {
    std::vector<double> fitted, device;
    for (const Probe& probe : probes) {
      if (probe.subject != &subject) continue;
      (probe.of_device() ? device : fitted).push_back(probe.effect[i]);
    }
    subject.parameter_variance.push_back(
        fitted.empty() ? 0 : combined_variance(fitted, subject.implementation->correlation));
    subject.device_variance.push_back(combined_variance(device, {}) / (kSigmasAtP95 * kSigmasAtP95));
  }
}

std::optional<ErrorInterval> error_of(const Standing& standing, const ConcurrencyRequest& request,
                                      const Subject& subject, const StrategyFigures& figures, std::size_t point) {
  const std::int64_t tokens = request.concurrencies[point];
  // A step is many layers: however short its parts, its launches are no more than they are in a long layer.
  const bool step = request.options.scope == Scope::kStep;
  const double time_us = step ? kShortTimeUs : to_microseconds(figures.time_median);
  const ErrorClass of =
      error_class(subject.choice.strategy->name, format_name(request.model.expert_weights), tokens, time_us, true);
  const bool fitted = subject.implementation != nullptr && !step;
  const bool known = fitted && tokens <= subject.implementation->most_tokens && !standing.residuals.held_out.empty();
  const ErrorBasis basis = known ? ErrorBasis::kHeldOut : fitted ? ErrorBasis::kBeyondFit : ErrorBasis::kNotFitted;
  return error_interval(standing.residuals, of, basis, subject.parameter_variance[point],
                        subject.device_variance[point]);
}

Duration scaled(Duration time, double logarithm) {
  return Duration(std::llround(time.as_double() * std::exp(logarithm)));
}

void set_probabilities(const ConcurrencyRequest& request, std::size_t number, double correlation,
                       ConcurrencyPoint& point) {
  std::vector<UncertainTime> times;
  std::vector<TimeInterval*> intervals;
  for (std::size_t s = 0; s < point.rows.size(); ++s) {
    StrategyRow& row = point.rows[s];
    if (row.figures() == nullptr || request.strategies[s].strategy == nullptr) continue;
    if (!row.interval) return;  // it may be the fastest, and nothing is known of it
    times.push_back({row.figures()->time_median.as_double(), row.interval->error});
    intervals.push_back(&*row.interval);
  }
  const std::vector<double> fastest =
      fastest_probabilities(times, correlation, mix(request.seed ^ mix(number)), kFastestDraws);
  for (std::size_t i = 0; i < intervals.size(); ++i) intervals[i]->fastest = fastest[i];
}

}  // namespace

std::vector<double> fastest_probabilities(std::span<const UncertainTime> times, double correlation, std::uint64_t seed,
                                          std::int64_t draws) {
  std::vector<double> wins(times.size(), 0);
  RandomStream stream(seed);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const double common = std::sqrt(correlation) * stream.normal();
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double normal = common + std::sqrt(1 - correlation) * stream.normal();
      const double share = std::erfc(-normal / std::numbers::sqrt2) / 2;
      const double time = times[i].time * std::exp(times[i].error.at(share));
      if (i > 0 && time >= least) continue;
      best = i;
      least = time;
    }
    if (!times.empty()) wins[best] += 1 / static_cast<double>(draws);
  }
  return wins;
}

void add_uncertainty(const ConcurrencyRequest& request, ConcurrencyStudy& study,
                     const std::function<void(std::size_t done, std::size_t all)>& progress) {
  const std::optional<Standing> standing = standing_of(request);
  if (!standing) return;
  study.uncertainty = standing->record;
  std::map<std::string, Subject> subjects = subjects_of(request, study);
  std::vector<Probe> probes = probes_of(request, subjects, standing->record.device_spread);
  ConcurrencyRequest shared = of_first_sample(request);
  shared.explain = false;
  shared.ladder.reset();
  shared.progress = nullptr;
  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, probes.size(), [&](std::size_t i) {
    run_probe(shared, probes[i]);
    if (!progress) return;
    const std::lock_guard lock(reporting);
    progress(++done, probes.size());
  });
  for (auto& [name, subject] : subjects) set_variances(probes, study.points.size(), subject);

  for (std::size_t i = 0; i < study.points.size(); ++i) {
    ConcurrencyPoint& point = study.points[i];
    for (std::size_t s = 0; s < point.rows.size(); ++s) {
      StrategyRow& row = point.rows[s];
      const StrategyFigures* figures = row.figures();
      if (figures == nullptr) continue;
      const Subject& subject = subjects.at(subject_name(request.strategies[s], row));
      const std::optional<ErrorInterval> error = error_of(*standing, request, subject, *figures, i);
      if (!error) continue;
      row.interval = {*error, scaled(figures->time_median, error->low()), scaled(figures->time_median, error->high()),
                      std::nullopt};
    }
    set_probabilities(request, i, standing->record.strategy_correlation, point);
  }
}

}  // namespace moesim
