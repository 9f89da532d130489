#include "workloads/studies/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "hwmodels/uncertainty.h"
#include "sim/io/input_error.h"
#include "workloads/routing/popularity.h"

namespace moesim {
namespace {

constexpr double kSkewShare = 0.25;
constexpr double kUniformSkew = 0.65;  // zipf exponent; public OLMoE-like traces, on average
constexpr double kMoreDuplicates = 0.10;
constexpr std::int64_t kFewTokens = 9;
constexpr double kTokensShare = 0.10;
constexpr double kMostTokens = 1e6;                  // as --concurrency takes them
constexpr double kLeastSkew = 1e-3, kMostSkew = 10;  // of a law's parameter
constexpr double kMostShare = 0.95;                  // of a range: its lower end must be something
constexpr const char* kRangeFlag = "--range";

Factor device_factor(const Constant& constant, const HwEntry& entry) {
  const ConstantRange range = constant_range(constant, entry);
  const double share = constant.uncertainty.value_or(default_uncertainty(constant.kind));
  return {.name = entry.path,
          .target = entry.id,
          .kind = source_kind_name(constant.kind),
          .basis = fmt::format("{:.4g} %, {}", share * 100, range.stated ? "the device file" : "usual for its kind"),
          .value = constant.value,
          .low = range.low,
          .high = range.high,
          .dimension = entry.dimension,
          .whole = entry.whole};
}

void add_fitted(const ConcurrencyRequest& request, std::vector<Factor>& factors) {
  if (!request.calibration) return;
  std::set<const Implementation*> seen;
  for (const StrategyChoice& choice : request.strategies) {
    if (choice.strategy == nullptr) continue;
    const Implementation* implementation =
        implementation_of(choice, &*request.calibration, request.model.expert_weights);
    if (implementation == nullptr || !seen.insert(implementation).second) continue;
    for (const auto& [name, constant] : implementation->constants) {
      const ConstantRange range = constant_range(constant);
      const Implementation low = implementation->with(name, range.low);
      factors.push_back({.name = fmt::format("{}.{}", implementation->name, name),
                         .target = FittedFactor{implementation->name, implementation->weights, name},
                         .kind = source_kind_name(SourceKind::kFitted),
                         .basis = fmt::format("x/÷ {:.3g}, its standard error x 1.645", range.high / constant.value),
                         .value = constant.value,
                         .low = low.constants.at(name).value,
                         .high = range.high});
    }
  }
}

Factor workload_factor(WorkloadFactor target, const char* name, const char* basis, double value, double low,
                       double high, bool whole) {
  return {.name = name,
          .target = target,
          .kind = "workload",
          .basis = basis,
          .value = value,
          .low = low,
          .high = high,
          .whole = whole};
}

void add_workload(const ConcurrencyRequest& request, std::vector<Factor>& factors) {
  const auto tokens = static_cast<double>(request.concurrencies.front());
  if (request.routing.kind == RoutingKind::kTrace) return;
  const double step = tokens <= static_cast<double>(kFewTokens) ? 1 : std::round(tokens * kTokensShare);
  factors.push_back(workload_factor(WorkloadFactor::kTokens, "tokens", step == 1 ? "one more or less" : "10 %", tokens,
                                    std::max(1.0, tokens - step), tokens + step, true));
  const double parameter = request.routing.parameter;
  const bool uniform = request.routing.kind == RoutingKind::kUniform;
  if (uniform && tokens > 1) {
    factors.push_back(workload_factor(WorkloadFactor::kSkew, "routing.skew",
                                      "up to zipf:0.65, as public traces have it", 0, 0, kUniformSkew, false));
  } else if (parameter > 0) {
    factors.push_back(workload_factor(WorkloadFactor::kSkew, "routing.skew", "25 % of the law's parameter", parameter,
                                      parameter * (1 - kSkewShare), parameter * (1 + kSkewShare), false));
  }
  if (is_popularity_law(request.routing.kind) && tokens > 1) {
    const double shared = request.routing_options.sticky_prefill;
    factors.push_back(workload_factor(WorkloadFactor::kDuplicates, "routing.duplicates",
                                      "up to 10 % of the picks are the token's before", shared, shared,
                                      std::min(1.0, shared + kMoreDuplicates), false));
  }
}

// What a factor can be at all.
ConstantRange limits_of(const Factor& factor, RoutingKind law) {
  if (const Hw* id = std::get_if<Hw>(&factor.target)) return {hw_entry(*id).min, hw_entry(*id).max, false};
  if (const auto* workload = std::get_if<WorkloadFactor>(&factor.target)) {
    switch (*workload) {
      case WorkloadFactor::kTokens:
        return {1, kMostTokens, false};
      case WorkloadFactor::kSkew:
        return {law == RoutingKind::kUniform ? 0 : kLeastSkew, kMostSkew, false};
      case WorkloadFactor::kDuplicates:
        return {0, 1, false};
    }
  }
  return {0, std::numeric_limits<double>::max(), false};
}

[[noreturn]] void fail_range(const std::string& name, const std::string& found, const std::string& expected) {
  throw InputError({kRangeFlag, name, found, expected, ""});
}

// p5 and p95 as they are.
void set_ends(Factor& factor, const FactorRange& range, std::size_t dots, const ConstantRange& limits) {
  const auto read = [&](const std::string& end) {
    const double value = parse_quantity(end, factor.dimension, kRangeFlag, range.name);
    if (value < limits.low || value > limits.high) {
      fail_range(range.name, factor.text(value),
                 fmt::format("{} to {}", factor.text(limits.low), factor.text(limits.high)));
    }
    if (factor.whole && value != std::floor(value)) fail_range(range.name, factor.text(value), "a whole number");
    return value;
  };
  factor.low = read(range.range.substr(0, dots));
  factor.high = read(range.range.substr(dots + 2));
  if (factor.low > factor.value || factor.high < factor.value) {
    fail_range(range.name, fmt::format("{} to {}", factor.text(factor.low), factor.text(factor.high)),
               fmt::format("a range that holds {}", factor.text(factor.value)));
  }
  factor.basis = kRangeFlag;
}

// p5 and p95 so far from the value, as far as it can be.
void set_share(Factor& factor, const FactorRange& range, const ConstantRange& limits) {
  const bool percent = range.range.ends_with('%');
  const std::string number = percent ? range.range.substr(0, range.range.size() - 1) : range.range;
  const double share = parse_quantity(number, Dimension::kDimensionless, kRangeFlag, range.name) / (percent ? 100 : 1);
  if (share > kMostShare) {
    fail_range(range.name, fmt::format("{:.4g} %", share * 100),
               fmt::format("at most {:.0f} % either way, or LOW..HIGH", kMostShare * 100));
  }
  const double step = factor.value == 0 ? share : factor.value * share;  // of nothing, so much itself
  const auto held = [&](double value) {
    return std::clamp(factor.whole ? std::round(value) : value, limits.low, limits.high);
  };
  factor.low = held(factor.value - step);
  factor.high = held(factor.value + step);
  factor.basis = fmt::format("{:.4g} %, {}", share * 100, kRangeFlag);
}

}  // namespace

const char* factor_group_name(FactorGroup group) {
  switch (group) {
    case FactorGroup::kDevice:
      return "device";
    case FactorGroup::kFitted:
      return "fitted";
    case FactorGroup::kWorkload:
      return "workload";
  }
  return "";
}

FactorGroup Factor::group() const {
  if (std::holds_alternative<Hw>(target)) return FactorGroup::kDevice;
  return std::holds_alternative<FittedFactor>(target) ? FactorGroup::kFitted : FactorGroup::kWorkload;
}

std::string Factor::text(double of) const {
  return dimension == Dimension::kDimensionless ? fmt::format("{:.4g}", of) : format_quantity(of, dimension);
}

FactorRange parse_factor_range(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0) return {text.substr(0, equals), text.substr(equals + 1)};
  throw InputError({kRangeFlag, "", fmt::format("'{}'", text),
                    "NAME=SHARE or NAME=LOW..HIGH, as in hbm.latency=20% or hbm.latency=200ns..1us", ""});
}

