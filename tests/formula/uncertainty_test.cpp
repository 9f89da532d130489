// Error bars by their formulas: how the effects of uncertain constants add up, how a prediction's own spread widens the residuals,
// how likely the fastest is the fastest, and a tornado whose every bar can be computed.
#include "hwmodels/uncertainty.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "hwmodels/residuals.h"
#include "tests/testkit/models.h"
#include "workloads/model_config.h"
#include "workloads/studies/sensitivity.h"
#include "workloads/studies/uncertainty.h"

namespace moesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::SizeIs;

constexpr double kExact = 1e-12;

// time = c1^a c2^b: with standard errors s1, s2 of the logarithms and their correlation r,
// variance of ln(time) = (a s1)^2 + (b s2)^2 + 2 r a s1 b s2.
TEST(Uncertainty, EffectsAddUpAsAQuadraticForm) {
  const double a = 0.5, s1 = 0.2, b = -0.3, s2 = 0.4;
  const std::vector<double> effects = {a * s1, b * s2};
  const double squares = a * s1 * a * s1 + b * s2 * b * s2;
  EXPECT_NEAR(combined_variance(effects, {}), squares, kExact);
  for (const double r : {-0.9, 0.0, 0.6}) {
    EXPECT_NEAR(combined_variance(effects, std::vector<double>{r}), squares + 2 * r * a * s1 * b * s2, kExact);
  }
}

TEST(Uncertainty, TheOrderOfCorrelationsIsTheLowerTriangleRowByRow) {
  const std::vector<double> effects = {1, 10, 100}, correlation = {0.1, 0.2, 0.3};  // (2,1), (3,1), (3,2)
  EXPECT_NEAR(combined_variance(effects, correlation), 1 + 100 + 10000 + 2 * (0.1 * 10 + 0.2 * 100 + 0.3 * 1000), 1e-9);
}

TEST(Uncertainty, WhatCancelsLeavesNothing) {
  EXPECT_EQ(combined_variance(std::vector<double>{0.3, -0.3}, std::vector<double>{1.0}), 0);
}

ResidualCell cell(double p5, double p95, double parameter_variance) {
  ResidualCell result;
  result.of = {.strategy = "s", .weights = "bf16", .band = "1-8", .whole = true};
  result.rows = 100;
  result.quantiles = {p5, p5 / 2, 0, p95 / 2, p95};
  result.parameter_variance = parameter_variance;
  return result;
}

const ErrorClass kClass = {.strategy = "s", .weights = "bf16", .band = "1-8", .whole = true};

// Held-out residuals hold a variance v of the constants: a prediction with the same or less has just their quantiles, one with w > v
// has sqrt(q^2 + 1.645^2 (w - v)).
TEST(Uncertainty, HeldOutResidualsCountTheConstantsOnce) {
  const double v = 0.0004;
  const ResidualRecord record = {.held_out = {cell(-0.08, 0.10, v)}, .device_alone = {}, .strategy_correlation = 0};
  for (const double own : {0.0, v / 2, v}) {
    const auto interval = error_interval(record, kClass, ErrorBasis::kHeldOut, own, 0);
    ASSERT_TRUE(interval);
    EXPECT_NEAR(interval->low(), -0.08, kExact);
    EXPECT_NEAR(interval->high(), 0.10, kExact);
    EXPECT_NEAR(interval->constants, kSigmasAtP95 * std::sqrt(own), kExact);
  }
  const double w = 0.01, more = kSigmasAtP95 * kSigmasAtP95 * (w - v);
  const auto wider = error_interval(record, kClass, ErrorBasis::kHeldOut, w, 0);
  EXPECT_NEAR(wider->low(), -std::sqrt(0.08 * 0.08 + more), kExact);
  EXPECT_NEAR(wider->high(), std::sqrt(0.10 * 0.10 + more), kExact);
  EXPECT_NEAR(wider->half_width_pct(), (std::exp(wider->high()) - std::exp(wider->low())) / 2 * 100, kExact);
}

TEST(Uncertainty, BeyondAFitTheWiderSideCountsAndTheDeviceAdds) {
  const ResidualRecord record = {
      .held_out = {cell(-0.08, 0.10, 0)}, .device_alone = {cell(-0.05, 0.30, 0)}, .strategy_correlation = 0};
  const auto beyond = error_interval(record, kClass, ErrorBasis::kBeyondFit, 0, 0);
  EXPECT_NEAR(beyond->low(), -0.08, kExact);
  EXPECT_NEAR(beyond->high(), 0.30, kExact);
  const double device = 0.02;
  const auto alone =
      error_interval(record, kClass, ErrorBasis::kNotFitted, 5, device);  // constants that it does not have
  EXPECT_NEAR(alone->high(), std::sqrt(0.30 * 0.30 + kSigmasAtP95 * kSigmasAtP95 * device), kExact);
  EXPECT_FALSE(error_interval({}, kClass, ErrorBasis::kNotFitted, 0, 0));
}

