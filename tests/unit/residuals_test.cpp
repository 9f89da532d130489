// Cells of residuals: their quantiles, and which cell stands for a prediction where its own has few rows.
#include "hwmodels/residuals.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

namespace moesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// `rows` residuals from `low` to `high`, evenly.
void add(std::vector<Residual>& residuals, const std::string& strategy, const std::string& weights, std::int64_t tokens,
         int rows, double low, double high) {
  for (int i = 0; i < rows; ++i) {
    const double share = rows == 1 ? 0.5 : static_cast<double>(i) / (rows - 1);
    residuals.push_back({error_class(strategy, weights, tokens, 50, true), low + share * (high - low), 0.0001});
  }
}

const ResidualCell& cell_of(const std::vector<ResidualCell>& cells, const std::string& strategy,
                            const std::string& weights, std::int64_t tokens) {
  return *find_cell(cells, error_class(strategy, weights, tokens, 50, true));
}

TEST(ResidualCells, HaveTheQuantilesOfTheirRows) {
  std::vector<Residual> residuals;
  add(residuals, "a", "bf16", 4, 101, -0.5, 0.5);
  const std::vector<ResidualCell> cells = residual_cells(residuals);
  const ResidualCell& cell = cell_of(cells, "a", "bf16", 8);
  EXPECT_EQ(cell.rows, 101);
  EXPECT_THAT(cell.quantiles, ElementsAre(DoubleNear(-0.45, 1e-9), DoubleNear(-0.25, 1e-9), DoubleNear(0, 1e-9),
                                          DoubleNear(0.25, 1e-9), DoubleNear(0.45, 1e-9)));
  EXPECT_NEAR(cell.parameter_variance, 0.0001, 1e-12);
}

TEST(ResidualCells, OfFewRowsGiveWayToCoarserOnes) {
  std::vector<Residual> residuals;
  add(residuals, "a", "bf16", 4, 20, -0.1, 0.1);   // enough
  add(residuals, "a", "bf16", 32, 19, -0.2, 0.2);  // one too few: all bands of a, bf16
  add(residuals, "a", "fp8", 4, 5, -0.3, 0.3);     // few in all bands: all of a
  add(residuals, "b", "bf16", 4, 3, -0.4, 0.4);    // few of the strategy: everything
  const std::vector<ResidualCell> cells = residual_cells(residuals);
  EXPECT_EQ(cell_of(cells, "a", "bf16", 1).of.band, "1-8");
  EXPECT_EQ(cell_of(cells, "a", "bf16", 9).of, (ErrorClass{"a", "bf16", "", true}));
  EXPECT_EQ(cell_of(cells, "a", "bf16", 9).rows, 39);
  EXPECT_EQ(cell_of(cells, "a", "bf16", 2000).of, (ErrorClass{"a", "bf16", "", true}));  // no row of the band at all
  EXPECT_EQ(cell_of(cells, "a", "fp8", 4).of, (ErrorClass{"a", "", "", true}));
  EXPECT_EQ(cell_of(cells, "b", "bf16", 4).of, (ErrorClass{"", "", "", true}));
  EXPECT_EQ(cell_of(cells, "new", "mxfp4", 4).rows, 47);
}

TEST(ResidualCells, TellLayersStagesAndShortTimesApart) {
  const auto of = [](double us, bool whole) { return error_class("a", "bf16", 4, us, whole); };
  std::vector<Residual> residuals;
  for (int i = 0; i < 30; ++i) {
    residuals.push_back({of(10, true), 0.1, 0});
    residuals.push_back({of(9.99, true), 0.2, 0});
    residuals.push_back({of(50, false), 0.3, 0});
  }
  const std::vector<ResidualCell> cells = residual_cells(residuals);
  EXPECT_EQ(find_cell(cells, of(12, true))->quantiles[2], 0.1);
  EXPECT_EQ(find_cell(cells, of(3, true))->quantiles[2], 0.2);
  EXPECT_EQ(find_cell(cells, of(12, false))->quantiles[2], 0.3);
  EXPECT_EQ(find_cell(residual_cells({}), of(12, true)), nullptr);
}

TEST(ErrorInterval, IsLinearBetweenQuantilesAndBeyond) {
  ErrorInterval interval;
  interval.quantiles = {-0.2, -0.1, 0, 0.2, 0.4};
  EXPECT_NEAR(interval.at(0.05), -0.2, 1e-12);
  EXPECT_NEAR(interval.at(0.15), -0.15, 1e-12);
  EXPECT_NEAR(interval.at(0.5), 0, 1e-12);
  EXPECT_NEAR(interval.at(0.85), 0.3, 1e-12);
  EXPECT_NEAR(interval.at(1), 0.45, 1e-12);
  EXPECT_NEAR(interval.at(0), -0.225, 1e-12);
}

TEST(ErrorClass, NamesSayWhatStandsBehindIt) {
  EXPECT_EQ(error_class_name(error_class("a", "bf16", 64, 50, true)), "a, bf16, 9-64 tokens");
  EXPECT_EQ(error_class_name(error_class("a", "bf16", 64, 5, false)), "a, bf16, under 10 µs, stages");
  EXPECT_EQ(error_class_name(ErrorClass{}), "all strategies");
}

}  // namespace
}  // namespace moesim
