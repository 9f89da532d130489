#include "validation/coverage.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

#include "validation/evaluate.h"
#include "workloads/studies/uncertainty.h"

namespace moesim {
namespace {

constexpr double kFarthest = 3;  // in half-widths: one wild row says little about how two strategies err together

bool is_small(const RowResult& row) { return row.row->us < kSmallRowUs; }

double log_ratio(const RowResult& row) { return std::log(row.row->us / row.simulated_us); }

ErrorClass class_of(const RowResult& row, double time_us) {
  return error_class(row.row->strategy, row.row->weights, row.row->tokens, time_us, row.row->stage == "total");
}

// Where strategies are compared.
using Point = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::int64_t, std::string>;
Point point_of(const MoeMeasurement& m) { return {m.model_name, m.tp, m.ep, m.weights, m.tokens, m.routed_trace}; }

ErrorBasis basis_of(const RowResult& row) {
  return !row.fitted ? ErrorBasis::kNotFitted : row.in_range ? ErrorBasis::kHeldOut : ErrorBasis::kBeyondFit;
}

std::vector<RowResult> fitted_rows(const std::vector<RowResult>& rows) {
  std::vector<RowResult> fitted;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(fitted), [](const RowResult& row) { return row.fitted; });
  return fitted;
}

// One row within its interval, or not.
struct Judged {
  const RowResult* row = nullptr;
  ErrorInterval error;
  double log_ratio = 0;
  double strategy_correlation = 0;
};

CoverageSummary summarise(const std::vector<Judged>& rows, const std::function<bool(const Judged&)>& counts) {
  CoverageSummary summary;
  std::vector<double> widths;
  for (const Judged& row : rows) {
    if (!counts(row)) continue;
    ++summary.rows;
    summary.inside_share += row.log_ratio >= row.error.low() && row.log_ratio <= row.error.high() ? 1 : 0;
    summary.below_share += row.log_ratio < row.error.low() ? 1 : 0;
    widths.push_back(row.error.half_width_pct());
  }
  if (summary.rows == 0) return summary;
  summary.inside_share /= static_cast<double>(summary.rows);
  summary.below_share /= static_cast<double>(summary.rows);
  std::sort(widths.begin(), widths.end());
  summary.median_half_width_pct = sorted_quantile(widths, 0.5);
  return summary;
}

// A summary per value of `key`, in order.
template <class Key>
auto summarise_by(const std::vector<Judged>& rows, Key key) {
  using Name = decltype(key(rows.front()));
  std::map<Name, std::vector<Judged>> groups;
  for (const Judged& row : rows) groups[key(row)].push_back(row);
  std::map<Name, CoverageSummary> summaries;
  for (const auto& [name, group] : groups) summaries[name] = summarise(group, [](const Judged&) { return true; });
  return summaries;
}

std::string band_of(const RowResult& row) { return std::string(kTokenBands[token_band(row.row->tokens)]); }

// Adds the rows that are asked for to those judged; how many have no interval.
std::int64_t judge(const std::vector<RowResult>& rows, const ResidualRecord& record,
                   const std::function<bool(const RowResult&)>& asked, std::vector<Judged>& judged) {
  std::int64_t unknown = 0;
  for (const RowResult& row : rows) {
    if (!row.skipped.empty() || !asked(row)) continue;
    const ErrorBasis basis = basis_of(row);
    const std::optional<ErrorInterval> interval =
        error_interval(record, class_of(row, row.simulated_us), basis, row.parameter_variance, 0);
    if (!interval) {
      ++unknown;
      continue;
    }
    judged.push_back({&row, *interval, log_ratio(row), record.strategy_correlation});
  }
  return unknown;
}

void finish(WinnerOdds& odds) {
  if (odds.points == 0) return;
  odds.mean_probability /= static_cast<double>(odds.points);
  odds.right_share /= static_cast<double>(odds.points);
}

void set_odds(const std::vector<Judged>& rows, Coverage& coverage) {
  constexpr std::int64_t kDraws = 1000;
  std::map<Point, std::vector<const Judged*>> points;
  for (const Judged& judged : rows) {
    if (judged.row->row->stage == "total") points[point_of(*judged.row->row)].push_back(&judged);
  }
  std::uint64_t number = 0;
  for (const auto& [point, of_point] : points) {
    ++number;
    const auto strategy = [&](const Judged* of) { return of->row->row->strategy; };
    const auto alike = [&](const Judged* of) { return strategy(of) == strategy(of_point.front()); };
    if (std::all_of(of_point.begin(), of_point.end(), alike)) continue;
    const Judged* predicted = *std::min_element(of_point.begin(), of_point.end(), [](const Judged* a, const Judged* b) {
      return a->row->simulated_us < b->row->simulated_us;
    });
    const Judged* measured = *std::min_element(of_point.begin(), of_point.end(), [](const Judged* a, const Judged* b) {
      return a->row->row->us < b->row->row->us;
    });
    std::vector<UncertainTime> times;
    for (const Judged* of : of_point) times.push_back({of->row->simulated_us, of->error});
    const std::vector<double> fastest =
        fastest_probabilities(times, of_point.front()->strategy_correlation, number, kDraws);
    double probability = 0;
    for (std::size_t i = 0; i < of_point.size(); ++i) {
      if (strategy(of_point[i]) == strategy(predicted)) probability += fastest[i];
    }
    for (WinnerOdds* odds : {&coverage.odds, &coverage.sure_odds}) {
      if (odds == &coverage.sure_odds && probability < kSureOfWinner) continue;
      ++odds->points;
      odds->mean_probability += probability;
      odds->right_share += strategy(predicted) == strategy(measured) ? 1 : 0;
    }
  }
  finish(coverage.odds);
  finish(coverage.sure_odds);
}

Coverage summarise_all(const std::vector<Judged>& all, std::int64_t unknown, const std::string& quantiles_of) {
  Coverage coverage;
  coverage.quantiles_of = quantiles_of;
  coverage.unknown = unknown;
  std::vector<Judged> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows), [](const Judged& j) { return !is_small(*j.row); });
  coverage.small = summarise(all, [](const Judged& j) { return is_small(*j.row); });
  coverage.overall = summarise(rows, [](const Judged&) { return true; });
  coverage.layers = summarise(rows, [](const Judged& j) { return j.row->row->stage == "total"; });
  coverage.stages = summarise(rows, [](const Judged& j) { return j.row->row->stage != "total"; });
  if (rows.empty()) return coverage;
  set_odds(rows, coverage);
  coverage.by_strategy = summarise_by(rows, [](const Judged& j) { return j.row->row->strategy; });
  coverage.by_strategy_dtype =
      summarise_by(rows, [](const Judged& j) { return j.row->row->strategy + "/" + j.row->row->weights; });
  coverage.by_band = summarise_by(rows, [](const Judged& j) { return band_of(*j.row); });
  coverage.by_basis = summarise_by(rows, [](const Judged& j) { return std::string(error_basis_name(j.error.basis)); });
  coverage.by_model = summarise_by(rows, [](const Judged& j) { return j.row->row->model_name; });
  const auto cells = summarise_by(rows, [](const Judged& j) {
    return std::tuple(j.row->row->strategy, j.row->row->weights, token_band(j.row->row->tokens));
  });
  for (const auto& [cell, summary] : cells) {
    const auto& [strategy, weights, band] = cell;
    coverage.cells.push_back({strategy, weights, std::string(kTokenBands[band]), summary});
  }
  return coverage;
}

}  // namespace

