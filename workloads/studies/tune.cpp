#include "workloads/studies/tune.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "sim/units/check.h"
#include "workloads/strategies/stack_profiles.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

// Configurations that are simulated side by side; the best so far is looked at between batches, so that what is stopped
// does not depend on the threads.
constexpr std::size_t kBatch = 32;

constexpr Duration kNever{std::numeric_limits<std::int64_t>::max()};

struct Candidate {
  Parameters tile;
  bool is_default = false;
  std::size_t number = 0;  // in the space, after the default
};

enum class Outcome { kDone, kStopped, kInfeasible };

struct Tried {
  Outcome outcome = Outcome::kInfeasible;
  Duration total;  // over the samples
  std::int64_t on_chip = 0;
};

// One number of tokens: its samples and what they have in common.
class Point {
 public:
  Point(const TuneRequest& request, std::int64_t tokens) : request_(request) {
    const std::int64_t samples = sample_count(request.base);
    for (std::int64_t i = 0; i < samples; ++i) {
      const DecodeStep sample = sample_of(request.base, tokens, static_cast<std::size_t>(i));
      layers_.push_back(sample.moe_layers.front());
      bool matrix = false;
      bounds_.push_back(bound(layers_.back(), request.base.hardware, request.base.options, &matrix));
    }
  }

  [[nodiscard]] const std::vector<MoeLayer>& layers() const { return layers_; }
  [[nodiscard]] Duration mean(Duration total) const {
    return Duration(std::llround(total.as_double() / static_cast<double>(layers_.size())));
  }
  [[nodiscard]] Duration mean_bound() const {
    return mean(std::accumulate(bounds_.begin(), bounds_.end(), Duration()));
  }

  // Stops once the total is sure to be above `limit`.
  [[nodiscard]] Tried simulate(const Parameters& tile, Duration limit) const {
    StrategyChoice choice = request_.base.strategies.front();
    for (const auto& [name, value] : tile) choice.parameters[name] = value;
    PredictOptions options = request_.base.options;
    if (request_.base.calibration) options.calibration = &*request_.base.calibration;
    Tried tried;
    Duration to_come = std::accumulate(bounds_.begin(), bounds_.end(), Duration());
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      to_come -= bounds_[i];
      if (limit != kNever) options.simulate.deadline = limit - tried.total - to_come;
      const Lowered lowered = lower_layer(layers_[i], request_.base.hardware, choice, options);
      const auto* plan = std::get_if<ExecutionPlan>(&lowered);
      if (plan == nullptr) return {};
      if (i == 0) {
        for (const Kernel& kernel : plan->kernels()) tried.on_chip += kernel.footprint[kOnChipBytesAt];
      }
      const Prediction prediction = simulate_plan(*plan, request_.base.hardware, options);
      tried.total += prediction.time;
      if (prediction.stopped) {
        tried.outcome = Outcome::kStopped;
        return tried;
      }
    }
    tried.outcome = Outcome::kDone;
    return tried;
  }

 private:
  const TuneRequest& request_;
  std::vector<MoeLayer> layers_;
  std::vector<Duration> bounds_;
};

Parameters default_of(const StrategyChoice& choice, const MoeLayer& layer, const std::vector<ParameterRange>& space) {
  Parameters all = choice.parameters;
  if (choice.stack != nullptr) all.merge(stack_parameters(*choice.stack, layer));
  all.merge(default_tile(*choice.strategy, layer));
  Parameters tile;
  for (const ParameterRange& range : space) {
    const auto it = all.find(range.name);
    if (it != all.end()) tile.insert(*it);
  }
  return tile;
}

// The space's configurations that are to be simulated, the default first.
std::vector<Candidate> candidates_of(const TuneRequest& request, const Point& at, TunePoint& point) {
  const StrategyChoice& choice = request.base.strategies.front();
  const auto whole = [&](Parameters tile) {  // with what the space leaves to the strategy
    tile.merge(Parameters(choice.parameters));
    tile.merge(default_tile(*choice.strategy, at.layers().front()));
    return tile;
  };
  const auto canonical = [&](Parameters tile) {
    const Parameters all = whole(tile);
    for (const ParameterRange& range : request.space) {
      const bool idle = std::ranges::all_of(at.layers(), [&](const MoeLayer& layer) {
        return idle_parameters(*choice.strategy, all, layer).contains(range.name);
      });
      if (idle) tile[range.name] = range.values.front();
    }
    return tile;
  };
  std::vector<Candidate> candidates = {{default_of(choice, at.layers().front(), request.space), true, 0}};
  std::set<Parameters> seen = {canonical(candidates.front().tile)};
  const std::size_t all = size_of(request.space);
  for (std::size_t i = 0; i < all; ++i) {
    Parameters tile = configuration(request.space, i);
    if (tile == candidates.front().tile) continue;
    if (spills(*choice.strategy, whole(tile), at.layers().front(), request.base.hardware)) {
      ++point.spilling;
      continue;
    }
    tile = canonical(std::move(tile));
    if (seen.insert(tile).second) {
      candidates.push_back({std::move(tile), false, i + 1});
    } else {
      ++point.alike;
    }
  }
  return candidates;
}

