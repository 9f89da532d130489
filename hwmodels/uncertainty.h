// How far a constant may be off.
//
// A range from p5 to p95: what the device file states for the constant ("uncertainty", a share of its value), and where it
// states none what numbers of its kind are usually worth (default_uncertainty()). Counts and sizes that an architecture fixes
// are exact unless they are assumed; a value set by hand is a what-if and has no range.
#pragma once

#include <optional>
#include <span>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "hwmodels/schema.h"

namespace moesim {

// Of a normal distribution: p95 lies so many standard deviations above the mean.
inline constexpr double kSigmasAtP95 = 1.6448536269514722;

struct KindUncertainty {
  SourceKind kind;
  double share;        // of the value, either way
  const char* reason;  // one line
};
// One entry per kind, in the order of SourceKind; of fitted ones, whose standard errors are known, the share is 0.
std::span<const KindUncertainty> default_uncertainties();
double default_uncertainty(SourceKind kind);

// p5 to p95 of a constant that a device has, within what a device file may state.
struct ConstantRange {
  double low = 0, high = 0;
  bool stated = false;  // by the device file

  [[nodiscard]] bool exact() const { return low == high; }
};
ConstantRange constant_range(const Constant& constant, const HwEntry& entry);
// Of a fitted one: so many of its standard errors, which are of the logarithm.
ConstantRange constant_range(const FittedConstant& constant, double errors = kSigmasAtP95);

// `share` lower and higher instead of what is stated or usual.
ConstantRange constant_range(const Constant& constant, const HwEntry& entry, double share);

// Variance of a sum of correlated effects: each of one standard error of its constant, all in the same unit; `correlation` as
// Implementation has it (empty: independent). First order: with effect_i = d ln(time) / d ln(constant_i) x its standard error it
// is g^T C g, C the covariance of the fit.
double combined_variance(std::span<const double> effects, std::span<const double> correlation);

// The device with one constant at another value; counts are rounded, and what no device can have is cut off.
HardwareModel with_constant(HardwareModel hardware, const HwEntry& entry, double value);

}  // namespace moesim
