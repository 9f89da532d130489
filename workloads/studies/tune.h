// The best tile configuration of a strategy at each number of tokens, among all of a space.
//
// Each configuration is simulated on the same routings; what counts is the mean time. The search is exhaustive: a
// simulation only stops where its configuration can no longer come within `kNear` of the best (a sum of times that have
// passed and of bounds of those to come), so nothing but speed depends on that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workloads/strategies/tile_space.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

struct TuneRequest {
  // Its first strategy is tuned: parameters given with it stay as they are. Its concurrencies are the numbers of tokens.
  ConcurrencyRequest base;
  std::vector<ParameterRange> space;
  double min_gain = 0;  // share of the default's time that another configuration must save to be chosen
};

// Share of the default's time that has to be saved unless another is asked for: about the fits' median error.
inline constexpr double kUsualGain = 0.03;

// How near the best a configuration has to be to be counted as alike.
inline constexpr double kNear = 0.02;

struct TuneChoice {
  Parameters tile;  // by the names of the space; empty: what the strategy's own rules say
  Duration time;    // mean over the samples
};

struct TunePoint {
  std::int64_t tokens = 0;
  std::optional<TuneChoice> by_default;  // nullopt: infeasible
  std::optional<TuneChoice> best;        // nullopt: none is feasible
  std::optional<TuneChoice> chosen;      // the default unless the best saves enough
  Duration bound;                        // mean of the closed form
  // Configurations of the space: simulated to the end or stopped, the same plan as another, not fit for a unit, not fit for
  // registers; and of the simulated ones those within kNear of the best.
  std::int64_t simulated = 0, stopped = 0, alike = 0, too_large = 0, spilling = 0, near_best = 0;
  bool in_range = false;  // fitted, to as many tokens at least

  [[nodiscard]] bool deviates() const { return chosen && by_default && chosen->tile != by_default->tile; }
};

struct TuneStudy {
  Provenance provenance;
  std::string strategy;  // as asked for
  std::string stack;     // whose default it is compared with; "": the strategy's own
  std::vector<ParameterRange> space;
  double min_gain = 0;
  std::vector<TunePoint> points;

  [[nodiscard]] bool feasible() const;  // any configuration at any number of tokens
};

// Share of the default's time that another time saves; negative where it is longer.
double gain_over(Duration by_default, Duration time);

// Of two configurations that take equally long the default comes first, then the one with less on-chip memory, then the
// earlier of the space. Runs on all cores; the result does not depend on how many there are.
TuneStudy run_tune_study(const TuneRequest& request);

}  // namespace moesim
