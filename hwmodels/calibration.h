// A calibration overlay: constants that belong to implementations of strategies, fitted to kernels that ran on the device.
//
// The device file holds what no MoE kernel was needed for; this holds the few numbers per implementation that no microbenchmark gives
// (what its code does at its start, how many steps its pipeline really keeps in flight), each with its standard error and its
// correlation with the others, and how wrong predictions were on rows that the fit had not seen, and without any fit. hwmodels passes the constants through as named quantities;
// workloads/strategies reads them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "hwmodels/residuals.h"

namespace moesim {

// By kernel ("up", "down", "gather", "helper") and quantity, as in "up.start_us". Absent: neutral.
using ImplementationConstants = std::map<std::string, double>;

struct FittedConstant {
  double value = 0;
  double relative_error = 0;  // standard error of its logarithm
};

struct HeldOutError {  // |error| in %, rows of models left out of the fit
  std::int64_t rows = 0;
  double median = 0, p95 = 0, bias = 0;
};

struct Implementation {
  std::string name;              // "triton-grouped"
  std::string strategy;          // "grouped_gemm"
  std::string variant;           // of the strategy's kernels: "persistent=1"; "": its default one
  std::string weights;           // "bf16"
  std::int64_t rows = 0;         // of the fit
  std::int64_t most_tokens = 0;  // of the fit: beyond, predictions are outside the calibrated range
  std::map<std::string, FittedConstant> constants;
  // Of the constants' logarithms, in their order: the lower triangle without the diagonal, row by row. Empty: not known.
  std::vector<double> correlation;
  std::string no_fit;  // why it has no constants although it was measured; "": it has some
  HeldOutError held_out;
  std::array<HeldOutError, kTokenBands.size()> held_out_by_band{};  // rows 0: nothing known

  [[nodiscard]] ImplementationConstants values() const;
  // With one constant at another value, no lower than it can be.
  [[nodiscard]] Implementation with(const std::string& constant, double value) const;
};

struct FittedData {
  std::string file;  // of measurements, with its folder
  std::string hash;
};

struct Calibration {
  std::string device;       // its name
  std::string device_hash;  // of the device file that it was fitted with
  std::vector<FittedData> data;
  std::vector<std::string> filters;  // flags that left rows out of the fit
  std::string date;                  // of the fit; "": not stated
  std::vector<std::string> models;
  std::vector<Implementation> implementations;
  ResidualRecord residuals;
  std::string file, hash;  // it was read from

  // By name and weights; nullptr when it is not known.
  [[nodiscard]] const Implementation* find(const std::string& name, const std::string& weights) const;
  // What a strategy stands for when no implementation is named: the first one of it, this variant and these weights.
  [[nodiscard]] const Implementation* of_strategy(const std::string& strategy, const std::string& variant,
                                                  const std::string& weights) const;
};

// A path to an overlay. Throws InputError.
Calibration load_calibration(const std::string& path);
Calibration parse_calibration(const std::string& text, const std::string& file_name);
// The overlay that comes with moesim for the device of this name (calibrations/NAME.json), if there is one.
std::optional<Calibration> calibration_of_device(const std::string& device);
// What stands in where a device has no overlay: residuals without a fit on a device that has one, and that device.
struct ReferenceResiduals {
  std::string device;
  ResidualRecord residuals;
};
std::optional<ReferenceResiduals> reference_residuals();
// What an output names it: file, hash, date, and whether it was fitted with this very device file.
std::string calibration_name(const Calibration& calibration, const HardwareModel& hardware);
// The overlay as a file: same value, same bytes.
std::string calibration_text(const Calibration& calibration);

}  // namespace moesim
