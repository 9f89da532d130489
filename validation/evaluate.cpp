#include "validation/evaluate.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

namespace moesim {
namespace {

struct CellRows {
  std::map<std::string, const RowResult*> fastest;  // by strategy, as measured
  const RowResult* predicted = nullptr;             // the smallest simulated time
};

double spread(const RowResult& result) { return *result.row->p90_us / result.row->us - 1; }

// The measured order of the two fastest strategies is beyond the noise of their rows.
bool is_decided(const RowResult& first, const RowResult& second) {
  if (!first.row->p90_us || !second.row->p90_us) return false;
  return second.row->us / first.row->us - 1 > kSpreads * std::max(spread(first), spread(second));
}

Choice choose(const std::vector<RowResult>& rows) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::int64_t, std::string>, CellRows> cells;
  for (const RowResult& r : rows) {
    if (r.row->stage != "total") continue;
    CellRows& cell =
        cells[{r.row->model_name, r.row->tp, r.row->ep, r.row->weights, r.row->tokens, r.row->routed_trace}];
    const RowResult*& fastest = cell.fastest[r.row->strategy];
    if (fastest == nullptr || r.row->us < fastest->row->us) fastest = &r;
    if (cell.predicted == nullptr || r.simulated_us < cell.predicted->simulated_us) cell.predicted = &r;
  }
  Choice choice;
  for (const auto& [key, cell] : cells) {
    if (cell.fastest.size() < 2) continue;
    std::vector<const RowResult*> order;
    for (const auto& [strategy, row] : cell.fastest) order.push_back(row);
    std::stable_sort(order.begin(), order.end(),
                     [](const RowResult* a, const RowResult* b) { return a->row->us < b->row->us; });
    const bool right = cell.predicted->row->strategy == order[0]->row->strategy;
    const auto lost = [&](const RowResult& row) { return (row.row->us / order[0]->row->us - 1) * 100; };
    for (ChoiceErrors* errors : {&choice.all, &choice.decided}) {
      if (errors == &choice.decided && !is_decided(*order[0], *order[1])) continue;
      ++errors->cells;
      errors->right_share += right ? 1 : 0;
      errors->mean_regret_pct += lost(*cell.fastest.at(cell.predicted->row->strategy));
      errors->mean_kernel_regret_pct += lost(*cell.predicted);
    }
  }
  for (ChoiceErrors* errors : {&choice.all, &choice.decided}) {
    if (errors->cells == 0) continue;
    errors->right_share /= static_cast<double>(errors->cells);
    errors->mean_regret_pct /= static_cast<double>(errors->cells);
    errors->mean_kernel_regret_pct /= static_cast<double>(errors->cells);
  }
  return choice;
}

std::string band_of(const MoeMeasurement& row) { return std::string(kTokenBands[token_band(row.tokens)]); }

}  // namespace

const Implementation* implementation_of_row(const MoeMeasurement& row, const Calibration* calibration) {
  if (calibration == nullptr) return nullptr;
  const Implementation* implementation = calibration->find(row.implementation, row.weights);
  return implementation != nullptr && implementation->strategy == row.strategy ? implementation : nullptr;
}

ErrorSummary summarise(std::vector<double> errors_pct) {
  ErrorSummary s;
  s.count = static_cast<std::int64_t>(errors_pct.size());
  if (errors_pct.empty()) return s;
  const auto n = static_cast<double>(errors_pct.size());
  s.bias_pct = std::accumulate(errors_pct.begin(), errors_pct.end(), 0.0) / n;
  for (double& e : errors_pct) e = std::abs(e);
  std::sort(errors_pct.begin(), errors_pct.end());
  s.mean_abs_pct = std::accumulate(errors_pct.begin(), errors_pct.end(), 0.0) / n;
  s.median_abs_pct = sorted_quantile(errors_pct, 0.5);
  s.p95_abs_pct = sorted_quantile(errors_pct, 0.95);
  s.max_abs_pct = errors_pct.back();
  return s;
}

