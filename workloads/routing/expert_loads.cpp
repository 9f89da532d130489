// Gini coefficient of sorted rows x_1 <= ... <= x_E: (2 sum of i x_i) / (E sum of x_i) - (E + 1) / E. Rows are sorted by
// counting, so a run of n experts with x rows each, beginning after `before` others, has sum of i = n before + n (n + 1) / 2.
#include "workloads/routing/expert_loads.h"

#include <algorithm>
#include <cmath>

#include "sim/units/check.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::array<LoadName, kLoadCount> kNames = {{{"distinct_experts", "distinct"},
                                                      {"duplicate_pct", "dup %"},
                                                      {"rows_per_active_expert", "rows/expert"},
                                                      {"max_rows", "max"},
                                                      {"max_over_mean", "max/mean"},
                                                      {"gini", "Gini"},
                                                      {"effective_experts", "effective"},
                                                      {"tiles_m16", "tiles 16"},
                                                      {"tiles_m64", "tiles 64"},
                                                      {"tiles_m128", "tiles 128"}}};
constexpr std::array<std::pair<Load, std::int64_t>, 3> kTileRows = {
    {{Load::kTiles16, 16}, {Load::kTiles64, 64}, {Load::kTiles128, 128}}};

double& at(Loads& loads, Load load) { return loads[static_cast<std::size_t>(load)]; }

// 0, 1, 2, then (2^(b-2), 2^(b-1)]; the last bin is open.
std::size_t histogram_bin(std::int64_t rows) {
  if (rows <= 2) return static_cast<std::size_t>(rows);
  std::size_t bin = 3;
  for (std::int64_t last = 4; rows > last && bin + 1 < kHistogramBins; last *= 2) ++bin;
  return bin;
}

}  // namespace

const LoadName& load_name(std::size_t load) { return kNames[load]; }

std::array<const char*, kHistogramBins> histogram_names() {
  return {"0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257+"};
}

LoadMeter::LoadMeter(std::int64_t experts) : experts_(experts), rows_(static_cast<std::size_t>(experts), 0) {}

// Fills active_ and experts_with_, leaves rows_ at 0.
void LoadMeter::count_rows(const RoutedBatch& batch) {
  active_.clear();
  for (const std::int32_t id : batch.ids) {
    if (rows_[static_cast<std::size_t>(id)]++ == 0) active_.push_back(id);
  }
  std::int64_t most = 0;
  for (const std::int32_t id : active_) most = std::max(most, rows_[static_cast<std::size_t>(id)]);
  experts_with_.assign(static_cast<std::size_t>(most) + 1, 0);
  experts_with_[0] = experts_ - static_cast<std::int64_t>(active_.size());
  for (const std::int32_t id : active_) {
    std::int64_t& rows = rows_[static_cast<std::size_t>(id)];
    ++experts_with_[static_cast<std::size_t>(rows)];
    rows = 0;
  }
}

const Loads& LoadMeter::measure(const RoutedBatch& batch) {
  MOESIM_CHECK(batch.experts == experts_ && batch.picks() > 0);
  count_rows(batch);
  loads_ = {};
  histogram_ = {};
  const auto picks = static_cast<double>(batch.picks());
  const auto experts = static_cast<double>(experts_);
  const auto distinct = static_cast<double>(active_.size());
  double ranked = 0, entropy = 0, before = 0;
  for (std::size_t rows = 0; rows < experts_with_.size(); ++rows) {
    if (experts_with_[rows] == 0) continue;
    const auto n = static_cast<double>(experts_with_[rows]);
    const auto x = static_cast<double>(rows);
    histogram_[histogram_bin(static_cast<std::int64_t>(rows))] += experts_with_[rows];
    ranked += x * (n * before + n * (n + 1) / 2);
    before += n;
    if (rows == 0) continue;
    entropy -= n * x / picks * std::log(x / picks);
    for (const auto& [load, tile] : kTileRows) {
      at(loads_, load) += n * static_cast<double>(divide_up(static_cast<std::int64_t>(rows), tile));
    }
  }
  at(loads_, Load::kDistinct) = distinct;
  constexpr double kPercent = 100;
  at(loads_, Load::kDuplicatePercent) = kPercent * (1 - distinct / picks);
  at(loads_, Load::kRowsPerActive) = picks / distinct;
  at(loads_, Load::kMaxRows) = static_cast<double>(experts_with_.size() - 1);
  at(loads_, Load::kMaxOverMean) = at(loads_, Load::kMaxRows) * experts / picks;
  at(loads_, Load::kGini) = 2 * ranked / (experts * picks) - (experts + 1) / experts;
  at(loads_, Load::kEffective) = std::exp(entropy);
  return loads_;
}

}  // namespace moesim