class Search {
 public:
  explicit Search(const TuneRequest& request) : request_(request) {}

  TunePoint point(std::int64_t tokens, const std::function<void(std::size_t)>& done) {
    TunePoint point;
    point.tokens = tokens;
    const Point at(request_, tokens);
    point.bound = at.mean_bound();
    std::vector<Candidate> candidates = candidates_of(request_, at, point);
    // What was fast for fewer tokens first: the sooner a good one is known, the sooner others stop.
    std::stable_sort(candidates.begin() + 1, candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    std::vector<Tried> tried(candidates.size());
    tried[0] = at.simulate(candidates[0].tile, kNever);
    Duration best = tried[0].outcome == Outcome::kDone ? tried[0].total : kNever;
    for (std::size_t begin = 1; begin < candidates.size(); begin += kBatch) {
      const std::size_t end = std::min(begin + kBatch, candidates.size());
      const Duration limit = near(best);
      tbb::parallel_for(begin, end, [&](std::size_t i) { tried[i] = at.simulate(candidates[i].tile, limit); });
      for (std::size_t i = begin; i < end; ++i) {
        if (tried[i].outcome == Outcome::kDone) best = std::min(best, tried[i].total);
      }
      done(end - begin);
    }
    sum_up(candidates, tried, at, point);
    remember(candidates, tried);
    return point;
  }

 private:
  static Duration near(Duration best) {
    return best == kNever ? kNever : Duration(std::llround(best.as_double() * (1 + kNear)));
  }

  [[nodiscard]] std::size_t rank(const Candidate& candidate) const {
    const auto it = ranks_.find(candidate.tile);
    return it == ranks_.end() ? ranks_.size() + candidate.number : it->second;
  }

  void remember(const std::vector<Candidate>& candidates, const std::vector<Tried>& tried) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (tried[i].outcome == Outcome::kDone) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair{tried[a].total, candidates[a].number} < std::pair{tried[b].total, candidates[b].number};
    });
    ranks_.clear();
    for (std::size_t i = 0; i < order.size(); ++i) ranks_[candidates[order[i]].tile] = i;
  }

  void sum_up(const std::vector<Candidate>& candidates, const std::vector<Tried>& tried, const Point& at,
              TunePoint& point) const {
    const auto key = [&](std::size_t i) {
      return std::tuple{tried[i].total, !candidates[i].is_default, tried[i].on_chip, candidates[i].number};
    };
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      switch (tried[i].outcome) {
        case Outcome::kInfeasible:
          ++point.too_large;
          continue;
        case Outcome::kStopped:
          ++point.stopped;
          continue;
        case Outcome::kDone:
          ++point.simulated;
          if (!best || key(i) < key(*best)) best = i;
          continue;
      }
    }
    if (tried[0].outcome == Outcome::kDone) point.by_default = {candidates[0].tile, at.mean(tried[0].total)};
    if (!best) return;
    point.best = {candidates[*best].tile, at.mean(tried[*best].total)};
    const Duration limit = near(tried[*best].total);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (tried[i].outcome == Outcome::kDone && tried[i].total <= limit) ++point.near_best;
    }
    point.chosen = point.best;
    if (point.by_default && gain_over(point.by_default->time, point.best->time) < request_.min_gain) {
      point.chosen = point.by_default;
    }
  }

  const TuneRequest& request_;
  std::map<Parameters, std::size_t> ranks_;  // of the numbers of tokens before
};

}  // namespace

double gain_over(Duration by_default, Duration time) { return 1 - time.as_double() / by_default.as_double(); }

bool TuneStudy::feasible() const {
  return std::any_of(points.begin(), points.end(), [](const TunePoint& point) { return point.best.has_value(); });
}

TuneStudy run_tune_study(const TuneRequest& request) {
  const ConcurrencyRequest& base = request.base;
  MOESIM_CHECK(base.strategies.size() == 1 && base.strategies.front().strategy != nullptr);
  MOESIM_CHECK(base.options.scope != Scope::kStep && !request.space.empty());
  TuneStudy study;
  study.provenance = provenance_of(base);
  study.strategy = base.strategies.front().text;
  if (base.strategies.front().stack != nullptr) study.stack = base.strategies.front().stack->name;
  study.space = request.space;
  study.min_gain = request.min_gain;
  const std::size_t each = size_of(request.space);
  Search search(request);
  for (std::size_t i = 0; i < base.concurrencies.size(); ++i) {
    std::size_t done = i * each;
    study.points.push_back(search.point(base.concurrencies[i], [&](std::size_t more) {
      done += more;
      if (base.progress) base.progress(done, each * base.concurrencies.size());
    }));
    const Implementation* implementation =
        base.calibration ? implementation_of(base.strategies.front(), &*base.calibration, base.model.expert_weights)
                         : nullptr;
    study.points.back().in_range = implementation != nullptr && base.concurrencies[i] <= implementation->most_tokens;
  }
  return study;
}

}  // namespace moesim
