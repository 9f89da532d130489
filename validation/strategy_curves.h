// Two strategies over tokens, measured and simulated: where each says that the one starts to beat the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validation/evaluate.h"

namespace moesim {

// Rows of a strategy; of those of any implementation the fastest measured one of its cell.
struct CurveOf {
  std::string strategy, implementation;  // "": any
};

struct CurvePoint {
  std::int64_t tokens = 0;
  RowResult one, other;              // of the same routings
  std::optional<double> confidence;  // that the simulated order is the right one; nullopt: an error is not known

  // Time of the one over time of the other: under 1 where the one is faster.
  [[nodiscard]] double measured_ratio() const { return one.row->us / other.row->us; }
  [[nodiscard]] double simulated_ratio() const { return one.simulated_us / other.simulated_us; }
  [[nodiscard]] double ratio_error_pct() const { return (simulated_ratio() / measured_ratio() - 1) * 100; }
  [[nodiscard]] bool same_winner() const { return (measured_ratio() < 1) == (simulated_ratio() < 1); }
};

// Of one model, shard, number format, scope, launch mode and routing law.
struct StrategyCurves {
  std::string model, weights, scope, launch, routing;
  std::int64_t tp = 1, ep = 1;
  std::vector<CurvePoint> points;  // by ascending tokens

  // Measured: the last tokens at which the one is ahead by kClearLead, and the first after them at which the other is.
  [[nodiscard]] std::optional<std::int64_t> last_clear() const;
  [[nodiscard]] std::optional<std::int64_t> first_clear() const;
  // Tokens from which on the other stays ahead as simulated: where the ratio goes through 1 between two points, on straight
  // lines of logarithms; of an other that is always ahead the first point's tokens. nullopt: the one is ahead at the last.
  [[nodiscard]] std::optional<double> simulated_crossover() const;
  // Whether that lies between the two; nullopt where either end or the crossover is not there to tell.
  [[nodiscard]] std::optional<bool> inside() const;
};

inline constexpr double kClearLead = 1.05;

// Curves with at least one point, by model, weights, shard, scope, launch, routing. Rows that were not simulated are left
// out. `overlay` (nullptr: none) knows errors of rows left out of fits. The rows must outlive the result.
std::vector<StrategyCurves> curves_of(const Evaluation& evaluation, const CurveOf& one, const CurveOf& other,
                                      const Calibration* overlay);

}  // namespace moesim
