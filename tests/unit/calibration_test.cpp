// Calibration overlays: what is written is what is read, and wrong ones are errors that name the place.
#include "hwmodels/calibration.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Calibration overlay() {
  Calibration calibration;
  calibration.device = "h200";
  calibration.device_hash = "0123456789abcdef";
  calibration.data = {{"may/\"first\".jsonl", "fedcba9876543210"}, {"june/second.jsonl", "0011223344556677"}};
  calibration.filters = {"--max-tokens 64"};
  calibration.date = "2026-11-29";
  calibration.models = {"mixtral-8x7b", "olmoe"};
  Implementation& grouped = calibration.implementations.emplace_back();
  grouped.name = "triton-grouped";
  grouped.strategy = "grouped_gemm";
  grouped.weights = "bf16";
  grouped.rows = 40;
  grouped.most_tokens = 64;
  grouped.constants = {{"up.start_us", {1.25, 0.1}}, {"down.byte_weight", {1.062, 0.02}}};
  grouped.correlation = {-0.375};
  grouped.held_out = {30, 1.5, 8.25, -0.5};
  grouped.held_out_by_band[1] = {12, 1.25, 7.5, 0.5};
  Implementation& persistent = calibration.implementations.emplace_back(grouped);
  persistent.name = "our-grouped";
  persistent.variant = "persistent=1";
  persistent.constants.clear();
  persistent.correlation.clear();
  persistent.no_fit = "none of its constants explains the rows";
  std::vector<Residual> residuals;
  for (int i = 0; i < 25; ++i) {
    const double residual = 0.01 * (i - 12);
    residuals.push_back({error_class("grouped_gemm", "bf16", 4, 50, i % 5 > 0), residual, 0.0004});
  }
  calibration.residuals = {
      .held_out = residual_cells(residuals), .device_alone = residual_cells(residuals), .strategy_correlation = 0.25};
  return calibration;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    parse_calibration(text, "overlay.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CalibrationOverlay, ReadsWhatItWrites) {
  const std::string text = calibration_text(overlay());
  const Calibration read = parse_calibration(text, "overlay.json");
  EXPECT_EQ(calibration_text(read), text);
  ASSERT_EQ(read.data.size(), 2U);
  EXPECT_EQ(read.data[0].file, overlay().data[0].file);
  EXPECT_EQ(read.data[1].hash, overlay().data[1].hash);
  EXPECT_EQ(read.filters, overlay().filters);
  EXPECT_EQ(read.date, "2026-11-29");
  const Implementation* grouped = read.find("triton-grouped", "bf16");
  ASSERT_NE(grouped, nullptr);
  EXPECT_EQ(grouped, read.of_strategy("grouped_gemm", "", "bf16"));
  const Implementation* persistent = read.of_strategy("grouped_gemm", "persistent=1", "bf16");
  ASSERT_NE(persistent, nullptr);
  EXPECT_EQ(persistent->name, "our-grouped");
  EXPECT_EQ(persistent->no_fit, "none of its constants explains the rows");
  EXPECT_EQ(grouped->values(), overlay().implementations.front().values());
  EXPECT_EQ(grouped->correlation, std::vector<double>{-0.375});
  EXPECT_EQ(grouped->held_out.p95, 8.25);
  EXPECT_EQ(grouped->held_out_by_band[0].rows, 0);
  EXPECT_EQ(grouped->held_out_by_band[1].rows, 12);
  EXPECT_EQ(grouped->held_out_by_band[1].bias, 0.5);
  EXPECT_EQ(read.find("triton-grouped", "mxfp4"), nullptr);
  EXPECT_EQ(read.find("another", "bf16"), nullptr);
}

TEST(CalibrationOverlay, ResidualsComeBackToFourDigits) {
  const Calibration written = overlay();
  const Calibration read = parse_calibration(calibration_text(written), "overlay.json");
  ASSERT_EQ(read.residuals.held_out.size(), written.residuals.held_out.size());
  for (const ResidualCell& cell : written.residuals.held_out) {
    const ResidualCell* const found = find_cell(read.residuals.held_out, cell.of);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->rows, cell.rows);
    for (std::size_t q = 0; q < cell.quantiles.size(); ++q) EXPECT_NEAR(found->quantiles[q], cell.quantiles[q], 1e-3);
    EXPECT_NEAR(found->parameter_variance, cell.parameter_variance, 1e-7);
  }
  EXPECT_EQ(read.residuals.strategy_correlation, 0.25);
}

TEST(CalibrationOverlay, ResidualsMayBeAbsentAndWrongOnesNameThePlace) {
  const std::string text = calibration_text(overlay());
  const Calibration before = parse_calibration(text.substr(0, text.find(",\n  \"residuals\"")) + "}", "overlay.json");
  EXPECT_TRUE(before.residuals.held_out.empty());
  EXPECT_THAT(error_of(replaced(text, "-0.375", "-0.375, 0.5")), HasSubstr("/implementations/0/correlation"));
  EXPECT_THAT(error_of(replaced(text, "\"p5\": ", "\"p5\": 5")), HasSubstr("/residuals/held_out/layers/0/p25"));
  EXPECT_THAT(error_of(replaced(text, "\"tokens\": \"1-8\"", "\"tokens\": \"1-9\"")), HasSubstr("65-1024"));
  EXPECT_THAT(error_of(replaced(text, "\"strategy_correlation\": 0.25", "\"strategy_correlation\": 1.25")),
              HasSubstr("/residuals/strategy_correlation"));
}

