#include "validation/tile_choice.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <tuple>

#include "sim/units/integer.h"
#include "validation/evaluate.h"
#include "validation/prepared_rows.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::int64_t, std::string, std::string,
                       std::string, std::string>;

Key key_of(const MoeMeasurement& row) {
  return {row.model_name,   row.tp,    row.ep,       row.weights,       row.tokens,
          row.routed_trace, row.stage, row.strategy, row.implementation};
}

std::string tile_of(const MoeMeasurement& row) {
  std::string text;
  for (const auto& [name, value] : row.parameters) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  }
  return text;
}

// The row's tile is what the stack's rule says; a row without GROUP_M ran without.
bool is_default(const MoeMeasurement& row, const StackProfile& stack) {
  const Parameters rule = stack.parameters({.experts = divide_up(row.experts, row.ep),
                                            .topk = row.topk,
                                            .tokens = row.tokens,
                                            .weights = parse_format(row.weights, "weights")});
  for (const char* name : {"block_m", "block_n", "block_k", "num_warps", "num_stages", "group_m"}) {
    const auto it = row.parameters.find(name);
    const std::string value = it == row.parameters.end() ? "1" : it->second;
    if (value != fmt::format("{}", rule.at(name))) return false;
  }
  return true;
}

TileCell sum_up(const std::vector<RowResult>& results, const TileChoiceOptions& options) {
  const MoeMeasurement& first = *results.front().row;
  TileCell cell{.model = first.model_name,
                .weights = first.weights,
                .stage = first.stage,
                .implementation = first.implementation,
                .tp = first.tp,
                .ep = first.ep,
                .tokens = first.tokens,
                .tiles = results.size(),
                .best = {},
                .predicted = {},
                .chosen = {},
                .defaults_us = {}};
  const RowResult* best = nullptr;
  const RowResult* predicted = nullptr;
  const RowResult* by_default = nullptr;
  std::vector<double> errors;
  for (const RowResult& result : results) {
    if (best == nullptr || result.row->us < best->row->us) best = &result;
    if (!result.skipped.empty()) {
      ++cell.refused;
      continue;
    }
    errors.push_back(result.error_pct());
    if (predicted == nullptr || result.simulated_us < predicted->simulated_us) predicted = &result;
  }
  for (const StackProfile& stack : stack_profiles()) {
    if (!stack.tuned_files || first.strategy != stack.strategy) continue;
    const auto it = std::ranges::find_if(results, [&](const RowResult& r) { return is_default(*r.row, stack); });
    if (it == results.end()) continue;
    cell.defaults_us[stack.name] = it->row->us;
    // vLLM's, where both are there: the catalogue's order.
    if (by_default == nullptr && it->skipped.empty()) by_default = &*it;
  }
  cell.best = tile_of(*best->row);
  cell.best_us = best->row->us;
  if (predicted == nullptr) return cell;
  const RowResult* chosen = predicted;
  if (by_default != nullptr && 1 - predicted->simulated_us / by_default->simulated_us < options.min_gain) {
    chosen = by_default;
  }
  cell.predicted = tile_of(*predicted->row);
  cell.predicted_us = predicted->row->us;
  cell.chosen = tile_of(*chosen->row);
  cell.chosen_us = chosen->row->us;
  cell.median_abs_error_pct = summarise(std::move(errors)).median_abs_pct;
  return cell;
}

}  // namespace

TileChoice evaluate_tile_choice(const std::vector<MoeMeasurement>& rows, const HardwareModel& hardware,
                                const TileChoiceOptions& options) {
  std::map<Key, std::vector<const MoeMeasurement*>> by_cell;
  std::vector<Key> order;
  for (const MoeMeasurement& row : rows) {
    if (row.us < kSmallRowUs || !row.parameters.contains("block_n")) continue;
    std::vector<const MoeMeasurement*>& cell = by_cell[key_of(row)];
    if (cell.empty()) order.push_back(key_of(row));
    cell.push_back(&row);
  }
  std::erase_if(order, [&](const Key& key) { return by_cell[key].size() < kFewestTiles; });
  std::vector<MoeMeasurement> as_searched;
  for (const Key& key : order) {
    for (const MoeMeasurement* row : by_cell[key]) {
      as_searched.push_back(*row);
      as_searched.back().kernels.clear();
      as_searched.back().sm_mhz.reset();
    }
  }
  const PreparedRows prepared(as_searched, hardware);
  std::vector<RowResult> results(as_searched.size());
  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, results.size(), [&](std::size_t i) {
    results[i] = prepared.simulate(i, implementation_of_row(as_searched[i], options.calibration));
    if (!options.progress) return;
    const std::lock_guard lock(reporting);
    options.progress(++done, results.size());
  });
  TileChoice choice;
  choice.rows = results.size();
  choice.other_rows = rows.size() - results.size();
  std::size_t begin = 0;
  for (const Key& key : order) {
    const std::size_t count = by_cell[key].size();
    choice.cells.push_back(sum_up({results.begin() + static_cast<std::ptrdiff_t>(begin),
                                   results.begin() + static_cast<std::ptrdiff_t>(begin + count)},
                                  options));
    begin += count;
  }
  return choice;
}

}  // namespace moesim
