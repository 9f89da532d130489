// What a result hangs on: each constant of device, fit and workload at either end of its range, the others as they are.
//
// The error bar is the root of the sum of squares of the single effects, up and down apart: first order, constants independent,
// but for an implementation's fitted ones, whose correlation is known. Where another strategy wins at an end, bisection finds
// the value from which on it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workloads/studies/concurrency.h"
#include "workloads/studies/factors.h"

namespace moesim {

struct FactorEffect {
  Factor factor;
  std::vector<std::optional<Duration>> low, high;  // medians by strategy; nullopt: infeasible there
  std::string low_winner, high_winner;             // "": nothing is feasible
  struct Flip {
    double at = 0;       // the value nearest to the factor's own at which another wins
    std::string winner;  // there
  };
  std::optional<Flip> low_flip, high_flip;
};

// Down and up, as shares of the result.
struct ErrorBar {
  double down = 0, up = 0;
};

// A time, or the ratio of two.
struct SensitivityResult {
  std::string name;           // "time of stream_gemv", "grouped_gemm / stream_gemv"
  std::size_t numerator = 0;  // of the strategies
  std::optional<std::size_t> denominator;
  double base = 0;  // microseconds, or the ratio
  ErrorBar all, device, fitted, workload;

  // At an end of a factor; nullopt: infeasible there.
  [[nodiscard]] std::optional<double> at(const std::vector<std::optional<Duration>>& times) const;
};

struct SensitivityStudy {
  Provenance provenance;
  std::int64_t concurrency = 0;
  std::vector<std::string> strategies;
  std::vector<std::optional<Duration>> times;  // as it is
  std::string winner;
  SensitivityResult result;              // what was asked for; its effects are in order of size
  std::vector<SensitivityResult> every;  // the time of each feasible strategy
  std::vector<FactorEffect> effects;     // largest first
  std::int64_t without_effect = 0;       // of the factors tried
};

struct SensitivityRequest {
  ConcurrencyRequest base;      // of one concurrency
  std::string result = "lead";  // "lead": next best over winner; "time:STRATEGY"; "ratio:STRATEGY,STRATEGY"
  std::vector<FactorRange> ranges;
  std::function<void(std::size_t done, std::size_t all)> progress;  // runs
};

// Runs in parallel; the same answer on any number of threads. Throws InputError (flags --result, --range, --strategy). nullopt: no strategy is feasible.
std::optional<SensitivityStudy> run_sensitivity_study(const SensitivityRequest& request);

}  // namespace moesim
