// Simulates measured rows and says how far off the simulation is.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"
#include "validation/coverage.h"
#include "validation/prepared_rows.h"

namespace moesim {

// Percent errors of (simulated - measured) / measured.
struct ErrorSummary {
  std::int64_t count = 0;
  double mean_abs_pct = 0, median_abs_pct = 0, p95_abs_pct = 0, bias_pct = 0, max_abs_pct = 0;
};
ErrorSummary summarise(std::vector<double> errors_pct);

struct Cell {  // totals of one strategy, weights, band
  std::string strategy, weights, band, scope;
  ErrorSummary ours, floor;
};

struct ImplementationErrors {
  std::string strategy, implementation, weights;
  bool fitted = false;  // some of its rows were simulated with its own constants
  ErrorSummary ours;
};

struct ChoiceErrors {
  std::int64_t cells = 0;
  double right_share = 0;             // the predicted winner is the measured one
  double mean_regret_pct = 0;         // time lost by taking the predicted strategy, by its fastest kernel
  double mean_kernel_regret_pct = 0;  // by the kernel that is predicted fastest
};

// Over cells (model, shard, weights, tokens, trace) with several strategies measured; of a strategy the fastest row counts.
struct Choice {
  ChoiceErrors all;
  // Cells whose two fastest strategies differ by more than kSpreads times the larger spread of their two rows,
  // (p90 - us) / us: there the measurement itself knows the winner.
  ChoiceErrors decided;
};
inline constexpr double kSpreads = 3;

struct Evaluation {
  std::string device, device_hash, measurements;
  std::vector<RowResult> rows;  // at or above kSmallRowUs
  std::vector<RowResult> small_rows;
  std::vector<RowResult> skipped;  // rows that this device or version cannot simulate
  ErrorSummary overall, small, floor, in_range, out_of_range, power_capped, not_power_capped;
  std::map<std::string, ErrorSummary> by_strategy, by_strategy_dtype, by_band, by_stage, by_implementation;
  std::vector<ImplementationErrors> implementations;
  std::vector<Cell> cells;
  Choice choice;
  std::optional<Coverage> coverage;  // where it was asked for
  std::int64_t below_bound = 0;      // predictions below their bound; 0 unless something is wrong
};

inline constexpr double kSmallRowUs = kShortTimeUs;  // below this rows are launch noise

struct EvaluateOptions {
  const Calibration* calibration = nullptr;                // rows of implementations that it knows use their constants
  bool coverage = false;                                   // also how many rows lie in the calibration's intervals
  std::function<void(std::size_t, std::size_t)> progress;  // rows done, rows in all
};

// Whose constants a row takes; nullptr: nobody's.
const Implementation* implementation_of_row(const MoeMeasurement& row, const Calibration* calibration);

// `hardware` is used for every row whatever its device; the caller chooses rows. `file` is what outputs call the rows.
// Throws InputError for what cannot be read.
Evaluation evaluate(const std::vector<MoeMeasurement>& rows, const std::string& file, const HardwareModel& hardware,
                    const EvaluateOptions& options);
// The errors of rows that were simulated already, in the order given.
Evaluation summarise_rows(std::vector<RowResult> results, const std::string& file, const HardwareModel& hardware);

}  // namespace moesim
