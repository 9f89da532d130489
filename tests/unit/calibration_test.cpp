// Calibration overlays: what is written is what is read, and wrong ones are errors that name the place.
#include "hwmodels/calibration.h"

#include <gmock/gmock.h>

#include <string>

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
  calibration.data = "measurements.jsonl \"of May\"";
  calibration.models = {"mixtral-8x7b", "olmoe"};
  Implementation& grouped = calibration.implementations.emplace_back();
  grouped.name = "triton-grouped";
  grouped.strategy = "grouped_gemm";
  grouped.weights = "bf16";
  grouped.rows = 40;
  grouped.most_tokens = 64;
  grouped.constants = {{"up.start_us", {1.25, 0.1}}, {"down.byte_weight", {1.062, 0.02}}};
  grouped.held_out = {30, 1.5, 8.25, -0.5};
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
  EXPECT_EQ(read.data, overlay().data);
  const Implementation* grouped = read.find("triton-grouped", "bf16");
  ASSERT_NE(grouped, nullptr);
  EXPECT_EQ(grouped, read.of_strategy("grouped_gemm", "bf16"));
  EXPECT_EQ(grouped->values(), overlay().implementations.front().values());
  EXPECT_EQ(grouped->held_out.p95, 8.25);
  EXPECT_EQ(read.find("triton-grouped", "mxfp4"), nullptr);
  EXPECT_EQ(read.find("another", "bf16"), nullptr);
}

TEST(CalibrationOverlay, NameSaysWhetherTheDeviceFileIsAnother) {
  const HardwareModel hardware = load_hardware("h200");
  Calibration calibration = overlay();
  calibration.file = "overlay.json";
  EXPECT_THAT(calibration_name(calibration, hardware), HasSubstr("another version"));
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
  EXPECT_THAT(error_of(text.substr(0, text.size() / 2)), HasSubstr("overlay.json"));
}

TEST(CalibrationOverlay, ByteWeightsBelowOneAreWrong) {
  EXPECT_THAT(error_of(replaced(calibration_text(overlay()), "1.062", "0.5")), HasSubstr("byte_weight"));
}

}  // namespace
}  // namespace moesim