// Quantiles of a normal distribution, between which they are linear: so are differences of two, closely.
UncertainTime normal_time(double time, double sigma) {
  UncertainTime result{time, {}};
  result.error.quantiles = {-kSigmasAtP95 * sigma, -0.6745 * sigma, 0, 0.6745 * sigma, kSigmasAtP95 * sigma};
  return result;
}

// P(A < B) = Phi(ln(B / A) / sqrt(2 sigma^2 (1 - r))) of two alike normal errors that correlate by r.
TEST(Uncertainty, TheFasterOfTwoIsTheFasterWithPhi) {
  constexpr double kSigma = 0.05;
  constexpr std::int64_t kDraws = 20'000;
  for (const double r : {0.0, 0.5}) {
    for (const double lead : {1.0, 1.03, 1.08}) {
      const std::vector<UncertainTime> times = {normal_time(100, kSigma), normal_time(100 * lead, kSigma)};
      const double z = std::log(lead) / (kSigma * std::sqrt(2 * (1 - r)));
      const double phi = std::erfc(-z / std::numbers::sqrt2) / 2;
      const std::vector<double> found = fastest_probabilities(times, r, 7, kDraws);
      EXPECT_THAT(found, ElementsAre(DoubleNear(phi, 0.02), DoubleNear(1 - phi, 0.02))) << r << ' ' << lead;
      EXPECT_EQ(found, fastest_probabilities(times, r, 7, kDraws));
    }
  }
}

ConcurrencyRequest tiny_request() {
  ConcurrencyRequest request;
  request.model = testkit::tiny_model();
  request.hardware = load_hardware("h200");
  request.activations = request.model.expert_weights;
  request.concurrencies = {2};
  request.samples = 1;
  request.strategies = {parse_strategy("grouped_gemm"), parse_strategy("stream_gemv")};
  return request;
}

// Every end is what a run with that constant gives, and the error bar is the root of the sum of squares of the logarithms.
TEST(Sensitivity, BarsAreRunsAndTheirRootSumSquare) {
  const ConcurrencyRequest base = tiny_request();
  const std::optional<SensitivityStudy> study =
      run_sensitivity_study({.base = base, .result = "time:stream_gemv", .ranges = {}, .progress = {}});
  ASSERT_TRUE(study);
  ASSERT_GT(study->effects.size(), 5U);
  double down = 0, up = 0, before = 1e300;
  for (const FactorEffect& effect : study->effects) {
    const double low = std::log(*study->result.at(effect.low) / study->result.base);
    const double high = std::log(*study->result.at(effect.high) / study->result.base);
    down += std::pow(std::min({low, high, 0.0}), 2);
    up += std::pow(std::max({low, high, 0.0}), 2);
    EXPECT_LE(std::max(std::abs(low), std::abs(high)), before) << effect.factor.name;
    before = std::max(std::abs(low), std::abs(high));
  }
  EXPECT_NEAR(study->result.all.up, std::exp(std::sqrt(up)) - 1, 1e-9);
  EXPECT_NEAR(study->result.all.down, 1 - std::exp(-std::sqrt(down)), 1e-9);
  const FactorEffect& first = study->effects.front();
  const ConcurrencyStudy run = run_concurrency_study(with_factor(base, first.factor.target, first.factor.high));
  EXPECT_EQ(first.high[1], run.points[0].rows[1].figures()->time_median);
}

// Streaming wins at one token and grouped GEMM at 64 on an H200 (bf16, 128 experts): between them lies one flip, and
// bisection finds the first number of tokens beyond it.
TEST(Sensitivity, BisectionFindsWhereTheWinnerChanges) {
  ConcurrencyRequest base = tiny_request();
  base.model = load_model("qwen3-30b-a3b");
  base.activations = base.model.expert_weights;
  base.options.scope = Scope::kExpertFfn;
  base.concurrencies = {1};
  const std::optional<SensitivityStudy> study = run_sensitivity_study(
      {.base = base, .result = "ratio:grouped_gemm,stream_gemv", .ranges = {{"tokens", "1..64"}}, .progress = {}});
  ASSERT_TRUE(study);
  ASSERT_EQ(study->winner, "stream_gemv");
  const auto effect = std::find_if(study->effects.begin(), study->effects.end(),
                                   [](const FactorEffect& e) { return e.factor.name == "tokens"; });
  ASSERT_NE(effect, study->effects.end());
  ASSERT_TRUE(effect->high_flip);
  EXPECT_EQ(effect->high_flip->winner, "grouped_gemm");
  const auto winner_at = [&](double tokens) {
    return run_concurrency_study(with_factor(base, effect->factor.target, tokens)).verdicts.front().winner;
  };
  EXPECT_EQ(winner_at(effect->high_flip->at), "grouped_gemm");
  EXPECT_EQ(winner_at(effect->high_flip->at - 1), "stream_gemv");
}

}  // namespace
}  // namespace moesim
