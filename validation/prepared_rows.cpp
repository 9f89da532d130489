#include "validation/prepared_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "hwmodels/uncertainty.h"
#include "sim/io/input_error.h"
#include "traces/routed_trace.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

std::optional<std::int64_t> number(const std::map<std::string, std::string>& parameters, const std::string& name) {
  const auto it = parameters.find(name);
  if (it == parameters.end()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : it->second) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Kernels with weights among those launched, in order: the projections have more CTAs or on-chip memory than helpers,
// but names tell best: each stack's helper kernels are known.
bool is_projection(const std::string& name) {
  for (const char* helper : {"silu", "combine", "gather_kernel", "prepare_grouped", "quant"}) {
    if (name.find(helper) != std::string::npos) return false;
  }
  return true;
}

// The row's tile configuration, registers and on-chip bytes as the strategy's parameters.
Parameters parameters_of(const MoeMeasurement& row, const std::vector<LaunchedKernel>& kernels) {
  Parameters parameters;
  const auto take = [&](const std::string& from, const std::string& to) {
    if (const auto value = number(row.parameters, from)) parameters[to] = *value;
  };
  const auto is = [&](const char* name, const char* value) {
    const auto it = row.parameters.find(name);
    return it != row.parameters.end() && it->second == value;
  };
  std::vector<const LaunchedKernel*> projections;
  for (const LaunchedKernel& kernel : kernels) {
    if (is_projection(kernel.name)) projections.push_back(&kernel);
  }
  if (row.strategy.starts_with("grouped_gemm") || row.strategy.starts_with("tpu_")) {
    for (const ParameterInfo& info : parse_strategy(row.strategy).strategy->parameters) take(info.name, info.name);
    if (is("instruction", "mma.sync")) parameters["warp_level"] = 1;
  } else if (row.strategy == "stream_gemv") {
    for (const char* side : {"up", "down"}) {
      for (const char* name : {"block_n", "block_k", "num_warps"}) {
        take(fmt::format("{}.{}", side, name), fmt::format("{}.{}", side, name));
      }
    }
    if (is("persistent", "true")) {
      parameters["persistent"] = 1;
      for (const char* name : {"up.bytes_in_flight", "down.bytes_in_flight"}) take(name, name);
      if (is("up.interleaved", "false")) parameters["up.interleaved"] = 0;
      if (is("down.combine", "kernel")) parameters["down.fused"] = 0;
      if (row.stage == "total" && projections.size() == 1 && projections.front()->count == 1)
        parameters["one_launch"] = 1;
    }
    if (const auto it = row.parameters.find("down.per"); it != row.parameters.end()) {
      parameters["down.per_token"] = it->second == "token" ? 1 : 0;
    }
  }
  if (row.strategy == "gather_gemv" && !row.kernels.empty()) {
    parameters["element_copy"] = std::any_of(row.kernels.begin(), row.kernels.end(), [](const LaunchedKernel& kernel) {
      return kernel.name.find("indexSelectSmallIndex") != std::string::npos;
    });
    if (row.implementation == "cuda-gather-gemv") {  // the CUDA harness's: 8 loads of a thread, twice
      parameters["copy.bytes"] = 65536;
      parameters["copy.in_turn"] = 1;
      parameters["copy.loads"] = 8;
      parameters["copy.registers"] = 58;
    }
  }
  if ((row.strategy == "grouped_gemm" || row.strategy == "stream_gemv") && !projections.empty()) {
    const LaunchedKernel& up = *projections.front();
    const LaunchedKernel& down = *projections.back();
    parameters["up.registers"] = up.registers;
    parameters["up.shared_bytes"] = up.shared_bytes;
    parameters["down.registers"] = down.registers;
    parameters["down.shared_bytes"] = down.shared_bytes;
  }
  return parameters;
}

// Rows measured in one process share what a compiled kernel needs; the first row of the same implementation, parameters and
// weights that lists its kernels speaks for those that do not: one of the same sizes, for which a kernel was compiled (the
// streaming down projection of Triton takes 149 registers at a width of 14336, 125 below), else one of any.
class KernelFacts {
 public:
  explicit KernelFacts(const std::vector<MoeMeasurement>& rows) {
    for (const MoeMeasurement& row : rows) {
      if (row.stage != "total" || row.kernels.empty()) continue;
      of_sizes_.emplace(std::pair(key(row), sizes(row)), &row.kernels);
      of_any_.emplace(key(row), &row.kernels);
    }
  }
  [[nodiscard]] const std::vector<LaunchedKernel>& of(const MoeMeasurement& row) const {
    if (!row.kernels.empty()) return row.kernels;
    if (const auto it = of_sizes_.find({key(row), sizes(row)}); it != of_sizes_.end()) return *it->second;
    const auto it = of_any_.find(key(row));
    return it == of_any_.end() ? row.kernels : *it->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::map<std::string, std::string>>;
  static Key key(const MoeMeasurement& row) { return {row.strategy, row.implementation, row.weights, row.parameters}; }
  using Sizes = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  static Sizes sizes(const MoeMeasurement& row) { return {row.hidden, row.intermediate, row.tp}; }
  std::map<std::pair<Key, Sizes>, const std::vector<LaunchedKernel>*> of_sizes_;
  std::map<Key, const std::vector<LaunchedKernel>*> of_any_;
};

void check_trace(const std::vector<RoutedBatch>& trace, const MoeMeasurement& row) {
  for (const RoutedBatch& batch : trace) {
    if (batch.tokens == row.tokens && batch.topk == row.topk) continue;
    throw InputError({row.file, fmt::format("line {}", row.line),
                      fmt::format("a trace of {} tokens, top-{}", batch.tokens, batch.topk),
                      fmt::format("{} tokens, top-{}", row.tokens, row.topk), ""});
  }
}

}  // namespace

PreparedRows::PreparedRows(const std::vector<MoeMeasurement>& rows, const HardwareModel& hardware)
    : hardware_(hardware) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<RoutedBatch>> traces;  // by file and experts
  const KernelFacts facts(rows);
  for (const MoeMeasurement& row : rows) {
    Row& prepared = rows_.emplace_back();
    prepared.row = &row;
    try {
      StrategyChoice& choice = prepared.choice;
      choice = parse_strategy(row.strategy);
      if (choice.strategy == nullptr) throw InputError({"", "", "auto", "a strategy that ran", ""});
      const StackProfile* const stack = find_stack(row.implementation);
      if (stack != nullptr && row.strategy == stack->strategy) choice.stack = stack;
      choice.parameters = parameters_of(row, facts.of(row));
      check_parameters(*choice.strategy, choice.parameters);
      prepared.options.scope = parse_scope(row.scope);
      prepared.options.launch = parse_launch(row.launch);
    } catch (const InputError& error) {
      prepared.skipped = error.what();
      continue;
    }
    prepared.variant = kernel_variant(prepared.choice.parameters);
    prepared.choice.implementation = row.implementation;
    if (row.stage != "total") prepared.options.stage = row.stage;
    if (row.sm_mhz) prepared.options.clock_hz = *row.sm_mhz * 1e6;
    const auto [trace, fresh] = traces.try_emplace({row.routed_trace, row.experts});
    if (fresh) trace->second = read_routed_trace(row.routed_trace, row.experts);
    check_trace(trace->second, row);
    const MoeModel model = model_of(row);
    const WeightFormat activations = parse_format(row.activations, "activations");
    for (const RoutedBatch& batch : trace->second) {
      prepared.layers.push_back(shard_layer(model, batch, activations, row.tp, row.ep));
    }
  }
}

