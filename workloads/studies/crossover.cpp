#include "workloads/studies/crossover.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

constexpr const char* kByLine = "by line";

// What the lines have in common; overrides that are axes of the map are told by the lines' coordinates.
Provenance common_provenance(const std::vector<CrossoverLine>& lines, const std::vector<std::string>& axes) {
  Provenance common = lines.front().provenance;
  const auto is_axis = [&](const std::string& assignment) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const std::string& axis) { return assignment.starts_with(axis + "="); });
  };
  std::erase_if(common.overrides, is_axis);
  std::erase_if(common.model_overrides, is_axis);
  for (const auto field :
       {&Provenance::calibration, &Provenance::device, &Provenance::device_title, &Provenance::device_file,
        &Provenance::device_hash, &Provenance::model, &Provenance::model_file, &Provenance::weights,
        &Provenance::activations, &Provenance::scope, &Provenance::launch, &Provenance::routing}) {
    const auto differs = [&](const CrossoverLine& line) { return line.provenance.*field != common.*field; };
    if (std::any_of(lines.begin(), lines.end(), differs)) common.*field = kByLine;
  }
  return common;
}

// Of a standard normal variable: half of all lie within the first, 95 % within the second.
constexpr double kNormalMedian = 0.6745, kNormalP95 = 1.96;
constexpr double kLeastError = 1e-9;  // a fit without any error still has no jump in its chances
constexpr double kPercent = 100;

double normal_density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0)); }
double normal_chance(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

void mark_order(Standing& standing) {
  for (std::size_t i = 0; i < standing.times.size(); ++i) {
    const auto faster_than = [&](const std::optional<std::size_t>& other) {
      return !other || *standing.times[i] < *standing.times[*other];
    };
    if (!standing.times[i]) continue;
    if (faster_than(standing.winner)) {
      standing.next = standing.winner;
      standing.winner = i;
    } else if (faster_than(standing.next)) {
      standing.next = i;
    }
  }
}

struct Looked {
  Standing standing;
  std::vector<std::string> reasons;  // by strategy; "": feasible
};

Looked look_at(const CrossoverRequest& request, const AxisPlace& place) {
  const ConcurrencyRequest here = request.request_at(place);
  MOESIM_CHECK(here.concurrencies.size() == 1);
  const ConcurrencyStudy study = run_concurrency_study(here);
  const ConcurrencyPoint& point = study.points.front();
  Looked looked;
  Standing& standing = looked.standing;
  standing.at = place.at;
  standing.value = request.value_at(place.at);
  standing.tokens = point.concurrency;
  standing.distinct_experts = point.distinct_experts;
  for (std::size_t i = 0; i < point.rows.size(); ++i) {
    const StrategyFigures* figures = point.rows[i].figures();
    standing.times.push_back(figures == nullptr ? std::nullopt : std::optional(figures->time_median));
    const std::optional<double> known = prediction_error(here, here.strategies[i], point.concurrency);
    standing.errors.push_back(known ? known : request.assumed_error);
    looked.reasons.push_back(figures == nullptr ? std::get<Infeasible>(point.rows[i].result).reason : "");
  }
  mark_order(standing);
  if (standing.winner) {
    const DecodeStep sample = sample_of(here, point.concurrency, 0);
    PredictOptions options = here.options;
    if (here.calibration) options.calibration = &*here.calibration;
    if (!sample.moe_layers.empty()) {
      standing.parameters =
          tile_parameters(sample.moe_layers.front(), here.hardware, here.strategies[*standing.winner], options);
    }
  }
  return looked;
}

}  // namespace

double Standing::lead() const { return next ? times[*next]->as_double() / times[*winner]->as_double() : 1; }

std::optional<double> Standing::lead_error() const {
  if (!next || !errors[*winner] || !errors[*next]) return std::nullopt;
  return std::hypot(*errors[*winner], *errors[*next]);
}

bool Standing::contested() const {
  const std::optional<double> error = lead_error();
  return error && std::log(lead()) < *error;
}

std::optional<double> Standing::confidence() const {
  if (!winner) return std::nullopt;
  if (!next) return 1;
  struct Rival {
    double behind = 0, error = 0;  // ln of its time less the winner's
  };
  std::vector<Rival> rivals;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    if (!errors[i]) return std::nullopt;
    if (i == *winner) continue;
    rivals.push_back(
        {std::log(times[i]->as_double() / times[*winner]->as_double()), std::max(*errors[i], kLeastError)});
  }
  const double own = *errors[*winner];
  constexpr double kFar = 8;  // standard errors; beyond, nothing is left
  constexpr int kSteps = 640;
  constexpr double kStep = 2 * kFar / kSteps;
  double chance = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = -kFar + i * kStep;
    double all_slower = normal_density(z);
    for (const Rival& rival : rivals) all_slower *= normal_chance((rival.behind - own * z) / rival.error);
    chance += all_slower * kStep;
  }
  return std::min(chance, 1.0);
}

const Standing& CrossoverLine::standing(std::int64_t at) const {
  const auto it = std::lower_bound(standings.begin(), standings.end(), at,
                                   [](const Standing& s, std::int64_t a) { return s.at < a; });
  MOESIM_CHECK(it != standings.end() && it->at == at);
  return *it;
}

