#include "workloads/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "hwmodels/build_machine.h"
#include "sim/io/input_error.h"
#include "workloads/strategies/blocks.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

constexpr double kFloorReadShare = 15.0 / 16;

Bytes layer_bytes(const MoeLayer& layer, const PredictOptions& options) {
  const Bytes experts = (layer.up_bytes() + layer.down_bytes()) * layer.active;
  if (options.stage == "gemm1") return layer.up_bytes() * layer.active;
  if (options.stage == "gemm2") return layer.down_bytes() * layer.active;
  if (!options.stage.empty()) return Bytes(0);
  if (options.scope == Scope::kExpertFfn) return experts;
  const std::int64_t shared = layer.shared_intermediate;
  const Bytes router = matrix_bytes({Dtype::kBf16, 0}, layer.router_experts, layer.hidden);
  Bytes total = experts + router;
  if (layer.latent > 0) {
    total += matrix_bytes(layer.other_weights, layer.latent, layer.hidden) +
             matrix_bytes(layer.other_weights, layer.hidden, layer.latent);
  }
  if (shared > 0) {
    total += matrix_bytes(layer.other_weights, layer.gated ? 2 * shared : shared, layer.hidden) +
             matrix_bytes(layer.other_weights, layer.hidden, shared);
  }
  return total;
}

// What was asked for, and else what the stack's rules say.
Parameters parameters_of(const StrategyChoice& choice, const MoeLayer& layer) {
  Parameters parameters = choice.parameters;
  if (choice.stack != nullptr) parameters.merge(stack_parameters(*choice.stack, layer));
  return parameters;
}

PredictionOrInfeasible predict_one(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                                   const PredictOptions& options) {
  Lowered lowered = lower_layer(layer, hardware, choice, options);
  if (auto* reason = std::get_if<Infeasible>(&lowered)) return std::move(*reason);
  Prediction prediction = simulate_plan(std::get<ExecutionPlan>(lowered), hardware, options);
  prediction.strategy = choice.text;
  const Implementation* implementation = implementation_of(choice, options.calibration, layer.weights);
  if (implementation != nullptr) prediction.implementation = implementation->name;
  prediction.bound = bound(layer, hardware, options, &prediction.matrix_bound);
  prediction.active_experts = layer.active;
  return prediction;
}

template <class Value>
Value parse_choice(const char* flag, const std::string& text,
                   std::initializer_list<std::pair<const char*, Value>> choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  throw InputError({flag, "", fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(text, names)});
}

}  // namespace

Lowered lower_layer(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                    const PredictOptions& options, UsedParameters* used) {
  if (std::optional<Infeasible> reason = wrong_grid(*choice.strategy, hardware)) return std::move(*reason);
  const double clock = options.clock_hz.value_or(hardware[Hw::kClockBoost]);
  const Parameters parameters = parameters_of(choice, layer);
  const Implementation* implementation = implementation_of(choice, options.calibration, layer.weights);
  const ImplementationConstants constants =
      implementation == nullptr ? ImplementationConstants{} : implementation->values();
  const LowerRequest request{layer,      hardware,  clock,         options.scope, options.launch,
                             parameters, constants, options.stage, used};
  return choice.strategy->lower(request);
}

Parameters tile_parameters(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                           const PredictOptions& options) {
  UsedParameters used;
  lower_layer(layer, hardware, choice, options, &used);
  Parameters tile = choice.parameters;
  for (const auto& [name, value] : used) {
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    const bool of_tile = last.starts_with("block_") || last.starts_with("tile_") || last.starts_with("num_");
    if (of_tile && value) tile.emplace(name, *value);
  }
  return tile;
}

Prediction simulate_plan(const ExecutionPlan& plan, const HardwareModel& hardware, const PredictOptions& options) {
  SimulationResult result = simulate(plan, build_machine(hardware), options.simulate);
  Prediction prediction;
  prediction.time = result.total;
  prediction.stopped = result.stopped;
  prediction.attribution = result.attribution;
  prediction.work_items = result.items;
  prediction.cohorts = result.cohorts;
  for (std::size_t k = 0; k < result.kernels.size(); ++k) {
    const KernelResult& kernel = result.kernels[k];
    prediction.memory_read += kernel.memory_read;
    prediction.memory_reread += kernel.memory_reread;
    prediction.cache_read += kernel.cache_read;
    prediction.written += kernel.written;
    prediction.kernels.push_back({plan.kernels()[k].name, plan.kernels()[k].stage, kernel});
  }
  return prediction;
}

