#include "hwmodels/uncertainty.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::array<KindUncertainty, 6> kDefaults = {{
    {SourceKind::kDatasheet, 0.02,
     "peaks and clocks as sold; what a kernel reaches of them are constants of their own"},
    {SourceKind::kPublished, 0.15, "latencies of one chip differ by about 15 % between published tools"},
    {SourceKind::kMicrobenchmark, 0.03,
     "within about 1 % on that card; two harnesses of one quantity agree within 3 % (hbm.write_weight 1.37 and 1.42)"},
    {SourceKind::kAssumed, 0.30, "nobody published it: the rule or the neighbour that it follows is a guess"},
    {SourceKind::kFitted, 0, "1.645 standard errors of its fit"},
    {SourceKind::kOverride, 0, "a what-if is what was asked for"},
}};

double held(double value, const HwEntry& entry) {
  return std::clamp(entry.whole ? std::round(value) : value, entry.min, entry.max);
}

}  // namespace

std::span<const KindUncertainty> default_uncertainties() { return kDefaults; }

double default_uncertainty(SourceKind kind) {
  const auto* found =
      std::find_if(kDefaults.begin(), kDefaults.end(), [&](const KindUncertainty& one) { return one.kind == kind; });
  MOESIM_CHECK(found != kDefaults.end());
  return found->share;
}

ConstantRange constant_range(const Constant& constant, const HwEntry& entry, double share) {
  return {held(constant.value * (1 - share), entry), held(constant.value * (1 + share), entry), false};
}

ConstantRange constant_range(const Constant& constant, const HwEntry& entry) {
  const bool fixed = entry.whole && constant.kind != SourceKind::kAssumed;
  ConstantRange range =
      constant_range(constant, entry, constant.uncertainty.value_or(fixed ? 0 : default_uncertainty(constant.kind)));
  range.stated = constant.uncertainty.has_value();
  return range;
}

ConstantRange constant_range(const FittedConstant& constant, double errors) {
  const double factor = std::exp(errors * constant.relative_error);
  return {constant.value / factor, constant.value * factor, true};
}

double combined_variance(std::span<const double> effects, std::span<const double> correlation) {
  double variance = 0;
  std::size_t pair = 0;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    variance += effects[i] * effects[i];
    if (correlation.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) variance += 2 * correlation[pair++] * effects[i] * effects[j];
  }
  return std::max(variance, 0.0);  // rounded correlations may leave a little less than nothing
}

HardwareModel with_constant(HardwareModel hardware, const HwEntry& entry, double value) {
  std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(entry.id)];
  MOESIM_CHECK(constant.has_value());
  constant->value = held(value, entry);
  return hardware;
}

}  // namespace moesim
