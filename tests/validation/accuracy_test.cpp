// The error against committed measurements: without any fit to MoE kernels, and by the committed overlay on a card that it has
// not seen (design: accuracy cannot drift unseen).
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/loader.h"
#include "validation/evaluate.h"

namespace moesim {
namespace {

const std::string kMeasurements = MOESIM_SOURCE_DIR "/validation/measured/h200-2026-11-29/measurements.jsonl";
constexpr std::int64_t kMostTokens = 64;
constexpr std::int64_t kLeastTotals = 20;  // of a cell that must beat the floor

std::vector<MoeMeasurement> read_rows() {
  std::vector<MoeMeasurement> rows = read_measurements(kMeasurements);
  std::erase_if(rows, [](const MoeMeasurement& row) { return row.tokens > kMostTokens; });
  return rows;
}

Evaluation evaluate_h200(const std::vector<MoeMeasurement>& rows) {
  return evaluate(rows, kMeasurements, load_hardware("h200"), {});
}

void expect_within(const Evaluation& evaluation, const std::string& strategy_dtype, double median, double p95) {
  const ErrorSummary& errors = evaluation.by_strategy_dtype.at(strategy_dtype);
  EXPECT_GE(errors.count, 90) << strategy_dtype;
  EXPECT_LE(errors.median_abs_pct, median) << strategy_dtype;
  EXPECT_LE(errors.p95_abs_pct, p95) << strategy_dtype;
}

// One test, since each test of this suite is a process of its own and would simulate all rows again.
TEST(Accuracy, H200WithoutAFit) {
  const std::vector<MoeMeasurement> rows = read_rows();
  const Evaluation evaluation = evaluate_h200(rows);
  EXPECT_THAT(evaluation.skipped, testing::IsEmpty());
  EXPECT_EQ(evaluation.below_bound, 0);
  expect_within(evaluation, "grouped_gemm/bf16", 6, 20);
  expect_within(evaluation, "stream_gemv/bf16", 8, 20);
  int cells = 0;
  for (const Cell& cell : evaluation.cells) {
    if (cell.ours.count < kLeastTotals) continue;
    ++cells;
    const std::string name = cell.strategy + " " + cell.weights + " " + cell.band;
    EXPECT_LT(cell.ours.median_abs_pct, cell.floor.median_abs_pct) << name;
    EXPECT_LT(cell.ours.p95_abs_pct, cell.floor.p95_abs_pct) << name;
  }
  EXPECT_GE(cells, 13);
}

// No row of these sets was fitted, and other cards measured them (validation/README.md has the figures reached).
class UnseenCard : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Accuracy, UnseenCard,
                         testing::Values("h200-2026-12-01", "h200-2026-12-01-clocks", "h200-2026-12-01-last"));

TEST_P(UnseenCard, IsPredicted) {
  const std::string file = MOESIM_SOURCE_DIR "/validation/measured/" + std::string(GetParam()) + "/measurements.jsonl";
  const std::vector<MoeMeasurement> rows = read_measurements(file);
  const std::optional<Calibration> overlay = calibration_of_device("h200");
  ASSERT_TRUE(overlay);
  EvaluateOptions options;
  options.calibration = &*overlay;
  const Evaluation evaluation = evaluate(rows, file, load_hardware("h200"), options);
  expect_within(evaluation, "grouped_gemm/bf16", 3, 10);
  expect_within(evaluation, "stream_gemv/bf16", 3, 10);
  expect_within(evaluation, "grouped_gemm/fp8_block128", 4, 14);
  expect_within(evaluation, "stream_gemv/fp8_block128", 4, 14);
  const ChoiceErrors& decided = evaluation.choice.decided;
  EXPECT_GE(decided.cells, 110);
  EXPECT_GE(decided.right_share, 0.97);
}

TEST(Accuracy, MeasuredTimesDoNotEnterPredictions) {
  std::vector<MoeMeasurement> rows = read_rows();
  rows.resize(40);
  const std::vector<MoeMeasurement> as_measured = rows;
  for (MoeMeasurement& row : rows) row.us *= 2;
  const Evaluation once = evaluate_h200(as_measured);
  const Evaluation twice = evaluate_h200(rows);
  ASSERT_GT(once.rows.size(), 10u);
  for (const RowResult& row : once.rows) {
    const auto twin = std::find_if(twice.rows.begin(), twice.rows.end(),
                                   [&](const RowResult& r) { return r.row->line == row.row->line; });
    ASSERT_NE(twin, twice.rows.end());
    EXPECT_EQ(row.simulated_us, twin->simulated_us);
  }
}

}  // namespace
}  // namespace moesim