Evaluation evaluate(const std::vector<MoeMeasurement>& rows, const std::string& file, const HardwareModel& hardware,
                    const EvaluateOptions& options) {
  const PreparedRows prepared(rows, hardware);
  std::vector<RowResult> results(prepared.size());
  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, results.size(), [&](std::size_t i) {
    const Implementation* implementation = implementation_of_row(rows[i], options.calibration);
    results[i] = prepared.simulate(i, implementation);
    if (options.coverage && implementation != nullptr && results[i].skipped.empty()) {
      results[i].parameter_variance = prepared.parameter_variance(i, *implementation);
    }
    if (!options.progress) return;
    const std::lock_guard lock(reporting);
    options.progress(++done, results.size());
  });
  std::optional<Coverage> coverage;
  if (options.coverage && options.calibration != nullptr) {
    coverage = coverage_by_record(results, options.calibration->residuals, "the overlay");
  }
  Evaluation evaluation = summarise_rows(std::move(results), file, hardware);
  evaluation.coverage = std::move(coverage);
  return evaluation;
}

Evaluation summarise_rows(std::vector<RowResult> results, const std::string& file, const HardwareModel& hardware) {
  Evaluation result;
  result.device = hardware.name;
  result.device_hash = hardware.hash;
  result.measurements = file;
  for (RowResult& r : results) {
    result.below_bound += r.below_bound;
    (!r.skipped.empty()        ? result.skipped
     : r.row->us < kSmallRowUs ? result.small_rows
                               : result.rows)
        .push_back(std::move(r));
  }

  std::map<std::string, std::vector<double>> strategy, strategy_dtype, band, stage, implementation;
  std::map<std::tuple<std::string, std::string, std::string>, std::pair<std::vector<double>, bool>> implementations;
  std::map<std::tuple<std::string, std::string, std::string, std::string>,
           std::pair<std::vector<double>, std::vector<double>>>
      cells;
  std::vector<double> all, floors, small, in_range, out_of_range, power_capped, not_power_capped;
  for (const RowResult& r : result.rows) {
    const double e = r.error_pct();
    all.push_back(e);
    (r.in_range ? in_range : out_of_range).push_back(e);
    (r.row->power_capped ? power_capped : not_power_capped).push_back(e);
    strategy[r.row->strategy].push_back(e);
    strategy_dtype[r.row->strategy + "/" + r.row->weights].push_back(e);
    band[band_of(*r.row)].push_back(e);
    stage[r.row->stage].push_back(e);
    implementation[r.row->implementation].push_back(e);
    auto& [errors, fitted] = implementations[{r.row->strategy, r.row->implementation, r.row->weights}];
    errors.push_back(e);
    fitted = fitted || r.fitted;
    if (r.row->stage == "total") {
      floors.push_back(r.floor_error_pct());
      auto& [ours, floor] = cells[{r.row->strategy, r.row->weights, band_of(*r.row), r.row->scope}];
      ours.push_back(e);
      floor.push_back(r.floor_error_pct());
    }
  }
  for (const RowResult& r : result.small_rows) small.push_back(r.error_pct());
  result.overall = summarise(all);
  result.floor = summarise(floors);
  result.in_range = summarise(in_range);
  result.out_of_range = summarise(out_of_range);
  result.power_capped = summarise(power_capped);
  result.not_power_capped = summarise(not_power_capped);
  result.small = summarise(small);
  const auto summarise_all = [](const auto& from, auto& to) {
    for (const auto& [name, errors] : from) to[name] = summarise(errors);
  };
  summarise_all(strategy, result.by_strategy);
  summarise_all(strategy_dtype, result.by_strategy_dtype);
  summarise_all(band, result.by_band);
  summarise_all(stage, result.by_stage);
  summarise_all(implementation, result.by_implementation);
  for (const auto& [key, errors] : implementations) {
    result.implementations.push_back(
        {std::get<0>(key), std::get<1>(key), std::get<2>(key), errors.second, summarise(errors.first)});
  }
  for (const auto& [key, errors] : cells) {
    result.cells.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key),
                            summarise(errors.first), summarise(errors.second)});
  }
  result.choice = choose(result.rows);
  return result;
}

}  // namespace moesim
