// How many rows lie in the intervals of other rows: made-up residuals whose answer is known.
#include "validation/coverage.h"

#include <gmock/gmock.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

namespace moesim {
namespace {

// Rows whose measured time lies exp(residual) above the simulated one.
class Rows {
 public:
  void add(const std::string& model, const std::string& strategy, std::int64_t tokens, double residual,
           bool fitted = true, double simulated_us = 100) {
    MoeMeasurement& row = measured_.emplace_back();
    row.model_name = model;
    row.strategy = strategy;
    row.weights = "bf16";
    row.tokens = tokens;
    row.stage = "total";
    row.us = simulated_us * std::exp(residual);
    RowResult& result = results_.emplace_back();
    result.row = &row;
    result.simulated_us = simulated_us;
    result.fitted = result.in_range = fitted;
  }
  // `count` residuals from -width to width, evenly.
  void spread(const std::string& model, int count, double width) {
    for (int i = 0; i < count; ++i) add(model, "a", 4, width * (2.0 * i / (count - 1) - 1));
  }
  [[nodiscard]] const std::vector<RowResult>& all() const { return results_; }

 private:
  std::deque<MoeMeasurement> measured_;  // places that stay
  std::vector<RowResult> results_;
};

TEST(Coverage, OfAlikeModelsIsWhatWasPromised) {
  Rows rows;
  for (const char* model : {"x", "y", "z"}) rows.spread(model, 101, 0.2);
  const Coverage coverage = coverage_by_other_models(rows.all(), {});
  EXPECT_EQ(coverage.overall.rows, 303);
  EXPECT_NEAR(coverage.overall.inside_share, 0.9, 0.011);
  EXPECT_NEAR(coverage.overall.below_share, 0.05, 0.011);
  EXPECT_NEAR(coverage.overall.median_half_width_pct, (std::exp(0.18) - std::exp(-0.18)) / 2 * 100, 0.3);
}

TEST(Coverage, AModelHasNoPartInItsOwnQuantiles) {
  Rows rows;
  rows.spread("x", 101, 0.01);
  rows.spread("y", 101, 0.01);
  rows.spread("wild", 101, 0.5);
  const Coverage coverage = coverage_by_other_models(rows.all(), {});
  EXPECT_LT(coverage.by_model.at("wild").inside_share, 0.05);
  EXPECT_EQ(coverage.by_model.at("x").inside_share, 1);
}

TEST(Coverage, RowsWithoutAFitHaveTheResidualsWithoutAFit) {
  Rows fitted, alone;
  for (const char* model : {"x", "y"}) {
    fitted.spread(model, 41, 0.1);
    alone.spread(model, 41, 0.4);
  }
  fitted.add("x", "a", 4, 0.3, false);
  const Coverage coverage = coverage_by_other_models(fitted.all(), alone.all());
  EXPECT_EQ(coverage.by_basis.at("not_fitted").rows, 1);
  EXPECT_EQ(coverage.by_basis.at("not_fitted").inside_share, 1);
  EXPECT_EQ(coverage.unknown, 0);
  const Coverage unknown = coverage_by_other_models(fitted.all(), {});
  EXPECT_EQ(unknown.unknown, 1);
}

TEST(Coverage, ARecordJudgesOtherRows) {
  Rows known, others;
  known.spread("x", 101, 0.1);
  for (int i = 0; i < 8; ++i) others.add("y", "a", 4, 0);
  others.add("y", "a", 4, 0.2);
  others.add("y", "a", 4, -0.2);
  const Coverage coverage = coverage_by_record(others.all(), residual_record(known.all(), {}), "x");
  EXPECT_EQ(coverage.overall.rows, 10);
  EXPECT_NEAR(coverage.overall.inside_share, 0.8, 1e-9);
  EXPECT_NEAR(coverage.overall.below_share, 0.1, 1e-9);
  ASSERT_EQ(coverage.cells.size(), 1U);
  EXPECT_EQ(coverage.cells.front().band, "1-8");
}

// Two strategies of one simulated time each, whose residuals are as those of the record.
TEST(Coverage, OddsOfAWinnerAreJudgedToo) {
  Rows known;
  for (int i = 0; i < 50; ++i) {
    known.add("x", "a", 4, 0.002 * (i - 25));
    known.add("x", "b", 4, 0.002 * (i - 25));
  }
  const ResidualRecord record = residual_record(known.all(), {});
  Rows clear, even;
  clear.add("y", "a", 4, 0);
  clear.add("y", "b", 4, 0, true, 150);
  even.add("y", "a", 4, 0.01);
  even.add("y", "b", 4, 0);
  const Coverage sure = coverage_by_record(clear.all(), record, "x");
  EXPECT_EQ(sure.odds.points, 1);
  EXPECT_EQ(sure.sure_odds.points, 1);
  EXPECT_NEAR(sure.odds.mean_probability, 1, 1e-9);
  EXPECT_EQ(sure.odds.right_share, 1);
  const Coverage unsure = coverage_by_record(even.all(), record, "x");
  EXPECT_EQ(unsure.sure_odds.points, 0);
  EXPECT_NEAR(unsure.odds.mean_probability, 0.5, 0.06);
  EXPECT_EQ(unsure.odds.right_share, 0);  // the first of equal times is predicted, the other was measured faster
}

TEST(StrategyCorrelation, IsOfTwoStrategiesAtOnePoint) {
  Rows together, apart;
  for (int tokens = 1; tokens <= 8; ++tokens) {
    for (const double residual : {-0.1, -0.05, 0.05, 0.1}) {
      const std::string model = std::to_string(residual);
      together.add(model, "a", tokens, residual);
      together.add(model, "b", tokens, 2 * residual);
      apart.add(model, "a", tokens, residual);
      apart.add(model, "b", tokens, -residual);
    }
  }
  EXPECT_NEAR(strategy_correlation(together.all()), 1, 0.01);
  EXPECT_EQ(strategy_correlation(apart.all()), 0);
}

}  // namespace
}  // namespace moesim
