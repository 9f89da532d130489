// Residuals of simulated rows, and how many of other rows lie within the p5 to p95 that they promise.
//
// A right interval of 90 % holds 90 % of the rows that had no part in it. So rows are looked up in quantiles of other rows:
// those of the other models, of whole models where shards are left out, or of the overlay. A model's quantiles from the
// others still come from fits that saw this model beside the one that each leaves out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hwmodels/residuals.h"
#include "validation/prepared_rows.h"

namespace moesim {

// Rows at or above kSmallRowUs as their class says, shorter ones in the cells of short times.
std::vector<Residual> residuals_of(const std::vector<RowResult>& rows);

// Of the held-out residuals of two strategies at the same model, shard, weights, tokens and routed trace: how far they err
// together. 0 where nothing is known or they rather err apart.
double strategy_correlation(const std::vector<RowResult>& held_out);

// `held_out`: only its rows with fitted constants count; `alone`: the same rows without.
ResidualRecord residual_record(const std::vector<RowResult>& held_out, const std::vector<RowResult>& alone);

struct CoverageSummary {
  std::int64_t rows = 0;
  double inside_share = 0, below_share = 0;  // of the rows: between p5 and p95, below p5
  double median_half_width_pct = 0;          // of the simulated time
};

struct CoverageCell {
  std::string strategy, weights, band;
  CoverageSummary summary;
};

// How often the predicted winner was the measured one, beside how likely it was said to be, over points where several strategies
// were measured (of a strategy any row may be the fastest).
struct WinnerOdds {
  std::int64_t points = 0;
  double mean_probability = 0, right_share = 0;
};
inline constexpr double kSureOfWinner = 0.9;

struct Coverage {
  std::string quantiles_of;                        // what stands behind the intervals
  CoverageSummary overall, layers, stages, small;  // small: rows below kSmallRowUs, counted nowhere else
  std::map<std::string, CoverageSummary> by_strategy, by_strategy_dtype, by_band, by_basis, by_model;
  std::vector<CoverageCell> cells;  // of layers and stages
  WinnerOdds odds, sure_odds;       // all; those said to be kSureOfWinner and more
  std::int64_t unknown = 0;         // rows that no residual stands for
};

// Each model's rows by the residuals of the other models' rows.
Coverage coverage_by_other_models(const std::vector<RowResult>& held_out, const std::vector<RowResult>& alone);
// Rows by the residuals of others.
Coverage coverage_by_record(const std::vector<RowResult>& rows, const ResidualRecord& record,
                            const std::string& quantiles_of);

}  // namespace moesim