std::vector<WinnerSpan> spans_of(const CrossoverLine& line) {
  std::vector<WinnerSpan> spans;
  for (const Standing& s : line.standings) {
    const bool contested = s.contested();
    if (spans.empty() || spans.back().winner != s.winner || spans.back().contested != contested) {
      spans.push_back({s.at, s.at, s.winner, contested, s.lead(), s.lead(), {}});
    }
    WinnerSpan& span = spans.back();
    span.to = s.at;
    span.lead_min = std::min(span.lead_min, s.lead());
    span.lead_max = std::max(span.lead_max, s.lead());
    if (s.next && std::find(span.next.begin(), span.next.end(), *s.next) == span.next.end())
      span.next.push_back(*s.next);
  }
  return spans;
}

std::vector<Crossing> crossings_of(const CrossoverLine& line) {
  std::vector<Crossing> crossings;
  const std::vector<Standing>& all = line.standings;
  const auto contested = [&](std::size_t i) { return all[i].contested(); };
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i].winner == all[i + 1].winner) continue;
    Crossing crossing{all[i].at, all[i + 1].at, all[i].winner, all[i + 1].winner, std::nullopt};
    std::size_t first = i + (contested(i) ? 0 : 1), last = i + (contested(i + 1) ? 1 : 0);
    if (first <= last && contested(first)) {
      while (first > 0 && contested(first - 1)) --first;
      while (last + 1 < all.size() && contested(last + 1)) ++last;
      crossing.zone = {all[first].at, all[last].at};
      crossing.before = all[first > 0 ? first - 1 : 0].winner;
      crossing.after = all[std::min(last + 1, all.size() - 1)].winner;
    }
    if (!crossings.empty() && crossing.zone && crossings.back().zone == crossing.zone) {
      crossings.back().first_after = crossing.first_after;
    } else if (crossing.before != crossing.after) {
      crossings.push_back(crossing);
    }
  }
  return crossings;
}

bool CrossoverStudy::feasible() const {
  return std::any_of(lines.begin(), lines.end(), [](const CrossoverLine& line) {
    return std::any_of(line.standings.begin(), line.standings.end(), [](const Standing& s) { return s.winner; });
  });
}

std::optional<double> log_error(const Implementation& implementation, std::int64_t tokens) {
  const HeldOutError& band = implementation.held_out_by_band[token_band(tokens)];
  const HeldOutError& known = band.rows > 0 ? band : implementation.held_out;
  if (known.rows == 0) return std::nullopt;
  return std::max(known.median / kNormalMedian, known.p95 / kNormalP95) / kPercent;
}

double chance_of_order(double lead, double error) { return normal_chance(lead / std::max(error, kLeastError)); }

std::optional<double> prediction_error(const ConcurrencyRequest& request, const StrategyChoice& choice,
                                       std::int64_t tokens) {
  if (!request.calibration) return std::nullopt;
  const Implementation* implementation = implementation_of(choice, &*request.calibration, request.model.expert_weights);
  return implementation == nullptr ? std::nullopt : log_error(*implementation, tokens);
}

CrossoverStudy run_crossover_study(const CrossoverRequest& request) {
  MOESIM_CHECK(!request.coarse.empty() && !request.lines.empty());
  const ConcurrencyRequest first = request.request_at({0, request.coarse.front()});
  for (const StrategyChoice& choice : first.strategies) {
    if (choice.strategy != nullptr) continue;
    throw InputError({"--strategy", "", "auto", "strategies to choose among: auto is one of them", ""});
  }
  CrossoverStudy study;
  study.axis = request.axis;
  study.line_axes = request.line_axes;
  study.assumed_error = request.assumed_error;
  for (const StrategyChoice& choice : first.strategies) study.strategies.push_back(choice.text);

  std::map<AxisPlace, Looked> looked;
  std::map<std::tuple<std::optional<std::size_t>, bool, Parameters>, int> labels;
  std::mutex reporting;
  std::size_t done = 0;
  tbb::task_arena arena(static_cast<int>(request.threads));
  const auto labels_of = [&](const std::vector<AxisPlace>& places) {
    std::vector<Looked> found(places.size());
    const std::size_t all = done + places.size();
    const auto look = [&](std::size_t i) {
      found[i] = look_at(request, places[i]);
      if (!request.progress) return;
      const std::lock_guard lock(reporting);
      request.progress(++done, all);
    };
    arena.execute([&] { tbb::parallel_for(std::size_t{0}, places.size(), look); });
    done = all;
    std::vector<int> result;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Standing& s = found[i].standing;
      const auto fresh = static_cast<int>(labels.size());
      result.push_back(labels.try_emplace({s.winner, s.contested(), s.parameters}, fresh).first->second);
      looked.emplace(places[i], std::move(found[i]));
    }
    return result;
  };
  find_borders(request.lines.size(), request.coarse, labels_of);

  for (const std::vector<std::string>& coordinates : request.lines) {
    const std::size_t number = study.lines.size();
    study.lines.push_back({coordinates,
                           provenance_of(request.request_at({number, request.coarse.front()})),
                           {},
                           std::vector<std::string>(study.strategies.size())});
  }
  study.provenance = common_provenance(study.lines, study.line_axes);
  for (auto& [place, of_place] : looked) {
    CrossoverLine& line = study.lines[place.line];
    for (std::size_t i = 0; line.standings.empty() && i < of_place.reasons.size(); ++i) {
      line.reasons[i] = of_place.reasons[i];
    }
    line.standings.push_back(std::move(of_place.standing));
    for (std::size_t i = 0; i < line.reasons.size(); ++i) {
      if (line.standings.back().times[i]) line.reasons[i].clear();
    }
  }
  return study;
}

}  // namespace moesim
