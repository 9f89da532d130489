#include "validation/evaluate.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <tuple>

#include "sim/io/input_error.h"
#include "traces/routed_trace.h"
#include "workloads/predict.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

double percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

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
  std::vector<const LaunchedKernel*> projections;
  for (const LaunchedKernel& kernel : kernels) {
    if (is_projection(kernel.name)) projections.push_back(&kernel);
  }
  if (row.strategy.starts_with("grouped_gemm")) {
    for (const ParameterInfo& info : parse_strategy(row.strategy).strategy->parameters) take(info.name, info.name);
    const auto instruction = row.parameters.find("instruction");
    if (instruction != row.parameters.end() && instruction->second == "mma.sync") parameters["warp_level"] = 1;
  } else if (row.strategy == "stream_gemv") {
    for (const char* side : {"up", "down"}) {
      for (const char* name : {"block_n", "block_k", "num_warps"}) {
        take(fmt::format("{}.{}", side, name), fmt::format("{}.{}", side, name));
      }
    }
    const auto is = [&](const char* name, const char* value) {
      const auto it = row.parameters.find(name);
      return it != row.parameters.end() && it->second == value;
    };
    if (is("persistent", "true")) {
      parameters["persistent"] = 1;
      for (const char* name : {"up.bytes_in_flight", "down.bytes_in_flight"}) take(name, name);
      if (is("down.combine", "kernel")) parameters["down.fused"] = 0;
    }
    if (const auto it = row.parameters.find("down.per"); it != row.parameters.end()) {
      parameters["down.per_token"] = it->second == "token" ? 1 : 0;
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

// Rows measured in one process share what a compiled kernel needs; the first row of the same implementation, parameters
// and weights that lists its kernels speaks for those that do not.
class KernelFacts {
 public:
  explicit KernelFacts(const std::vector<MoeMeasurement>& rows) {
    for (const MoeMeasurement& row : rows) {
      if (row.stage == "total" && !row.kernels.empty()) facts_.emplace(key(row), &row.kernels);
    }
  }
  [[nodiscard]] const std::vector<LaunchedKernel>& of(const MoeMeasurement& row) const {
    if (!row.kernels.empty()) return row.kernels;
    const auto it = facts_.find(key(row));
    return it == facts_.end() ? row.kernels : *it->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::map<std::string, std::string>>;
  static Key key(const MoeMeasurement& row) { return {row.strategy, row.implementation, row.weights, row.parameters}; }
  std::map<Key, const std::vector<LaunchedKernel>*> facts_;
};

Choice choose(const std::vector<RowResult>& rows) {
  struct Best {
    const RowResult* measured = nullptr;
    const RowResult* predicted = nullptr;
    int strategies = 0;
  };
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::int64_t, std::string>, Best> cells;
  for (const RowResult& r : rows) {
    if (r.row->stage != "total") continue;
    Best& best = cells[{r.row->model_name, r.row->tp, r.row->ep, r.row->weights, r.row->tokens, r.row->routed_trace}];
    ++best.strategies;
    if (best.measured == nullptr || r.row->us < best.measured->row->us) best.measured = &r;
    if (best.predicted == nullptr || r.simulated_us < best.predicted->simulated_us) best.predicted = &r;
  }
  Choice choice;
  double right = 0, regret = 0;
  for (const auto& [key, best] : cells) {
    if (best.strategies < 2) continue;
    ++choice.cells;
    right += best.predicted == best.measured ? 1 : 0;
    regret += (best.predicted->row->us / best.measured->row->us - 1) * 100;
  }
  if (choice.cells > 0) {
    choice.right_share = right / static_cast<double>(choice.cells);
    choice.mean_regret_pct = regret / static_cast<double>(choice.cells);
  }
  return choice;
}

// A row on its way: what to simulate, then what came out.
struct Simulation {
  StrategyChoice choice;
  PredictOptions options;
  MoeModel model;
  WeightFormat activations;
  const std::vector<RoutedBatch>* trace = nullptr;
  std::string skipped;  // the reason; "": simulated
  RowResult result;
  std::int64_t below_bound = 0;
};

using Traces = std::map<std::pair<std::string, std::int64_t>, std::vector<RoutedBatch>>;  // by file and experts

void check_trace(const std::vector<RoutedBatch>& trace, const MoeMeasurement& row, const std::string& file) {
  for (const RoutedBatch& batch : trace) {
    if (batch.tokens == row.tokens && batch.topk == row.topk) continue;
    throw InputError({file, fmt::format("line {}", row.line),
                      fmt::format("a trace of {} tokens, top-{}", batch.tokens, batch.topk),
                      fmt::format("{} tokens, top-{}", row.tokens, row.topk), ""});
  }
}

Simulation prepare_row(const MoeMeasurement& row, const std::string& file, const KernelFacts& facts,
                       const Calibration* calibration, Traces& traces) {
  Simulation simulation;
  simulation.result.row = &row;
  PredictOptions& options = simulation.options;
  try {
    StrategyChoice& choice = simulation.choice;
    choice = parse_strategy(row.strategy);
    if (choice.strategy == nullptr) throw InputError({"", "", "auto", "a strategy that ran", ""});
    const StackProfile* const stack = find_stack(row.implementation);
    if (stack != nullptr && row.strategy == stack->strategy) choice.stack = stack;
    choice.parameters = parameters_of(row, facts.of(row));
    check_parameters(*choice.strategy, choice.parameters);
    options.scope = parse_scope(row.scope);
    options.launch = parse_launch(row.launch);
  } catch (const InputError& error) {
    simulation.skipped = error.what();
    return simulation;
  }
  if (row.stage != "total") options.stage = row.stage;
  if (row.sm_mhz) options.clock_hz = *row.sm_mhz * 1e6;
  if (calibration != nullptr) {
    if (const Implementation* implementation = calibration->find(row.implementation, row.weights)) {
      options.calibration = calibration;
      options.implementation = row.implementation;
      simulation.result.in_range = row.tokens <= implementation->most_tokens;
    }
  }
  simulation.model = model_of(row);
  simulation.activations = parse_format(row.activations, "activations");
  const auto [trace, fresh] = traces.try_emplace({row.routed_trace, row.experts});
  if (fresh) trace->second = read_routed_trace(row.routed_trace, row.experts);
  check_trace(trace->second, row, file);
  simulation.trace = &trace->second;
  return simulation;
}

// The mean over the routings of its trace.
void simulate_row(Simulation& simulation, const HardwareModel& hardware) {
  RowResult& result = simulation.result;
  const MoeMeasurement& row = *result.row;
  Attribution blame{};
  for (const RoutedBatch& batch : *simulation.trace) {
    const MoeLayer layer = shard_layer(simulation.model, batch, simulation.activations, row.tp, row.ep);
    const PredictionOrInfeasible predicted = predict(layer, hardware, simulation.choice, simulation.options);
    if (const auto* infeasible = std::get_if<Infeasible>(&predicted)) {
      simulation.skipped = infeasible->reason;
      return;
    }
    const auto& prediction = std::get<Prediction>(predicted);
    result.simulated_us += to_microseconds(prediction.time);
    result.bound_us += to_microseconds(prediction.bound);
    if (row.stage == "total") {
      result.floor_us += to_microseconds(roofline_floor(layer, hardware, static_cast<double>(layer.active)));
    }
    if (prediction.time < prediction.bound) ++simulation.below_bound;
    for (std::size_t b = 0; b < kBlameCount; ++b) blame[b] += prediction.attribution[b];
  }
  const auto routings = static_cast<double>(simulation.trace->size());
  for (double* mean : {&result.simulated_us, &result.bound_us, &result.floor_us}) *mean /= routings;
  result.limiter = blame_name(static_cast<Blame>(std::max_element(blame.begin(), blame.end()) - blame.begin()));
}

}  // namespace

ErrorSummary summarise(std::vector<double> errors_pct) {
  ErrorSummary s;
  s.count = static_cast<std::int64_t>(errors_pct.size());
  if (errors_pct.empty()) return s;
  const auto n = static_cast<double>(errors_pct.size());
  s.bias_pct = std::accumulate(errors_pct.begin(), errors_pct.end(), 0.0) / n;
  for (double& e : errors_pct) e = std::abs(e);
  std::sort(errors_pct.begin(), errors_pct.end());
  s.mean_abs_pct = std::accumulate(errors_pct.begin(), errors_pct.end(), 0.0) / n;
  s.median_abs_pct = percentile(errors_pct, 0.5);
  s.p95_abs_pct = percentile(errors_pct, 0.95);
  s.max_abs_pct = errors_pct.back();
  return s;
}

std::string token_band(std::int64_t tokens) {
  return tokens <= 8 ? "1-8" : tokens <= 64 ? "9-64" : tokens <= 1024 ? "65-1024" : "1025+";
}

Evaluation evaluate(const std::vector<MoeMeasurement>& rows, const std::string& file, const HardwareModel& hardware,
                    const EvaluateOptions& options) {
  Evaluation result;
  result.device = hardware.name;
  result.device_hash = hardware.hash;
  result.measurements = file;
  Traces traces;
  const KernelFacts facts(rows);
  std::vector<Simulation> simulations;
  for (const MoeMeasurement& row : rows) {
    simulations.push_back(prepare_row(row, file, facts, options.calibration, traces));
  }

  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, simulations.size(), [&](std::size_t i) {
    if (simulations[i].skipped.empty()) simulate_row(simulations[i], hardware);
    if (!options.progress) return;
    const std::lock_guard lock(reporting);
    options.progress(++done, simulations.size());
  });
  for (Simulation& simulation : simulations) {
    const MoeMeasurement& row = *simulation.result.row;
    if (!simulation.skipped.empty()) {
      result.skipped.push_back(fmt::format("{}:{}: {}", file, row.line, simulation.skipped));
      continue;
    }
    result.below_bound += simulation.below_bound;
    (row.us < kSmallRowUs ? result.small_rows : result.rows).push_back(std::move(simulation.result));
  }

  std::map<std::string, std::vector<double>> strategy, strategy_dtype, band, stage, implementation;
  std::map<std::tuple<std::string, std::string, std::string, std::string>,
           std::pair<std::vector<double>, std::vector<double>>>
      cells;
  std::vector<double> all, floors, small, in_range, out_of_range;
  for (const RowResult& r : result.rows) {
    const double e = r.error_pct();
    all.push_back(e);
    (r.in_range ? in_range : out_of_range).push_back(e);
    strategy[r.row->strategy].push_back(e);
    strategy_dtype[r.row->strategy + "/" + r.row->weights].push_back(e);
    band[token_band(r.row->tokens)].push_back(e);
    stage[r.row->stage].push_back(e);
    implementation[r.row->implementation].push_back(e);
    if (r.row->stage == "total") {
      floors.push_back(r.floor_error_pct());
      auto& [ours, floor] = cells[{r.row->strategy, r.row->weights, token_band(r.row->tokens), r.row->scope}];
      ours.push_back(e);
      floor.push_back(r.floor_error_pct());
    }
  }
  for (const RowResult& r : result.small_rows) small.push_back(r.error_pct());
  result.overall = summarise(all);
  result.floor = summarise(floors);
  result.in_range = summarise(in_range);
  result.out_of_range = summarise(out_of_range);
  result.small = summarise(small);
  const auto summarise_all = [](const auto& from, auto& to) {
    for (const auto& [name, errors] : from) to[name] = summarise(errors);
  };
  summarise_all(strategy, result.by_strategy);
  summarise_all(strategy_dtype, result.by_strategy_dtype);
  summarise_all(band, result.by_band);
  summarise_all(stage, result.by_stage);
  summarise_all(implementation, result.by_implementation);
  for (const auto& [key, errors] : cells) {
    result.cells.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key),
                            summarise(errors.first), summarise(errors.second)});
  }
  result.choice = choose(result.rows);
  return result;
}

}  // namespace moesim
