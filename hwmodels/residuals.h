// How far measured times lay from simulated ones, and what follows for a prediction.
//
// A residual is ln(measured / simulated). Rows that are alike make a cell, of which an overlay keeps quantiles: by strategy, weight
// format and band of tokens, apart for whole layers and for single stages. A cell of fewer than kLeastCellRows rows says little:
// then all bands of the strategy and format stand for it, else all formats of the strategy, else everything.
//
// Held-out residuals hold the spread that uncertain constants give to such rows already. So a prediction's own spread of
// constants widens its interval only by what it exceeds the mean of the cell's rows: nothing is counted twice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

// Bands of tokens, by which errors are told apart.
inline constexpr std::array<std::string_view, 4> kTokenBands = {"1-8", "9-64", "65-1024", "1025+"};
std::size_t token_band(std::int64_t tokens);  // index of kTokenBands
// In place of a band, of times below kShortTimeUs whatever the tokens: launches decide there.
inline constexpr std::string_view kShortBand = "short";
inline constexpr double kShortTimeUs = 10;

// What a row or a prediction is, as far as its error is concerned.
struct ErrorClass {
  std::string strategy;  // "": all
  std::string weights;   // "": all of the strategy
  std::string band;      // "": all of the weights
  bool whole = true;     // a layer; else one stage of it

  auto operator<=>(const ErrorClass&) const = default;
};
ErrorClass error_class(const std::string& strategy, const std::string& weights, std::int64_t tokens, double time_us,
                       bool whole);
std::string error_class_name(const ErrorClass& of);  // "grouped_gemm, bf16, 1-8 tokens"; "everything"

struct Residual {
  ErrorClass of;                  // every part of it set
  double log_ratio = 0;           // ln(measured / simulated)
  double parameter_variance = 0;  // of the logarithm of the simulated time, by the covariance of its fitted constants
};

inline constexpr std::array<double, 5> kResidualShares = {0.05, 0.25, 0.5, 0.75, 0.95};
inline constexpr std::int64_t kLeastCellRows = 20;

struct ResidualCell {
  ErrorClass of;
  std::int64_t rows = 0;
  std::array<double, kResidualShares.size()> quantiles{};  // of the residuals, at kResidualShares
  double parameter_variance = 0;                           // mean over the rows
};

// Every cell of these rows and all coarser ones; sorted, the coarser before the finer.
std::vector<ResidualCell> residual_cells(const std::vector<Residual>& residuals);
// The finest cell with enough rows that holds this class, or that of everything; nullptr: there is none.
const ResidualCell* find_cell(const std::vector<ResidualCell>& cells, const ErrorClass& of);

// Linear between the neighbours of the place; `sorted` ascends and is not empty.
double sorted_quantile(const std::vector<double>& sorted, double share);

// Residuals as an overlay knows them.
struct ResidualRecord {
  std::vector<ResidualCell> held_out;      // each model under constants fitted to the others
  std::vector<ResidualCell> device_alone;  // without any fit
  double strategy_correlation = 0;         // of the held-out residuals of two strategies at the same point
};

// What a prediction rests on.
enum class ErrorBasis {
  kHeldOut,    // constants fitted to its implementation, within the fit's tokens
  kBeyondFit,  // fitted, to fewer tokens
  kNotFitted,  // the device's constants alone
};
const char* error_basis_name(ErrorBasis basis);  // "held_out", ...

// Of ln(true / simulated).
struct ErrorInterval {
  std::array<double, kResidualShares.size()> quantiles{};  // at kResidualShares
  ErrorBasis basis = ErrorBasis::kHeldOut;
  ErrorClass cell;        // whose residuals stand behind it
  std::int64_t rows = 0;  // of these
  double constants = 0;   // p95 of what the constants' uncertainty alone makes of it, as a logarithm
  [[nodiscard]] double low() const { return quantiles.front(); }
  [[nodiscard]] double high() const { return quantiles.back(); }
  // The quantile at any share, beyond p5 and p95 along the last piece.
  [[nodiscard]] double at(double share) const;
  [[nodiscard]] double half_width_pct() const;  // half of p95 - p5, % of the simulated time
};

// `parameter_variance`: of the logarithm of this very prediction by its fitted constants; `device_variance`: by the device's
// constants, where no residual of this device stands behind it (0 otherwise). nullopt: the record has no residuals for it.
//   held out:   the cell's quantiles; the variance of the constants beyond the cell's mean in quadrature on both sides
//   beyond fit: the wider of held-out and device-alone quantiles on either side, and the variances in quadrature
//   not fitted: device-alone quantiles, and the device's variance in quadrature
std::optional<ErrorInterval> error_interval(const ResidualRecord& record, const ErrorClass& of, ErrorBasis basis,
                                            double parameter_variance, double device_variance);

}  // namespace moesim
