// Measured rows made ready: their strategies, parameters, routings and layers, read once for any number of simulations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "sim/timeline/attribution.h"
#include "traces/measurement.h"
#include "workloads/predict.h"

namespace moesim {

struct RowResult {
  const MoeMeasurement* row = nullptr;
  double simulated_us = 0;  // mean over the routings of its trace
  double bound_us = 0;
  double floor_us = 0;           // mean active experts x matrices / achieved read rate; 0 for stages without weights
  Attribution attribution{};     // summed over the routings
  std::int64_t below_bound = 0;  // predictions below their bound; 0 unless something is wrong
  bool fitted = false;           // with constants fitted to its implementation
  bool in_range = false;         // fitted, to at least so many tokens
  double parameter_variance =
      0;                // of ln(simulated_us), by the covariance of the fitted constants, where it was asked for
  std::string skipped;  // why it cannot be simulated; "": it was
  [[nodiscard]] double error_pct() const { return (simulated_us / row->us - 1) * 100; }
  [[nodiscard]] double floor_error_pct() const { return (floor_us / row->us - 1) * 100; }
};

class PreparedRows {
 public:
  // `rows` and `hardware` must live as long. Each row is taken as of this device. Throws InputError for what cannot be
  // read.
  PreparedRows(const std::vector<MoeMeasurement>& rows, const HardwareModel& hardware);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const MoeMeasurement& row(std::size_t i) const { return *rows_[i].row; }
  [[nodiscard]] const std::string& variant(std::size_t i) const { return rows_[i].variant; }

  // At the clock that it ran at, with the fitted constants of `implementation` (nullptr: the device's alone). `routings`:
  // only so many of its trace.
  [[nodiscard]] RowResult simulate(std::size_t i, const Implementation* implementation,
                                   std::size_t routings = SIZE_MAX) const;
  // First order, of the first routing: what the standard errors of the constants and their correlation make of ln(time).
  [[nodiscard]] double parameter_variance(std::size_t i, const Implementation& implementation) const;

 private:
  struct Row {
    const MoeMeasurement* row = nullptr;
    StrategyChoice choice;
    std::string variant;
    PredictOptions options;
    std::vector<MoeLayer> layers;  // one a routing
    std::string skipped;
  };

  std::vector<Row> rows_;
  const HardwareModel& hardware_;
};

}  // namespace moesim
