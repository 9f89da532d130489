// Simulates measured rows and says how far off the simulation is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"

namespace moesim {

// Percent errors of (simulated - measured) / measured.
struct ErrorSummary {
  std::int64_t count = 0;
  double mean_abs_pct = 0, median_abs_pct = 0, p95_abs_pct = 0, bias_pct = 0, max_abs_pct = 0;
};
ErrorSummary summarise(std::vector<double> errors_pct);

struct RowResult {
  const MoeMeasurement* row = nullptr;
  double simulated_us = 0;  // mean over the routings of its trace
  double bound_us = 0;
  double floor_us = 0;    // mean active experts x matrices / achieved read rate; 0 for stages without weights
  std::string limiter;    // largest blame
  bool in_range = false;  // its implementation is calibrated, for at least so many tokens
  [[nodiscard]] double error_pct() const { return (simulated_us / row->us - 1) * 100; }
  [[nodiscard]] double floor_error_pct() const { return (floor_us / row->us - 1) * 100; }
};

struct Cell {  // totals of one strategy, weights, band
  std::string strategy, weights, band, scope;
  ErrorSummary ours, floor;
};

struct Choice {
  std::int64_t cells = 0;      // (model, shard, weights, tokens, trace) with several strategies measured
  double right_share = 0;      // the predicted winner is the measured one
  double mean_regret_pct = 0;  // time lost by taking the predicted winner
};

struct Evaluation {
  std::string device, device_hash, measurements;
  std::vector<RowResult> rows;  // at or above kSmallRowUs
  std::vector<RowResult> small_rows;
  std::vector<std::string> skipped;  // "FILE:LINE: reason" of rows that this device or version cannot simulate
  ErrorSummary overall, small, floor, in_range, out_of_range;
  std::map<std::string, ErrorSummary> by_strategy, by_strategy_dtype, by_band, by_stage, by_implementation;
  std::vector<Cell> cells;
  Choice choice;
  std::int64_t below_bound = 0;  // predictions below their bound; 0 unless something is wrong
};

inline constexpr double kSmallRowUs = 10;  // below this rows are launch noise

// Bands of tokens: "1-8", "9-64", "65-1024", "1025+".
std::string token_band(std::int64_t tokens);

struct EvaluateOptions {
  const Calibration* calibration = nullptr;                // rows of implementations that it knows use their constants
  std::function<void(std::size_t, std::size_t)> progress;  // rows done, rows in all
};

// `hardware` is used for every row whatever its device; the caller chooses rows. Throws InputError for what cannot be
// read.
Evaluation evaluate(const std::vector<MoeMeasurement>& rows, const std::string& file, const HardwareModel& hardware,
                    const EvaluateOptions& options);

}  // namespace moesim
