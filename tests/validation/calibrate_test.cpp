// The calibrator gets back constants that made the times, and says what the times cannot tell.
#include "validation/calibrate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hwmodels/loader.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string kMeasurements = MOESIM_SOURCE_DIR "/validation/measured/h200-2026-11-29/measurements.jsonl";

// The streaming kernel's rows of two models at few tokens, with times that the simulator makes under `constants`.
std::vector<MoeMeasurement> made_up_rows(const ImplementationConstants& constants) {
  std::vector<MoeMeasurement> rows = read_measurements(kMeasurements);
  std::erase_if(rows, [](const MoeMeasurement& row) {
    return row.strategy != "stream_gemv" || row.weights != "bf16" || row.tokens > 4 ||
           (row.model_name != "mixtral-8x7b" && row.model_name != "olmoe");
  });
  Calibration calibration;
  Implementation& implementation = calibration.implementations.emplace_back();
  implementation.name = rows.front().implementation;
  implementation.strategy = rows.front().strategy;
  implementation.weights = rows.front().weights;
  for (const auto& [name, value] : constants) implementation.constants[name].value = value;
  EvaluateOptions options;
  options.calibration = &calibration;
  const Evaluation evaluation = evaluate(rows, kMeasurements, load_hardware("h200"), options);
  std::vector<MoeMeasurement> made_up;
  for (const std::vector<RowResult>* results : {&evaluation.rows, &evaluation.small_rows}) {
    for (const RowResult& result : *results) {
      made_up.push_back(*result.row);
      made_up.back().us = result.simulated_us;
    }
  }
  return made_up;
}

CalibrationResult fitted_to(const std::vector<MoeMeasurement>& rows) {
  return calibrate(rows, {}, load_hardware("h200"), {});
}

TEST(Calibrate, GetsBackWhatMadeTheTimes) {
  const ImplementationConstants truth = {
      {"up.start_us", 3}, {"down.start_us", 2}, {"up.byte_weight", 1.2}, {"down.byte_weight", 1.1}};
  const CalibrationResult result = fitted_to(made_up_rows(truth));
  ASSERT_THAT(result.calibration.implementations, SizeIs(1));
  const auto& constants = result.calibration.implementations.front().constants;
  for (const auto& [name, value] : truth) {
    ASSERT_TRUE(constants.contains(name)) << name;
    EXPECT_NEAR(constants.at(name).value / value, 1, 0.15) << name;
  }
  EXPECT_GT(result.reports.front().before.median_abs_pct, 5);
  EXPECT_LT(result.reports.front().after.median_abs_pct, 0.5);
}

TEST(Calibrate, KnowsHowItsConstantsGoTogetherAndWhatItLeftOpen) {
  CalibrateOptions options;
  options.leave_one_out = true;
  options.constants = {"up.start_us", "up.byte_weight"};
  const std::vector<MoeMeasurement> once = made_up_rows({{"up.start_us", 3}, {"up.byte_weight", 1.2}});
  std::vector<MoeMeasurement> rows = once;  // twice, so that either model alone is enough for a fit
  rows.insert(rows.end(), once.begin(), once.end());
  const CalibrationResult result = calibrate(rows, {}, load_hardware("h200"), options);
  ASSERT_THAT(result.calibration.implementations, SizeIs(1));
  const Implementation& implementation = result.calibration.implementations.front();
  ASSERT_THAT(implementation.constants, SizeIs(2));
  ASSERT_THAT(implementation.correlation, SizeIs(1));
  EXPECT_LT(implementation.correlation.front(), 0);  // a longer start or dearer bytes: either explains a longer time
  const std::string text = calibration_text(result.calibration);
  EXPECT_EQ(calibration_text(parse_calibration(text, "overlay.json")), text);

  // The made-up times follow the constants, so that little is left open, but much without them.
  const ErrorClass all = {.strategy = "", .weights = "", .band = "", .whole = true};
  const ResidualCell* const held_out = find_cell(result.calibration.residuals.held_out, all);
  const ResidualCell* const alone = find_cell(result.calibration.residuals.device_alone, all);
  ASSERT_NE(held_out, nullptr);
  ASSERT_NE(alone, nullptr);
  EXPECT_LT(std::abs(held_out->quantiles[2]), 0.02);
  EXPECT_GT(alone->quantiles[2], 0.05);
  ASSERT_TRUE(result.left_out && result.left_out->coverage);
  EXPECT_GT(result.left_out->coverage->overall.rows, 5);
}

TEST(Calibrate, LeavesOutWhatNoRowDependsOn) {
  std::vector<MoeMeasurement> rows = made_up_rows({{"up.start_us", 3}, {"up.byte_weight", 1.2}});
  std::erase_if(rows, [](const MoeMeasurement& row) { return row.stage != "gemm1"; });
  while (rows.size() < 12) rows.push_back(rows[rows.size() % 4]);
  const CalibrationResult result = fitted_to(rows);
  EXPECT_THAT(result.reports.front().left_out, Contains(HasSubstr("down.start_us")));
  ASSERT_THAT(result.calibration.implementations, SizeIs(1));
  for (const auto& [name, constant] : result.calibration.implementations.front().constants) {
    EXPECT_THAT(name, Not(HasSubstr("down.")));
    EXPECT_GT(constant.value, 0);
  }
}

TEST(Calibrate, RefusesWithTooFewRows) {
  std::vector<MoeMeasurement> rows = made_up_rows({});
  rows.resize(5);
  const CalibrationResult result = fitted_to(rows);
  EXPECT_THAT(result.calibration.implementations, IsEmpty());
  EXPECT_THAT(result.reports.front().refused, HasSubstr("5 rows"));
}

}  // namespace
}  // namespace moesim
