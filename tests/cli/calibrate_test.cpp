// moesim calibrate, and what --calibration does with its overlay.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// One routing; rows of one implementation: its two kernels and the whole in turn.
std::string measurements(int rows) {
  struct Stage {
    const char* name;
    double us;
  };
  constexpr Stage kStages[] = {{"gemm1", 250}, {"gemm2", 130}, {"total", 380}};
  npy_file("routes.npy", "1, 2, 2", {0, 1, 2, 3});
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const Stage& stage = kStages[i % 3];
    text += fmt::format(
        R"({{"schema": "moesim.measurement/2", "kind": "moe", "device": "h200", "model": {{"name": "small", "hidden":)"
        R"( 4096, "intermediate": 14336, "experts": 8, "topk": 2, "gated": true}}, "tp": 1, "ep": 1, "weights":)"
        R"( "bf16", "activations": "bf16", "tokens": 2, "routing": "uniform", "routed_trace": "routes.npy",)"
        R"( "mean_active_experts": 4, "strategy": "stream_gemv", "implementation": {{"name": "ours"}}, "launch":)"
        R"( "graph", "scope": "expert_ffn", "stage": "{}", "us": {}}})"
        "\n",
        stage.name, stage.us);
  }
  return temp_file("measurements.jsonl", text);
}

TEST(Calibrate, OverlayBringsPredictionsToTheRows) {
  const std::string rows = measurements(12);
  const std::string overlay = temp_file("overlay.json", "");
  const CommandOutput fit = run_moesim({"calibrate", "--measurements", rows, "--out", overlay});
  ASSERT_EQ(fit.exit_code, 0) << fit.errors;
  EXPECT_THAT(fit.errors, IsEmpty());
  EXPECT_THAT(fit.output, AllOf(HasSubstr("condition"), HasSubstr("up."), HasSubstr("standard error")));
  EXPECT_FALSE(std::filesystem::exists(overlay + ".part"));

  const json before = successful_json({"validate", "--measurements", rows, "--uncalibrated"});
  const json after = successful_json({"validate", "--measurements", rows, "--calibration", overlay});
  EXPECT_GT(before.at("overall").at("mean_abs_pct"), 4);
  EXPECT_LT(after.at("overall").at("mean_abs_pct"), 2);
  EXPECT_EQ(before.at("calibration"), "uncalibrated");
  EXPECT_THAT(after.at("calibration").get<std::string>(), HasSubstr("overlay.json"));
  EXPECT_EQ(after.at("in_range").at("count"), 12);
  EXPECT_EQ(after.at("out_of_range").at("count"), 0);

  const std::vector<std::string> run = {
      "run",       "--model", "mixtral-8x7b",  "--concurrency", "2", "--strategy", "stream_gemv,grouped_gemm",
      "--samples", "1",       "--calibration", overlay};
  EXPECT_THAT(run_moesim(run).output, AllOf(HasSubstr("stream_gemv as ours"), HasSubstr("grouped_gemm†"),
                                            HasSubstr("overlay for grouped_gemm")));
}

TEST(Calibrate, OverlayNamesItsDataAndDate) {
  const std::string rows = measurements(12);
  const std::string overlay = temp_file("overlay.json", "");
  ASSERT_EQ(run_moesim({"calibrate", "--measurements", rows, "--date", "2026-02-28", "--out", overlay}).exit_code, 0);
  const json fitted = json::parse(bytes_of(overlay)).at("fitted");
  EXPECT_EQ(fitted.at("date"), "2026-02-28");
  EXPECT_THAT(fitted.at("data")[0].at("file").get<std::string>(), HasSubstr("/measurements.jsonl"));
  EXPECT_EQ(fitted.at("data")[0].at("hash").get<std::string>().size(), 16U);
  const json after = successful_json({"validate", "--measurements", rows, "--calibration", overlay});
  EXPECT_THAT(after.at("calibration").get<std::string>(), HasSubstr("fitted 2026-02-28"));
  EXPECT_THAT(after.at("notes")[0].get<std::string>(), HasSubstr("not held out"));
}

TEST(Calibrate, SeveralFilesAreOneFit) {
  const std::string first = measurements(12);
  const std::string second = temp_file("second.jsonl", bytes_of(first));
  const json evaluation = successful_json({"validate", "--measurements", first, "--measurements", second});
  EXPECT_EQ(evaluation.at("overall").at("count"), 24);
  const CommandOutput fit = run_moesim({"calibrate", "--measurements", first, "--measurements", second});
  EXPECT_EQ(fit.exit_code, 0) << fit.errors;
  EXPECT_THAT(fit.output, AllOf(HasSubstr("/measurements.jsonl"), HasSubstr("/second.jsonl"), HasSubstr("24")));
}

TEST(Calibrate, SameRowsSameBytes) {
  const std::string rows = measurements(12);
  const std::string first = temp_file("first.json", ""), second = temp_file("second.json", "");
  for (const std::string& overlay : {first, second}) {
    ASSERT_EQ(run_moesim({"calibrate", "--measurements", rows, "--out", overlay}).exit_code, 0);
  }
  EXPECT_EQ(bytes_of(first), bytes_of(second));
}

TEST(Calibrate, TooFewRowsWriteNothing) {
  const std::string rows = measurements(5);
  const std::string overlay = rows.substr(0, rows.rfind('/')) + "/overlay.json";
  const CommandOutput fit = run_moesim({"calibrate", "--measurements", rows, "--out", overlay});
  EXPECT_EQ(fit.exit_code, 3);
  EXPECT_THAT(fit.output, HasSubstr("5 rows, and a fit needs 12"));
  EXPECT_FALSE(std::filesystem::exists(overlay));
  EXPECT_FALSE(std::filesystem::exists(overlay + ".part"));
}

TEST(Calibrate, WrongInput) {
  const std::string rows = measurements(12);
  const std::string overlay =
      temp_file("overlay.json", R"({"schema": "moesim.calibration/1", "device": "b200", "device_hash": "", "fitted":)"
                                R"( {"date": "", "data": [], "filters": [], "models": []}, "implementations": []})");
  const auto complaint = [](const std::vector<std::string>& arguments) {
    const CommandOutput run = run_moesim(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_THAT(run.output, IsEmpty());
    return run.errors;
  };
  EXPECT_THAT(complaint({"validate", "--measurements", rows, "--calibration", overlay}),
              AllOf(HasSubstr("overlay.json"), HasSubstr("'b200'"), HasSubstr("'h200'")));
  EXPECT_THAT(complaint({"run", "--calibration", overlay, "--uncalibrated"}), HasSubstr("--uncalibrated"));
  EXPECT_THAT(complaint({"calibrate", "--measurements", rows, "--out", "/no/such/folder/overlay.json"}),
              AllOf(HasSubstr("--out"), HasSubstr("/no/such/folder")));
  EXPECT_THAT(complaint({"calibrate"}), HasSubstr("--measurements"));
  EXPECT_THAT(complaint({"calibrate", "--measurements", rows, "--tables", overlay}),
              AllOf(HasSubstr("--tables"), HasSubstr("--leave-one-out")));
  EXPECT_THAT(complaint({"calibrate", "--measurements", rows, "--measurements", rows}), HasSubstr("twice"));
  for (const char* date : {"yesterday", "2026-02-30", "2026-2-3", "2026-11-29x", ""}) {
    EXPECT_THAT(complaint({"calibrate", "--measurements", rows, "--date", date}), HasSubstr("--date")) << date;
  }
}

}  // namespace
}  // namespace moesim
