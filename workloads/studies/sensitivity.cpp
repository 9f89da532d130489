#include "workloads/studies/sensitivity.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <span>

#include "hwmodels/uncertainty.h"
#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr double kNoEffect = 1e-6;        // of a logarithm: less is rounding to picoseconds
constexpr double kFlipPrecision = 0.002;  // of the range, to which a flip is found
constexpr const char* kResultFlag = "--result";

using Times = std::vector<std::optional<Duration>>;

Times times_of(const ConcurrencyStudy& study) {
  Times times;
  for (const StrategyRow& row : study.points.front().rows) {
    times.push_back(row.figures() == nullptr ? std::nullopt : std::optional(row.figures()->time_median));
  }
  return times;
}

std::string winner_of(const ConcurrencyStudy& study) { return study.verdicts.front().winner; }

// A run of the request, of which nothing but times is needed.
ConcurrencyRequest bare(ConcurrencyRequest request) {
  request.explain = false;
  request.ladder.reset();
  request.progress = nullptr;
  return request;
}

struct End {
  Times times;
  std::string winner;
};

End end_of(const ConcurrencyRequest& request, const Factor& factor, double value) {
  const ConcurrencyStudy study = run_concurrency_study(with_factor(request, factor.target, value));
  return {times_of(study), winner_of(study)};
}

// The value nearest to the factor's own, on the way to `end`, at which its winner is not the one of the study.
FactorEffect::Flip find_flip(const ConcurrencyRequest& request, const Factor& factor, double end,
                             const std::string& end_winner, const std::string& winner) {
  double same = factor.value, other = end;
  FactorEffect::Flip flip{end, end_winner};
  const double precision = factor.whole ? 1 : std::abs(end - factor.value) * kFlipPrecision;
  while (std::abs(other - same) > precision) {
    double middle = (same + other) / 2;
    if (factor.whole) middle = std::round(middle);
    if (middle == same || middle == other) break;
    const std::string there = end_of(request, factor, middle).winner;
    if (there == winner) {
      same = middle;
    } else {
      other = middle;
      flip = {middle, there};
    }
  }
  return flip;
}

std::size_t index_of(const std::vector<std::string>& strategies, const std::string& name) {
  const auto found = std::find(strategies.begin(), strategies.end(), name);
  if (found != strategies.end()) return static_cast<std::size_t>(found - strategies.begin());
  throw InputError({kResultFlag, "", fmt::format("'{}'", name),
                    fmt::format("one of {}, the strategies asked for", fmt::join(strategies, ", ")),
                    nearest_name(name, strategies)});
}

std::vector<std::string> named(const std::string& list, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  if (names.size() == count) return names;
  throw InputError(
      {kResultFlag, "", fmt::format("'{}'", list), count == 1 ? "time:STRATEGY" : "ratio:STRATEGY,STRATEGY", ""});
}

SensitivityResult time_of(const SensitivityStudy& study, std::size_t strategy) {
  SensitivityResult result;
  result.name = fmt::format("time of {}", study.strategies[strategy]);
  result.numerator = strategy;
  return result;
}

SensitivityResult ratio_of(const SensitivityStudy& study, std::size_t numerator, std::size_t denominator) {
  SensitivityResult result;
  result.name = fmt::format("{} / {}", study.strategies[numerator], study.strategies[denominator]);
  result.numerator = numerator;
  result.denominator = denominator;
  return result;
}

// The feasible strategies by time; equal ones in the order given.
std::vector<std::size_t> by_time(const Times& times) {
  std::vector<std::size_t> order;
  for (std::size_t s = 0; s < times.size(); ++s) {
    if (times[s]) order.push_back(s);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return *times[a] < *times[b]; });
  return order;
}

SensitivityResult wanted_result(const SensitivityStudy& study, const std::string& text) {
  const std::vector<std::size_t> order = by_time(study.times);
  if (text == "lead") return order.size() < 2 ? time_of(study, order.front()) : ratio_of(study, order[1], order[0]);
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), list = colon == std::string::npos ? "" : text.substr(colon + 1);
  SensitivityResult result;
  if (kind == "time") {
    result = time_of(study, index_of(study.strategies, named(list, 1).front()));
  } else if (kind == "ratio") {
    const std::vector<std::string> names = named(list, 2);
    result = ratio_of(study, index_of(study.strategies, names[0]), index_of(study.strategies, names[1]));
  } else {
    throw InputError({kResultFlag, "", fmt::format("'{}'", text), "lead, time:STRATEGY or ratio:STRATEGY,STRATEGY",
                      nearest_name(kind, {"lead", "time", "ratio"})});
  }
  if (result.at(study.times)) return result;
  throw InputError({kResultFlag, "", fmt::format("'{}'", text), "strategies that are feasible", ""});
}

// ln(result at an end / result as it is); 0 where it is infeasible there.
double effect_at(const SensitivityResult& result, const Times& times) {
  const std::optional<double> there = result.at(times);
  return there ? std::log(*there / result.base) : 0;
}

double size_of(const SensitivityResult& result, const FactorEffect& effect) {
  return std::max(std::abs(effect_at(result, effect.low)), std::abs(effect_at(result, effect.high)));
}