RowResult PreparedRows::simulate(std::size_t i, const Implementation* implementation, std::size_t routings) const {
  const Row& prepared = rows_[i];
  RowResult result;
  result.row = prepared.row;
  result.skipped = prepared.skipped;
  if (!result.skipped.empty()) return result;

  Calibration calibration;
  PredictOptions options = prepared.options;
  if (implementation != nullptr) {
    calibration.implementations = {*implementation};
    options.calibration = &calibration;
    result.fitted = true;
    result.in_range = prepared.row->tokens <= implementation->most_tokens;
  }
  const std::size_t count = std::min(routings, prepared.layers.size());
  for (std::size_t r = 0; r < count; ++r) {
    const MoeLayer& layer = prepared.layers[r];
    const PredictionOrInfeasible predicted = predict(layer, hardware_, prepared.choice, options);
    if (const auto* infeasible = std::get_if<Infeasible>(&predicted)) {
      result.skipped = infeasible->reason;
      return result;
    }
    const auto& prediction = std::get<Prediction>(predicted);
    result.simulated_us += to_microseconds(prediction.time);
    result.bound_us += to_microseconds(prediction.bound);
    if (prepared.row->stage == "total") {
      result.floor_us += to_microseconds(roofline_floor(layer, hardware_, static_cast<double>(layer.active)));
    }
    if (prediction.time < prediction.bound) ++result.below_bound;
    for (std::size_t b = 0; b < kBlameCount; ++b) result.attribution[b] += prediction.attribution[b];
  }
  for (double* mean : {&result.simulated_us, &result.bound_us, &result.floor_us}) *mean /= static_cast<double>(count);
  return result;
}

double PreparedRows::parameter_variance(std::size_t i, const Implementation& implementation) const {
  std::vector<double> effects;
  for (const auto& [name, constant] : implementation.constants) {
    const ConstantRange range = constant_range(constant, 1);
    const auto log_time = [&](double value) {
      const Implementation changed = implementation.with(name, value);
      return std::log(simulate(i, &changed, 1).simulated_us);
    };
    effects.push_back((log_time(range.high) - log_time(range.low)) / 2);
  }
  return combined_variance(effects, implementation.correlation);
}

}  // namespace moesim
