#include "hwmodels/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "hwmodels/uncertainty.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::size_t kMedian = 2;  // of kResidualShares
static_assert(kResidualShares[kMedian] == 0.5);

// The class itself, then each coarser one.
std::array<ErrorClass, 4> from_fine_to_coarse(const ErrorClass& of) {
  return {of,
          {.strategy = of.strategy, .weights = of.weights, .band = "", .whole = of.whole},
          {.strategy = of.strategy, .weights = "", .band = "", .whole = of.whole},
          {.strategy = "", .weights = "", .band = "", .whole = of.whole}};
}

// Each quantile's distance from the median with `variance` of a normal in quadrature.
void widen(std::array<double, kResidualShares.size()>& quantiles, double variance) {
  if (variance <= 0) return;
  constexpr std::array<double, kResidualShares.size()> kSigmas = {-kSigmasAtP95, -0.6744897501960817, 0,
                                                                  0.6744897501960817, kSigmasAtP95};
  const double median = quantiles[kMedian];
  for (std::size_t q = 0; q < quantiles.size(); ++q) {
    const double distance = quantiles[q] - median;
    const double wider = std::sqrt(distance * distance + kSigmas[q] * kSigmas[q] * variance);
    quantiles[q] = median + (q < kMedian ? -wider : wider);
  }
}

}  // namespace

std::size_t token_band(std::int64_t tokens) { return tokens <= 8 ? 0 : tokens <= 64 ? 1 : tokens <= 1024 ? 2 : 3; }

ErrorClass error_class(const std::string& strategy, const std::string& weights, std::int64_t tokens, double time_us,
                       bool whole) {
  const std::string_view band = time_us < kShortTimeUs ? kShortBand : kTokenBands[token_band(tokens)];
  return {.strategy = strategy, .weights = weights, .band = std::string(band), .whole = whole};
}

std::string error_class_name(const ErrorClass& of) {
  const std::string kind = of.whole ? "" : ", stages";
  if (of.strategy.empty()) return "all strategies" + kind;
  if (of.weights.empty()) return of.strategy + kind;
  if (of.band.empty()) return fmt::format("{}, {}{}", of.strategy, of.weights, kind);
  const std::string band = of.band == kShortBand ? fmt::format("under {} µs", kShortTimeUs) : of.band + " tokens";
  return fmt::format("{}, {}, {}{}", of.strategy, of.weights, band, kind);
}

double sorted_quantile(const std::vector<double>& sorted, double share) {
  MOESIM_CHECK(!sorted.empty());
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<ResidualCell> residual_cells(const std::vector<Residual>& residuals) {
  std::map<ErrorClass, std::vector<const Residual*>> members;
  for (const Residual& residual : residuals) {
    for (const ErrorClass& of : from_fine_to_coarse(residual.of)) members[of].push_back(&residual);
  }
  std::vector<ResidualCell> cells;
  for (const auto& [of, rows] : members) {
    ResidualCell& cell = cells.emplace_back();
    cell.of = of;
    cell.rows = static_cast<std::int64_t>(rows.size());
    std::vector<double> sorted;
    for (const Residual* row : rows) {
      sorted.push_back(row->log_ratio);
      cell.parameter_variance += row->parameter_variance / static_cast<double>(rows.size());
    }
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t q = 0; q < kResidualShares.size(); ++q) {
      cell.quantiles[q] = sorted_quantile(sorted, kResidualShares[q]);
    }
  }
  return cells;
}

const ResidualCell* find_cell(const std::vector<ResidualCell>& cells, const ErrorClass& of) {
  const ResidualCell* found = nullptr;
  for (const ErrorClass& wanted : from_fine_to_coarse(of)) {
    const auto cell = std::find_if(cells.begin(), cells.end(), [&](const ResidualCell& c) { return c.of == wanted; });
    if (cell == cells.end()) continue;
    found = &*cell;
    if (cell->rows >= kLeastCellRows) return found;
  }
  return found;
}

const char* error_basis_name(ErrorBasis basis) {
  switch (basis) {
    case ErrorBasis::kHeldOut:
      return "held_out";
    case ErrorBasis::kBeyondFit:
      return "beyond_fit";
    case ErrorBasis::kNotFitted:
      return "not_fitted";
  }
  return "";
}

double ErrorInterval::at(double share) const {
  std::size_t piece = 0;
  while (piece + 2 < kResidualShares.size() && share > kResidualShares[piece + 1]) ++piece;
  const double place = (share - kResidualShares[piece]) / (kResidualShares[piece + 1] - kResidualShares[piece]);
  return quantiles[piece] + place * (quantiles[piece + 1] - quantiles[piece]);
}

double ErrorInterval::half_width_pct() const { return (std::exp(high()) - std::exp(low())) / 2 * 100; }

std::optional<ErrorInterval> error_interval(const ResidualRecord& record, const ErrorClass& of, ErrorBasis basis,
                                            double parameter_variance, double device_variance) {
  const bool fitted = basis != ErrorBasis::kNotFitted;
  const ResidualCell* const held_out = fitted ? find_cell(record.held_out, of) : nullptr;
  const ResidualCell* const alone = basis != ErrorBasis::kHeldOut ? find_cell(record.device_alone, of) : nullptr;
  const ResidualCell* const cell = basis == ErrorBasis::kHeldOut ? held_out : alone;
  if (cell == nullptr) return std::nullopt;
  ErrorInterval interval;
  interval.basis = basis;
  interval.cell = cell->of;
  interval.rows = cell->rows;
  interval.quantiles = cell->quantiles;
  const double own = (fitted ? parameter_variance : 0) + device_variance;
  interval.constants = kSigmasAtP95 * std::sqrt(own);
  switch (basis) {
    case ErrorBasis::kHeldOut:
      widen(interval.quantiles, own - cell->parameter_variance);
      break;
    case ErrorBasis::kBeyondFit:
      if (held_out != nullptr) {
        for (std::size_t q = 0; q < interval.quantiles.size(); ++q) {
          double& quantile = interval.quantiles[q];
          quantile = q < kMedian   ? std::min(quantile, held_out->quantiles[q])
                     : q > kMedian ? std::max(quantile, held_out->quantiles[q])
                                   : held_out->quantiles[q];
        }
      }
      widen(interval.quantiles, own);
      break;
    case ErrorBasis::kNotFitted:
      widen(interval.quantiles, own);
      break;
  }
  return interval;
}

}  // namespace moesim