double square(double value) { return value * value; }

// Squares of the logarithms, down and up, of the effects of one group. An implementation's fitted constants count together, by
// their correlation.
ErrorBar squares(const SensitivityResult& result, const std::vector<FactorEffect>& effects, FactorGroup group,
                 const std::optional<Calibration>& calibration) {
  ErrorBar bar;
  std::map<std::pair<std::string, std::string>, std::map<std::string, double>> fitted;  // halves, by constant
  for (const FactorEffect& effect : effects) {
    if (effect.factor.group() != group) continue;
    const double low = effect_at(result, effect.low), high = effect_at(result, effect.high);
    if (const auto* of = std::get_if<FittedFactor>(&effect.factor.target)) {
      fitted[{of->implementation, of->weights}][of->constant] = (high - low) / 2;
      continue;
    }
    bar.down += square(std::min({low, high, 0.0}));
    bar.up += square(std::max({low, high, 0.0}));
  }
  for (const auto& [implementation, halves] : fitted) {
    const Implementation* of = calibration->find(implementation.first, implementation.second);
    std::vector<double> ordered;
    for (const auto& [name, constant] : of->constants) {
      const auto half = halves.find(name);
      ordered.push_back(half == halves.end() ? 0 : half->second);
    }
    const double variance = combined_variance(ordered, of->correlation);
    bar.down += variance;
    bar.up += variance;
  }
  return bar;
}

// From squares of logarithms to shares of the result.
ErrorBar shares(const ErrorBar& squares) {
  return {1 - std::exp(-std::sqrt(squares.down)), std::exp(std::sqrt(squares.up)) - 1};
}

void set_error_bars(SensitivityResult& result, const std::vector<FactorEffect>& effects,
                    const std::optional<Calibration>& calibration) {
  ErrorBar all;
  for (const auto& [group, bar] :
       {std::pair(FactorGroup::kDevice, &result.device), std::pair(FactorGroup::kFitted, &result.fitted),
        std::pair(FactorGroup::kWorkload, &result.workload)}) {
    const ErrorBar of_group = squares(result, effects, group, calibration);
    all.down += of_group.down;
    all.up += of_group.up;
    *bar = shares(of_group);
  }
  result.all = shares(all);
}

}  // namespace

std::optional<double> SensitivityResult::at(const std::vector<std::optional<Duration>>& times) const {
  if (!times[numerator]) return std::nullopt;
  if (!denominator) return to_microseconds(*times[numerator]);
  if (!times[*denominator] || *times[*denominator] == Duration(0)) return std::nullopt;
  return times[numerator]->as_double() / times[*denominator]->as_double();
}

std::optional<SensitivityStudy> run_sensitivity_study(const SensitivityRequest& request) {
  const ConcurrencyRequest base = bare(request.base);
  SensitivityStudy study;
  for (const StrategyChoice& choice : base.strategies) {
    if (choice.strategy == nullptr) {
      throw InputError({"--strategy", "", "auto", "strategies by name: auto is whichever of them wins", ""});
    }
    study.strategies.push_back(choice.text);
  }
  const std::vector<Factor> factors = factors_of(base, request.ranges);
  const ConcurrencyStudy as_it_is = run_concurrency_study(base);
  study.provenance = as_it_is.provenance;
  study.concurrency = base.concurrencies.front();
  study.times = times_of(as_it_is);
  study.winner = winner_of(as_it_is);
  if (study.winner.empty()) return std::nullopt;
  study.result = wanted_result(study, request.result);

  std::vector<FactorEffect> effects(factors.size());
  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, 2 * factors.size(), [&](std::size_t i) {
    const Factor& factor = factors[i / 2];
    FactorEffect& effect = effects[i / 2];
    const bool high = i % 2 == 1;
    const double value = high ? factor.high : factor.low;
    if (!high) effect.factor = factor;
    End end = value == factor.value ? End{study.times, study.winner} : end_of(base, factor, value);
    if (end.winner != study.winner) {
      (high ? effect.high_flip : effect.low_flip) = find_flip(base, factor, value, end.winner, study.winner);
    }
    (high ? effect.high : effect.low) = std::move(end.times);
    (high ? effect.high_winner : effect.low_winner) = std::move(end.winner);
    if (!request.progress) return;
    const std::lock_guard lock(reporting);
    request.progress(++done, 2 * factors.size());
  });

  std::vector<SensitivityResult*> results = {&study.result};
  for (const std::size_t strategy : by_time(study.times)) study.every.push_back(time_of(study, strategy));
  for (SensitivityResult& result : study.every) results.push_back(&result);
  for (SensitivityResult* result : results) {
    result->base = *result->at(study.times);
    set_error_bars(*result, effects, base.calibration);
  }
  std::stable_sort(effects.begin(), effects.end(), [&](const FactorEffect& a, const FactorEffect& b) {
    return size_of(study.result, a) > size_of(study.result, b);
  });
  for (FactorEffect& effect : effects) {
    const bool flips = effect.low_flip || effect.high_flip;
    if (flips || size_of(study.result, effect) > kNoEffect) {
      study.effects.push_back(std::move(effect));
    } else {
      ++study.without_effect;
    }
  }
  return study;
}

}  // namespace moesim
