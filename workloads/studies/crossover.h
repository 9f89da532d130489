// Where along an axis the fastest strategy changes, how surely, and (with a second axis) the map of it.
//
// Equations. A strategy's error at a place is a standard error s of the logarithm of its time: the held-out errors of its
// implementation in the band of tokens, s = max(median / 0.6745, p95 / 1.96) of |error|, what a normal error of the larger
// of the two spreads would have. The error of a lead ln(t_next / t_winner) is sqrt(s_winner^2 + s_next^2); a place whose
// lead is under it is *contested*. Confidence is the chance that the winner is the fastest: with true times
// ln t_i = ln predicted_i + s_i z_i, z_i independent standard normal,
//   P(w) = integral phi(z) prod_{j != w} Phi((ln t_j - ln t_w - s_w z) / s_j) dz,
// which for two strategies is Phi(ln lead / sqrt(s_w^2 + s_n^2)).
// Leaves out: that errors of two strategies on one device go together (confidence is then too low), and that a routing, a
// model or a scope may be unlike those of the fit (too high).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/studies/border_search.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

// A value of an axis.
struct AxisPoint {
  double number = 0;
  std::string text;  // as its flag takes it: "6", "4.8 TB/s"
};

// Of all strategies at one place.
struct Standing {
  std::int64_t at = 0;  // place
  AxisPoint value;      // of the axis there
  std::int64_t tokens = 0;
  double distinct_experts = 0;                 // mean; of the simulated device
  std::vector<std::optional<Duration>> times;  // medians, by strategy; nullopt: infeasible
  std::vector<std::optional<double>> errors;   // s, by strategy; nullopt: not known
  std::optional<std::size_t> winner;           // smallest time, the first named of equals; nullopt: none is feasible
  std::optional<std::size_t> next;             // second smallest
  Parameters parameters;                       // of the winner, as it would be launched

  [[nodiscard]] double lead() const;                       // next / winner; 1 without a next
  [[nodiscard]] std::optional<double> lead_error() const;  // of ln lead; nullopt: not known
  [[nodiscard]] bool contested() const;
  [[nodiscard]] std::optional<double> confidence() const;  // 1 without a rival; nullopt: some error is not known
};

// Known places in a row with the same winner, all contested or none.
struct WinnerSpan {
  std::int64_t from = 0, to = 0;
  std::optional<std::size_t> winner;
  bool contested = false;
  double lead_min = 1, lead_max = 1;  // at the places looked at
  std::vector<std::size_t> next;      // best, in order of places, each once
};

// The winner changes between two neighbouring places; or, in a zone where none is clearly ahead, from its first change to
// its last.
struct Crossing {
  std::int64_t last_before = 0, first_after = 0;
  std::optional<std::size_t> before, after;
  std::optional<std::pair<std::int64_t, std::int64_t>> zone;  // contested places around it
};

struct CrossoverLine {
  std::vector<std::string> coordinates;  // of a map: what this line is at, by its axes; empty without
  Provenance provenance;                 // of its first place
  std::vector<Standing> standings;       // at all places looked at, ascending
  std::vector<std::string> reasons;      // by strategy: why it is feasible nowhere on the line; "": it is

  [[nodiscard]] const Standing& standing(std::int64_t at) const;  // a place that was looked at
};

// Crossings in one zone are one where the winner is another after it, and none where it is the same.
std::vector<Crossing> crossings_of(const CrossoverLine& line);
std::vector<WinnerSpan> spans_of(const CrossoverLine& line);

struct CrossoverRequest {
  std::string axis;                                 // its name, for the record
  std::vector<std::int64_t> coarse;                 // places, ascending
  std::function<AxisPoint(std::int64_t)> value_at;  // of the axis
  // The request of one concurrency at a place of a line.
  std::function<ConcurrencyRequest(const AxisPlace&)> request_at;
  std::vector<std::string> line_axes;                  // of a map
  std::vector<std::vector<std::string>> lines = {{}};  // their coordinates
  std::optional<double> assumed_error;                 // s of strategies whose own is not known
  std::size_t threads = 1;
  std::function<void(std::size_t done, std::size_t all)> progress;  // places known so far to be needed
};

struct CrossoverStudy {
  Provenance provenance;  // what all lines have in common: texts in which they differ are "by line"
  std::string axis;
  std::vector<std::string> line_axes;
  std::vector<std::string> strategies;
  std::optional<double> assumed_error;
  std::vector<CrossoverLine> lines;

  [[nodiscard]] bool feasible() const;
};

// The same study on any number of threads. Throws InputError (flag --strategy) for auto, which is
// one of the others.
CrossoverStudy run_crossover_study(const CrossoverRequest& request);

// s as above; nullopt where no row was left out of the fit.
std::optional<double> log_error(const Implementation& implementation, std::int64_t tokens);
// Phi(lead / error): that the true order of two times is that of the predicted ones, whose logarithms differ by `lead`.
double chance_of_order(double lead, double error);
// s of what the choice stands for; nullopt where the calibration knows no such error.
std::optional<double> prediction_error(const ConcurrencyRequest& request, const StrategyChoice& choice,
                                       std::int64_t tokens);

}  // namespace moesim
