#include "validation/sensitivity.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>

#include "hwmodels/schema.h"

namespace moesim {
namespace {

constexpr double kVariation = 0.3;

std::map<std::string, ErrorSummary> errors_with(const std::vector<MoeMeasurement>& rows, const std::string& file,
                                                HardwareModel hardware, const HwEntry& entry, double factor,
                                                const EvaluateOptions& options) {
  Constant& constant = *hardware.constants[static_cast<std::size_t>(entry.id)];
  const double value = constant.value * factor;
  constant.value = std::clamp(entry.whole ? std::round(value) : value, entry.min, entry.max);
  return evaluate(rows, file, hardware, options).by_strategy;
}

std::string errors(const std::map<std::string, ErrorSummary>& by_strategy, const std::string& strategy) {
  const auto it = by_strategy.find(strategy);
  if (it == by_strategy.end()) return fmt::format("{:>22}", "-");
  const ErrorSummary& s = it->second;
  return fmt::format("{:>6.1f} {:>6.1f} {:>+8.1f}", s.median_abs_pct, s.p95_abs_pct, s.bias_pct);
}

}  // namespace

AssumedEffects vary_assumed(const std::vector<MoeMeasurement>& rows, const std::string& file,
                            const HardwareModel& hardware, const Evaluation& base, const EvaluateOptions& options) {
  AssumedEffects effects;
  effects.device = hardware.name;
  effects.measurements = file;
  effects.base = base.by_strategy;
  for (const HwEntry& entry : hw_schema()) {
    const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(entry.id)];
    if (!constant || constant->kind != SourceKind::kAssumed) continue;
    ConstantEffect effect;
    effect.path = entry.path;
    effect.value = format_quantity(constant->value, entry.dimension);
    effect.source = constant->source;
    effect.low = errors_with(rows, file, hardware, entry, 1 - kVariation, options);
    effect.high = errors_with(rows, file, hardware, entry, 1 + kVariation, options);
    effects.constants.push_back(std::move(effect));
  }
  return effects;
}

void write_assumed_effects(const AssumedEffects& effects, std::ostream& out) {
  fmt::print(out, "Assumed constants of {} varied by -30 % and +30 %; errors in % against {}\n\n", effects.device,
             effects.measurements);
  fmt::print(out, "{:<40} {:<24} {:^22}   {:^22}   {:^22}\n", "", "", "x 0.7", "as assumed", "x 1.3");
  const char* heading = "median    p95     bias";
  fmt::print(out, "{:<40} {:<24} {}   {}   {}\n", "constant", "strategy", heading, heading, heading);
  for (const ConstantEffect& constant : effects.constants) {
    std::string label = fmt::format("{} = {}", constant.path, constant.value);
    for (const auto& [strategy, unused] : effects.base) {
      fmt::print(out, "{:<40} {:<24} {}   {}   {}\n", label, strategy, errors(constant.low, strategy),
                 errors(effects.base, strategy), errors(constant.high, strategy));
      label.clear();
    }
  }
}

}  // namespace moesim
