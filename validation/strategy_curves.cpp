#include "validation/strategy_curves.h"

#include <cmath>
#include <map>
#include <tuple>

#include "workloads/studies/crossover.h"

namespace moesim {
namespace {

using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, std::string, std::string>;

struct Pair {
  const RowResult* one = nullptr;
  const RowResult* other = nullptr;
};

bool is_of(const RowResult& result, const CurveOf& curve) {
  return result.row->strategy == curve.strategy &&
         (curve.implementation.empty() || result.row->implementation == curve.implementation);
}

void take_fastest(const RowResult*& best, const RowResult& result) {
  if (best == nullptr || result.row->us < best->row->us) best = &result;
}

std::optional<double> confidence_of(const RowResult& one, const RowResult& other, const Calibration* overlay) {
  if (overlay == nullptr) return std::nullopt;
  double square = 0;
  for (const RowResult* result : {&one, &other}) {
    const Implementation* implementation =
        result->fitted ? overlay->find(result->row->implementation, result->row->weights) : nullptr;
    if (implementation == nullptr) return std::nullopt;
    const std::optional<double> error = log_error(*implementation, result->row->tokens);
    if (!error) return std::nullopt;
    square += *error * *error;
  }
  return chance_of_order(std::abs(std::log(one.simulated_us / other.simulated_us)), std::sqrt(square));
}

}  // namespace

std::optional<std::int64_t> StrategyCurves::last_clear() const {
  std::optional<std::int64_t> last;
  for (const CurvePoint& point : points) {
    if (point.measured_ratio() * kClearLead <= 1) last = point.tokens;
  }
  return last;
}

std::optional<std::int64_t> StrategyCurves::first_clear() const {
  const std::int64_t after = last_clear().value_or(0);
  for (const CurvePoint& point : points) {
    if (point.tokens > after && point.measured_ratio() >= kClearLead) return point.tokens;
  }
  return std::nullopt;
}

std::optional<double> StrategyCurves::simulated_crossover() const {
  std::size_t after = points.size();  // the first point from which on the other stays ahead
  while (after > 0 && points[after - 1].simulated_ratio() >= 1) --after;
  if (after == points.size()) return std::nullopt;
  const auto tokens_after = static_cast<double>(points[after].tokens);
  if (after == 0) return tokens_after;
  const auto tokens_before = static_cast<double>(points[after - 1].tokens);
  const double behind = std::log(points[after].simulated_ratio()),
               ahead = -std::log(points[after - 1].simulated_ratio());
  return tokens_before * std::pow(tokens_after / tokens_before, ahead / (behind + ahead));
}

std::optional<bool> StrategyCurves::inside() const {
  const std::optional<double> crossover = simulated_crossover();
  const std::optional<std::int64_t> first = first_clear();
  if (!crossover || !first) return std::nullopt;
  return *crossover >= static_cast<double>(last_clear().value_or(0)) && *crossover <= static_cast<double>(*first);
}

std::vector<StrategyCurves> curves_of(const Evaluation& evaluation, const CurveOf& one, const CurveOf& other,
                                      const Calibration* overlay) {
  std::map<Key, std::map<std::pair<std::int64_t, std::string>, Pair>> cells;  // by tokens and trace
  for (const std::vector<RowResult>* results : {&evaluation.rows, &evaluation.small_rows}) {
    for (const RowResult& r : *results) {
      const MoeMeasurement& row = *r.row;
      if (row.stage != "total" || !(is_of(r, one) || is_of(r, other))) continue;
      Pair& pair = cells[{row.model_name, row.weights, row.tp, row.ep, row.scope, row.launch, row.routing}]
                        [{row.tokens, row.routed_trace}];
      take_fastest(is_of(r, one) ? pair.one : pair.other, r);
    }
  }
  std::vector<StrategyCurves> list;
  for (const auto& [key, pairs] : cells) {
    StrategyCurves curves;
    std::tie(curves.model, curves.weights, curves.tp, curves.ep, curves.scope, curves.launch, curves.routing) = key;
    for (const auto& [at, pair] : pairs) {
      if (pair.one == nullptr || pair.other == nullptr) continue;
      curves.points.push_back({at.first, *pair.one, *pair.other, confidence_of(*pair.one, *pair.other, overlay)});
    }
    if (!curves.points.empty()) list.push_back(std::move(curves));
  }
  return list;
}

}  // namespace moesim
