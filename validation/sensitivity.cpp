#include "validation/sensitivity.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "hwmodels/schema.h"
#include "hwmodels/uncertainty.h"

namespace moesim {
namespace {

constexpr double kAssumedVariation = 0.3;

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
    const ConstantRange range = constant_range(*constant, entry, kAssumedVariation);
    const auto errors_at = [&](double value) {
      return evaluate(rows, file, with_constant(hardware, entry, value), options).by_strategy;
    };
    effect.low = errors_at(range.low);
    effect.high = errors_at(range.high);
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
