// Two strategies' measured and simulated times: where each says that they cross.
#include "validation/strategy_curves.h"

#include <gmock/gmock.h>

#include <cmath>
#include <deque>
#include <string>

namespace moesim {
namespace {

using testing::DoubleNear;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

// Rows of one model; `other` takes 100 us in both, so that times are ratios.
class Curves : public testing::Test {
 protected:
  void add(std::int64_t tokens, double measured, double simulated, const std::string& trace = "a") {
    add_row("stream_gemv", "mine", tokens, measured * 100, simulated * 100, trace);
    add_row("grouped_gemm", "theirs", tokens, 100, 100, trace);
  }
  void add_row(const std::string& strategy, const std::string& implementation, std::int64_t tokens, double us,
               double simulated_us, const std::string& trace) {
    MoeMeasurement& row = rows_.emplace_back();
    row.model_name = "m";
    row.weights = "bf16";
    row.strategy = strategy;
    row.implementation = implementation;
    row.tokens = tokens;
    row.us = us;
    row.stage = "total";
    row.routed_trace = trace;
    RowResult result;
    result.row = &row;
    result.simulated_us = simulated_us;
    evaluation_.rows.push_back(result);
  }
  std::vector<StrategyCurves> curves(const std::string& implementation = "") {
    return curves_of(evaluation_, {"stream_gemv", implementation}, {"grouped_gemm", ""}, nullptr);
  }

  std::deque<MoeMeasurement> rows_;  // do not move
  Evaluation evaluation_;
};

TEST_F(Curves, CrossOnStraightLinesOfLogarithms) {
  add(1, 0.90, 0.8);
  add(4, 0.94, 1 / 1.1);
  add(8, 1.02, 1.1);  // half way between 4 and 8 in logarithms
  add(16, 1.2, 1.3);
  const std::vector<StrategyCurves> list = curves();
  ASSERT_THAT(list, SizeIs(1));
  EXPECT_THAT(list[0].simulated_crossover(), Optional(DoubleNear(4 * std::sqrt(2), 1e-9)));
  EXPECT_THAT(list[0].last_clear(), Optional(4));
  EXPECT_THAT(list[0].first_clear(), Optional(16));
  EXPECT_THAT(list[0].inside(), Optional(true));
}

// Near a tie the order may change several times: the last change counts.
TEST_F(Curves, CrossWhereTheOtherStaysAhead) {
  add(1, 0.9, 0.9);
  add(2, 0.9, 1.1);
  add(4, 0.98, 1 / 1.02);
  add(16, 1.1, 1.02);
  EXPECT_THAT(curves()[0].simulated_crossover(), Optional(DoubleNear(8, 1e-9)));
  EXPECT_THAT(curves()[0].inside(), Optional(true));
}

TEST_F(Curves, OutsideIsOutside) {
  add(1, 0.9, 1.1);
  add(2, 0.9, 1.2);
  add(4, 1.1, 1.3);
  EXPECT_THAT(curves()[0].simulated_crossover(), Optional(1));
  EXPECT_THAT(curves()[0].inside(), Optional(false));
}

// A strategy that is never clearly ahead: anything up to the other's first clear lead is inside.
TEST_F(Curves, WithoutAClearLeadOfTheOne) {
  add(1, 0.99, 1.01);
  add(3, 1.09, 1.1);
  EXPECT_EQ(curves()[0].last_clear(), std::nullopt);
  EXPECT_THAT(curves()[0].inside(), Optional(true));
}

TEST_F(Curves, WithoutACrossingNothingIsToldOfIt) {
  add(1, 0.9, 0.9);
  add(3, 1.1, 0.95);
  EXPECT_EQ(curves()[0].simulated_crossover(), std::nullopt);
  EXPECT_EQ(curves()[0].inside(), std::nullopt);
}

TEST_F(Curves, PairRowsOfOneRoutingAndTakeTheFastest) {
  add(2, 0.9, 0.8, "a");
  add(2, 1.1, 1.2, "b");
  add_row("stream_gemv", "faster", 2, 70, 75, "a");
  add_row("stream_gemv", "alone", 4, 70, 75, "a");
  const std::vector<StrategyCurves> any = curves();
  ASSERT_THAT(any[0].points, SizeIs(2));
  EXPECT_DOUBLE_EQ(any[0].points[0].measured_ratio(), 0.7);
  EXPECT_DOUBLE_EQ(any[0].points[0].simulated_ratio(), 0.75);
  EXPECT_DOUBLE_EQ(curves("mine")[0].points[0].measured_ratio(), 0.9);
  EXPECT_THAT(curves("nobody's"), IsEmpty());
}

}  // namespace
}  // namespace moesim