TEST(CalibrationOverlay, AMovedConstantStaysWhatItCanBe) {
  const Calibration calibration = overlay();
  const Implementation& grouped = calibration.implementations.front();
  EXPECT_EQ(grouped.with("down.byte_weight", 0.5).constants.at("down.byte_weight").value, 1);
  EXPECT_EQ(grouped.with("up.start_us", 0.5).constants.at("up.start_us").value, 0.5);
}

TEST(CalibrationOverlay, NameSaysWhetherTheDeviceFileIsAnother) {
  const HardwareModel hardware = load_hardware("h200");
  Calibration calibration = overlay();
  calibration.file = "overlay.json";
  EXPECT_THAT(calibration_name(calibration, hardware),
              AllOf(HasSubstr("fitted 2026-11-29"), HasSubstr("another version")));
  calibration.device_hash = hardware.hash;
  EXPECT_THAT(calibration_name(calibration, hardware), AllOf(HasSubstr("overlay.json"), Not(HasSubstr("another"))));
}

TEST(CalibrationOverlay, WrongOnesNameThePlace) {
  const std::string text = calibration_text(overlay());
  EXPECT_THAT(error_of(replaced(text, "up.start_us", "up.start_ms")),
              AllOf(HasSubstr("/implementations/0/constants"), HasSubstr("up.start_us")));
  EXPECT_THAT(error_of(replaced(text, "1.25", "-1.25")), HasSubstr("/implementations/0/constants/up.start_us/value"));
  EXPECT_THAT(error_of(replaced(text, "calibration/1", "calibration/9")), HasSubstr("moesim.calibration/1"));
  EXPECT_THAT(error_of(replaced(text, "\"models\"", "\"model\"")), HasSubstr("models"));
  EXPECT_THAT(error_of(replaced(text, "\"9-64\"", "\"9-65\"")),
              AllOf(HasSubstr("/implementations/0/held_out/by_band"), HasSubstr("9-64")));
  EXPECT_THAT(error_of(text.substr(0, text.size() / 2)), HasSubstr("overlay.json"));
}

TEST(CalibrationOverlay, CommittedOnesBelongToTheirDeviceFile) {
  int overlays = 0;
  for (const std::string& name : device_names()) {
    const std::optional<Calibration> calibration = calibration_of_device(name);
    if (!calibration) continue;
    ++overlays;
    EXPECT_EQ(calibration->device, name);
    EXPECT_EQ(calibration->device_hash, load_hardware(name).hash) << "fit anew: tools/calibrate_" << name;
    EXPECT_FALSE(calibration->date.empty());
    EXPECT_FALSE(calibration->data.empty());
    EXPECT_FALSE(calibration->residuals.held_out.empty());
    EXPECT_FALSE(calibration->residuals.device_alone.empty());
    for (const Implementation& implementation : calibration->implementations) {
      EXPECT_GT(implementation.rows, 0) << implementation.name;
      EXPECT_GT(implementation.held_out.rows, 0) << implementation.name;
      EXPECT_EQ(implementation.constants.empty(), !implementation.no_fit.empty()) << implementation.name;
      const std::size_t constants = implementation.constants.size();
      EXPECT_EQ(implementation.correlation.size() * 2, constants * (constants - (constants > 0 ? 1 : 0)));
    }
  }
  EXPECT_GE(overlays, 1);
  EXPECT_FALSE(calibration_of_device("no such device"));
}

TEST(CalibrationOverlay, H200KnowsTheKernelsThatRanOnIt) {
  const std::optional<Calibration> calibration = calibration_of_device("h200");
  ASSERT_TRUE(calibration);
  for (const char* name :
       {"triton-grouped", "triton-stream-gemv", "torch-grouped-mm", "torch-mm-loop", "torch-index-select-bmm",
        "cuda-grouped", "cuda-stream-gemv", "cuda-stream-block", "cuda-gather-gemv", "cublas-loop"}) {
    EXPECT_NE(calibration->find(name, "bf16"), nullptr) << name;
  }
  ASSERT_NE(calibration->of_strategy("stream_gemv", "", "bf16"), nullptr);
  EXPECT_EQ(calibration->of_strategy("stream_gemv", "", "bf16")->name, "triton-stream-gemv");
  EXPECT_EQ(calibration->of_strategy("stream_gemv", "persistent=1", "bf16")->name, "cuda-stream-gemv");
}

TEST(CalibrationOverlay, ByteWeightsBelowOneAreWrong) {
  EXPECT_THAT(error_of(replaced(calibration_text(overlay()), "1.062", "0.5")), HasSubstr("byte_weight"));
}

}  // namespace
}  // namespace moesim