std::vector<Residual> residuals_of(const std::vector<RowResult>& rows) {
  std::vector<Residual> residuals;
  for (const RowResult& row : rows) {
    if (row.skipped.empty()) residuals.push_back({class_of(row, row.row->us), log_ratio(row), row.parameter_variance});
  }
  return residuals;
}

double strategy_correlation(const std::vector<RowResult>& held_out) {
  const std::vector<ResidualCell> cells = residual_cells(residuals_of(held_out));
  std::map<Point, std::vector<std::pair<std::string, double>>> points;  // strategy, residual in half-widths
  for (const RowResult& row : held_out) {
    if (!row.skipped.empty() || is_small(row) || row.row->stage != "total") continue;
    const ResidualCell& cell = *find_cell(cells, class_of(row, row.row->us));
    const auto& q = cell.quantiles;
    const double half_width = (q.back() - q.front()) / 2;
    if (half_width <= 0) continue;
    const MoeMeasurement& m = *row.row;
    const double scaled = std::clamp((log_ratio(row) - q[q.size() / 2]) / half_width, -kFarthest, kFarthest);
    points[point_of(m)].emplace_back(m.strategy, scaled);
  }
  double products = 0, first = 0, second = 0;
  for (const auto& [point, rows] : points) {
    for (std::size_t a = 0; a < rows.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (rows[a].first == rows[b].first) continue;
        products += rows[a].second * rows[b].second;
        first += rows[a].second * rows[a].second;
        second += rows[b].second * rows[b].second;
      }
    }
  }
  const double scale = std::sqrt(first * second);
  return scale > 0 ? std::clamp(products / scale, 0.0, 1.0) : 0;
}

ResidualRecord residual_record(const std::vector<RowResult>& held_out, const std::vector<RowResult>& alone) {
  const std::vector<RowResult> fitted = fitted_rows(held_out);
  return {.held_out = residual_cells(residuals_of(fitted)),
          .device_alone = residual_cells(residuals_of(alone)),
          .strategy_correlation = strategy_correlation(fitted)};
}

Coverage coverage_by_other_models(const std::vector<RowResult>& held_out, const std::vector<RowResult>& alone) {
  std::set<std::string> models;
  for (const RowResult& row : held_out) models.insert(row.row->model_name);
  std::vector<Judged> judged;
  std::int64_t unknown = 0;
  for (const std::string& model : models) {
    const auto others = [&](const std::vector<RowResult>& rows) {
      std::vector<RowResult> part;
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(part),
                   [&](const RowResult& row) { return row.row->model_name != model; });
      return part;
    };
    const ResidualRecord record = residual_record(others(held_out), others(alone));
    unknown += judge(
        held_out, record, [&](const RowResult& row) { return row.row->model_name == model; }, judged);
  }
  return summarise_all(judged, unknown, "the other models' rows");
}

Coverage coverage_by_record(const std::vector<RowResult>& rows, const ResidualRecord& record,
                            const std::string& quantiles_of) {
  std::vector<Judged> judged;
  const std::int64_t unknown = judge(
      rows, record, [](const RowResult&) { return true; }, judged);
  return summarise_all(judged, unknown, quantiles_of);
}

}  // namespace moesim
