#include "validation/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "sim/io/input_error.h"
#include "traces/routed_trace.h"
#include "workloads/predict.h"

namespace moesim {
namespace {

double percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

MoeModel model_of(const MoeMeasurement& row) {
  MoeModel model;
  model.name = row.model_name;
  model.hidden = row.hidden;
  model.expert_intermediate = row.intermediate;
  model.experts = row.experts;
  model.topk = row.topk;
  model.gated = row.gated;
  model.expert_weights = parse_format(row.weights, "weights");
  model.other_weights = {Dtype::kBf16, 0};
  return model;
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
  if (row.strategy == "grouped_gemm") {
    for (const char* name : {"block_m", "block_n", "block_k", "num_warps", "num_stages"}) take(name, name);
  } else if (row.strategy == "stream_gemv") {
    for (const char* side : {"up", "down"}) {
      for (const char* name : {"block_n", "block_k", "num_warps"}) {
        take(fmt::format("{}.{}", side, name), fmt::format("{}.{}", side, name));
      }
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
  const KernelFacts facts(rows);
  std::map<std::pair<std::string, std::int64_t>, std::vector<RoutedBatch>> traces;

  std::size_t done = 0;
  for (const MoeMeasurement& row : rows) {
    if (options.progress) options.progress(done++, rows.size());
    if (options.max_tokens > 0 && row.tokens > options.max_tokens) continue;
    if (!options.models.empty() &&
        std::find(options.models.begin(), options.models.end(), row.model_name) == options.models.end()) {
      continue;
    }
    const auto skip = [&](const std::string& reason) {
      result.skipped.push_back(fmt::format("{}:{}: {}", file, row.line, reason));
    };
    StrategyChoice choice;
    PredictOptions predict_options;
    try {
      choice = parse_strategy(row.strategy);
      if (choice.strategy == nullptr) throw InputError({"", "", "auto", "a strategy that ran", ""});
      choice.parameters = parameters_of(row, facts.of(row));
      check_parameters(*choice.strategy, choice.parameters);
      predict_options.scope = parse_scope(row.scope);
      predict_options.launch = parse_launch(row.launch);
    } catch (const InputError& error) {
      skip(error.what());
      continue;
    }
    if (row.stage != "total") predict_options.stage = row.stage;
    const Implementation* implementation = nullptr;
    if (options.calibration != nullptr) implementation = options.calibration->find(row.implementation, row.weights);
    if (implementation != nullptr) {
      predict_options.calibration = options.calibration;
      predict_options.implementation = row.implementation;
    }
    if (row.sm_mhz) predict_options.clock_hz = *row.sm_mhz * 1e6;

    const MoeModel model = model_of(row);
    auto [trace, fresh] = traces.try_emplace({row.routed_trace, row.experts});
    if (fresh) trace->second = read_routed_trace(row.routed_trace, row.experts);
    RowResult r;
    r.row = &row;
    r.in_range = implementation != nullptr && row.tokens <= implementation->most_tokens;
    double active = 0;
    std::array<double, kBlameCount> blame{};
    std::string infeasible;
    for (const RoutedBatch& batch : trace->second) {
      if (batch.tokens != row.tokens || batch.topk != row.topk) {
        throw InputError({file, fmt::format("line {}", row.line),
                          fmt::format("a trace of {} tokens, top-{}", batch.tokens, batch.topk),
                          fmt::format("{} tokens, top-{}", row.tokens, row.topk), ""});
      }
      const MoeLayer layer = shard_layer(model, batch, parse_format(row.activations, "activations"), row.tp, row.ep);
      const PredictionOrInfeasible predicted = predict(layer, hardware, choice, predict_options);
      if (const auto* reason = std::get_if<Infeasible>(&predicted)) {
        infeasible = reason->reason;
        break;
      }
      const auto& prediction = std::get<Prediction>(predicted);
      r.simulated_us += to_microseconds(prediction.time);
      r.bound_us += to_microseconds(prediction.bound);
      if (row.stage == "total")
        r.floor_us += to_microseconds(roofline_floor(layer, hardware, static_cast<double>(layer.active)));
      if (prediction.time < prediction.bound) ++result.below_bound;
      for (std::size_t b = 0; b < kBlameCount; ++b) blame[b] += prediction.attribution[b].as_double();
      active += static_cast<double>(layer.active);
    }
    if (!infeasible.empty()) {
      skip(infeasible);
      continue;
    }
    const auto n = static_cast<double>(trace->second.size());
    r.simulated_us /= n;
    r.bound_us /= n;
    r.floor_us /= n;
    r.limiter = blame_name(static_cast<Blame>(std::max_element(blame.begin(), blame.end()) - blame.begin()));
    (row.us < kSmallRowUs ? result.small_rows : result.rows).push_back(r);
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