std::vector<Factor> device_factors(const HardwareModel& hardware) {
  std::vector<Factor> factors;
  for (const HwEntry& entry : hw_schema()) {
    const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(entry.id)];
    if (constant) factors.push_back(device_factor(*constant, entry));
  }
  std::erase_if(factors, [](const Factor& factor) { return factor.low == factor.high; });
  return factors;
}

std::vector<Factor> factors_of(const ConcurrencyRequest& request, const std::vector<FactorRange>& ranges) {
  std::vector<Factor> factors;
  for (const HwEntry& entry : hw_schema()) {
    const std::optional<Constant>& constant = request.hardware.constants[static_cast<std::size_t>(entry.id)];
    if (constant) factors.push_back(device_factor(*constant, entry));
  }
  add_fitted(request, factors);
  add_workload(request, factors);
  for (const FactorRange& range : ranges) {
    const auto named = [&](const Factor& factor) { return factor.name == range.name; };
    const auto found = std::find_if(factors.begin(), factors.end(), named);
    if (found == factors.end()) {
      std::vector<std::string> names;
      for (const Factor& factor : factors) names.push_back(factor.name);
      throw InputError({kRangeFlag, "", fmt::format("'{}'", range.name), "a constant that this result may hang on",
                        nearest_name(range.name, names)});
    }
    const ConstantRange limits = limits_of(*found, request.routing.kind);
    const std::size_t dots = range.range.find("..");
    if (dots == std::string::npos) {
      set_share(*found, range, limits);
    } else {
      set_ends(*found, range, dots, limits);
    }
  }
  std::erase_if(factors, [](const Factor& factor) { return factor.low == factor.high; });
  return factors;
}

ConcurrencyRequest with_factor(const ConcurrencyRequest& request, const FactorTarget& factor, double value) {
  ConcurrencyRequest changed = request;
  if (const Hw* id = std::get_if<Hw>(&factor)) {
    changed.hardware = with_constant(std::move(changed.hardware), hw_entry(*id), value);
    return changed;
  }
  if (const auto* fitted = std::get_if<FittedFactor>(&factor)) {
    for (Implementation& implementation : changed.calibration->implementations) {
      if (implementation.name != fitted->implementation || implementation.weights != fitted->weights) continue;
      implementation = implementation.with(fitted->constant, value);
    }
    return changed;
  }
  switch (std::get<WorkloadFactor>(factor)) {
    case WorkloadFactor::kTokens:
      changed.concurrencies = {std::llround(value)};
      break;
    case WorkloadFactor::kSkew:
      if (changed.routing.kind == RoutingKind::kUniform && value > 0) changed.routing.kind = RoutingKind::kZipf;
      changed.routing.parameter = value;
      break;
    case WorkloadFactor::kDuplicates:
      changed.routing_options.sticky_prefill = value;
      changed.routing_options.tokens_per_request =
          std::max(changed.routing_options.tokens_per_request, changed.concurrencies.front());
      break;
  }
  return changed;
}

}  // namespace moesim