PredictionOrInfeasible best_strategy(
    const HardwareModel& hardware,
    const std::function<PredictionOrInfeasible(const StrategyChoice&, const PredictOptions&)>& predict_one,
    const PredictOptions& options) {
  PredictOptions unheard = options;
  unheard.simulate.listener = nullptr;
  std::optional<Prediction> best;
  std::string reasons;
  for (const Strategy& strategy : strategy_catalogue()) {
    if (strategy.grid != hardware.grid || strategy.what_if_of != nullptr) continue;
    const StrategyChoice candidate{&strategy, {}, "", strategy.name};
    PredictionOrInfeasible one = predict_one(candidate, unheard);
    if (const auto* infeasible = std::get_if<Infeasible>(&one)) {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", strategy.name, infeasible->reason);
    } else if (Prediction& found = std::get<Prediction>(one); !best || found.time < best->time) {
      best = std::move(found);
    }
  }
  if (!best) return Infeasible{reasons};
  if (options.simulate.listener != nullptr) return predict_one(parse_strategy(best->strategy), options);
  return std::move(*best);
}

PredictionOrInfeasible predict(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                               const PredictOptions& options) {
  const auto one = [&](const StrategyChoice& of, const PredictOptions& with) {
    return predict_one(layer, hardware, of, with);
  };
  return choice.strategy == nullptr ? best_strategy(hardware, one, options) : one(choice, options);
}

const Implementation* implementation_of(const StrategyChoice& choice, const Calibration* calibration,
                                        WeightFormat weights) {
  if (calibration == nullptr) return nullptr;
  const std::string format = format_name(weights);
  const Strategy& strategy = *choice.strategy;
  const std::string fitted = strategy.what_if_of == nullptr ? strategy.name : strategy.what_if_of;
  if (choice.implementation.empty()) {
    return calibration->of_strategy(fitted, kernel_variant(choice.parameters), format);
  }
  const Implementation* implementation = calibration->find(choice.implementation, format);
  return implementation != nullptr && implementation->strategy == fitted ? implementation : nullptr;
}

double highest_matrix_rate(const HardwareModel& hardware, const PredictOptions& options) {
  double rate = hardware[Hw::kMatrixBf16];
  for (const Hw id : {Hw::kMatrixFp8, Hw::kMatrixInt8, Hw::kMatrixFp4}) {
    if (hardware.has(id)) rate = std::max(rate, hardware[id]);
  }
  const Device device = Device(hardware, options.clock_hz.value_or(hardware[Hw::kClockBoost])).multiplying();
  return rate * hardware[Hw::kUnitCount] / device.seconds(1);
}

Duration bound(const MoeLayer& layer, const HardwareModel& hardware, const PredictOptions& options,
               bool* matrix_bound) {
  const double bytes = layer_bytes(layer, options).as_double();
  const Duration stream = duration_from_seconds(bytes / highest_read_rate(hardware));
  double elements = 0;  // useful multiply-adds per expert row
  const auto hidden = static_cast<double>(layer.expert_hidden());
  if (options.stage.empty() || options.stage == "gemm1") elements += static_cast<double>(layer.up_width()) * hidden;
  if (options.stage.empty() || options.stage == "gemm2") elements += static_cast<double>(layer.intermediate) * hidden;
  const Duration work =
      duration_from_seconds(2 * elements * static_cast<double>(layer.picks) / highest_matrix_rate(hardware, options));
  *matrix_bound = work > stream;
  return std::max(work, stream);
}

Duration roofline_floor(const MoeLayer& layer, const HardwareModel& hardware, double active) {
  const double bytes = active * (layer.up_bytes() + layer.down_bytes()).as_double();
  return duration_from_seconds(bytes / (kFloorReadShare * hardware[Hw::kHbmBandwidth]));
}

const char* scope_name(Scope scope) {
  switch (scope) {
    case Scope::kExpertFfn:
      return "expert_ffn";
    case Scope::kMoeLayer:
      return "moe_layer";
    case Scope::kStep:
      return "step";
  }
  return "";
}

const char* launch_name(LaunchMode mode) {
  switch (mode) {
    case LaunchMode::kStream:
      return "stream";
    case LaunchMode::kGraph:
      return "graph";
    case LaunchMode::kProgrammatic:
      return "programmatic";
  }
  return "";
}

Scope parse_scope(const std::string& text) {
  return parse_choice<Scope>(
      "--scope", text, {{"expert_ffn", Scope::kExpertFfn}, {"moe_layer", Scope::kMoeLayer}, {"step", Scope::kStep}});
}

LaunchMode parse_launch(const std::string& text) {
  return parse_choice<LaunchMode>(
      "--launch", text,
      {{"graph", LaunchMode::kGraph}, {"stream", LaunchMode::kStream}, {"programmatic", LaunchMode::kProgrammatic}});
}

}  // namespace moesim
