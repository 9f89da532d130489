// Fits the constants that belong to implementations to measured rows. The device's constants stay as its file states
// them, and the simulation is the one that predictions use.
//
// For each (implementation, weights): Levenberg-Marquardt (Eigen) over the logarithms of its constants. The residual of
// a row is log(simulated / measured), beyond 10 % counted linearly (Huber): kernels that a library chooses change by
// shape; its derivatives are of the first routing of each trace. A constant whose logarithm the data leave uncertain by more than a factor e is left out, and the fit is made
// again without it; a fit after which the mean error is larger than before is refused.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "validation/evaluate.h"

namespace moesim {

struct CalibrateOptions {
  std::vector<std::string> constants;  // the only ones to fit; empty: all that a strategy has
  bool leave_one_out = false;          // also the held-out error: each model predicted by a fit to the others
  std::string file;                    // what an evaluation calls the rows' files
  std::function<void(std::size_t done, std::size_t all)> progress;  // fits
};

struct FitReport {
  std::string implementation, strategy, weights;
  std::int64_t rows = 0;              // fitted to
  std::vector<std::string> skipped;   // "FILE:LINE: reason" of rows that cannot be simulated
  double condition = 0;               // of the Jacobian by the logarithms: largest / smallest singular value
  ErrorSummary before, after;         // of rows at or above kSmallRowUs
  std::vector<std::string> left_out;  // constants that the data cannot determine, each with its uncertainty
  std::string refused;                // why there was no fit; "": there was one
};

struct CalibrationResult {
  Calibration calibration;
  std::vector<FitReport> reports;      // in order of first appearance
  std::optional<Evaluation> left_out;  // with leave_one_out: what evaluate_left_out() gives, of the same fits
};

// What the rows are, for the overlay.
struct FitRecord {
  std::vector<FittedData> data;
  std::vector<std::string> filters;
  std::string date;
};

// Rows of one device. Throws InputError.
CalibrationResult calibrate(const std::vector<MoeMeasurement>& rows, const FitRecord& record,
                            const HardwareModel& hardware, const CalibrateOptions& options);

enum class LeaveOut {
  kModel,  // each model's rows are predicted under constants fitted to the other models
  kShard,  // rows of one device of several, whose kernels are short, under constants fitted to whole models
};

struct LeftOutOptions {
  LeaveOut what = LeaveOut::kModel;
  // Also how many rows lie in intervals that other rows promise. Of models always; of shards it takes a fit without each model.
  bool coverage = false;
  std::function<void(std::size_t done, std::size_t all)> progress;  // fits
};

// Errors on rows that the fit has not seen; in range are those whose fit reached as many tokens. Rows whose
// implementation the others do not determine have the device's constants alone. Throws InputError where nothing can be
// left out.
Evaluation evaluate_left_out(const std::vector<MoeMeasurement>& rows, const std::string& file,
                             const HardwareModel& hardware, const LeftOutOptions& options);

}  // namespace moesim
