// The error against the committed measurements, without any fit to MoE kernels (design.md: accuracy cannot drift
// unseen).
#include <gmock/gmock.h>

#include "hwmodels/loader.h"
#include "validation/evaluate.h"

namespace moesim {
namespace {

const std::string kMeasurements = MOESIM_SOURCE_DIR "/validation/measured/h200-2026-11-29/measurements.jsonl";
constexpr std::int64_t kMostTokens = 64;
constexpr std::int64_t kLeastTotals = 20;  // of a cell that must beat the floor

class AccuracyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    rows_ = new std::vector<MoeMeasurement>(read_measurements(kMeasurements));
    EvaluateOptions options;
    options.max_tokens = kMostTokens;
    evaluation_ = new Evaluation(evaluate(*rows_, kMeasurements, load_hardware("h200"), options));
  }
  static const ErrorSummary& of(const std::string& strategy_dtype) {
    return evaluation_->by_strategy_dtype.at(strategy_dtype);
  }
  static const std::vector<MoeMeasurement>* rows_;
  static const Evaluation* evaluation_;
};
const std::vector<MoeMeasurement>* AccuracyTest::rows_ = nullptr;
const Evaluation* AccuracyTest::evaluation_ = nullptr;

TEST_F(AccuracyTest, grouped_gemm_bf16_within_6_and_20_percent) {
  const ErrorSummary& errors = of("grouped_gemm/bf16");
  EXPECT_GE(errors.count, 90);
  EXPECT_LE(errors.median_abs_pct, 6);
  EXPECT_LE(errors.p95_abs_pct, 20);
}

TEST_F(AccuracyTest, stream_gemv_bf16_within_8_and_20_percent) {
  const ErrorSummary& errors = of("stream_gemv/bf16");
  EXPECT_GE(errors.count, 90);
  EXPECT_LE(errors.median_abs_pct, 8);
  EXPECT_LE(errors.p95_abs_pct, 20);
}

TEST_F(AccuracyTest, no_prediction_lies_below_its_bound) { EXPECT_EQ(evaluation_->below_bound, 0); }

TEST_F(AccuracyTest, every_cell_beats_the_roofline_floor) {
  int cells = 0;
  for (const Cell& cell : evaluation_->cells) {
    if (cell.ours.count < kLeastTotals) continue;
    ++cells;
    EXPECT_LT(cell.ours.median_abs_pct, cell.floor.median_abs_pct)
        << cell.strategy << " " << cell.weights << " " << cell.band;
    EXPECT_LT(cell.ours.p95_abs_pct, cell.floor.p95_abs_pct)
        << cell.strategy << " " << cell.weights << " " << cell.band;
  }
  EXPECT_GE(cells, 11);
}

TEST_F(AccuracyTest, every_row_was_simulated) { EXPECT_THAT(evaluation_->skipped, testing::IsEmpty()); }

// What a row measured must not move what is predicted for it.
TEST_F(AccuracyTest, measured_times_do_not_enter_predictions) {
  std::vector<MoeMeasurement> doubled(rows_->begin(), rows_->begin() + 40);
  for (MoeMeasurement& row : doubled) row.us *= 2;
  const std::vector<MoeMeasurement> same(rows_->begin(), rows_->begin() + 40);
  EvaluateOptions options;
  options.max_tokens = kMostTokens;
  const Evaluation a = evaluate(same, kMeasurements, load_hardware("h200"), options);
  const Evaluation b = evaluate(doubled, kMeasurements, load_hardware("h200"), options);
  ASSERT_GT(a.rows.size(), 10u);
  for (const RowResult& row : a.rows) {
    const auto twin =
        std::find_if(b.rows.begin(), b.rows.end(), [&](const RowResult& r) { return r.row->line == row.row->line; });
    ASSERT_NE(twin, b.rows.end());
    EXPECT_EQ(row.simulated_us, twin->simulated_us);
  }
}

}  // namespace
}  // namespace moesim
