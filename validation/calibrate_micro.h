// Fits a device's constants to its microbenchmarks, by Levenberg-Marquardt (Eigen) over their logarithms; the simulation is
// the one that predictions use, through evaluate_micro.
//
// The residual of a row is log(simulated / measured), beyond 10 % counted linearly (Huber). A constant that no row
// depends on, or whose logarithm stays uncertain by more than kMostRelativeError, keeps its value and is reported as
// left out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "hwmodels/schema.h"
#include "validation/micro.h"

namespace moesim {

struct DeviceConstantFit {
  Hw id = Hw::kCount;
  double present = 0, fitted = 0;  // base unit
  double relative_error = 0;       // standard error of the logarithm
  std::string left_out;            // why it keeps its present value; "": fitted
};

struct DeviceCalibration {
  std::vector<DeviceConstantFit> constants;  // in the order of the schema
  std::int64_t rows = 0;                     // fitted to
  double condition = 0;                      // of the Jacobian by the logarithms: largest / smallest singular value
  MicroEvaluation before, after;             // of all rows
};

// Rows of one device. Throws InputError: too few rows, or a row that lacks its benchmark's parameters.
DeviceCalibration calibrate_micro(const std::vector<MicroMeasurement>& rows, const std::string& file,
                                  const HardwareModel& hardware, const std::function<void(std::size_t)>& progress);

// The fitted constants in the form of a device file's sections, to be copied there. `data` says what was measured.
std::string device_sections_text(const DeviceCalibration& calibration, const std::string& data);

}  // namespace moesim
