// `run --uncertainty`, `sensitivity` and `validate --coverage` as a user runs them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::vector<std::string> kBf16 = {"run", "--model", "qwen3-30b-a3b", "--samples", "2", "--uncertainty"};

json rows_of(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return successful_json(arguments);
}

TEST(RunUncertainty, BarsHoldTheTimesAndProbabilitiesSumToOne) {
  const json study = rows_of(kBf16, {"--concurrency", "1,4"});
  EXPECT_THAT(study["uncertainty"]["residuals_of"], "h200.json");
  for (const int concurrency : {1, 4}) {
    double sum = 0, most = 0, of_winner = 0;
    for (const json& row : study["rows"]) {
      if (row["concurrency"] != concurrency) continue;
      const json& interval = row["interval"];
      EXPECT_LT(interval["p5_us"], interval["p95_us"]) << row;
      EXPECT_GT(interval["residual_rows"], 19);
      const double fastest = interval["fastest_probability"];
      sum += fastest;
      most = std::max(most, fastest);
      if (row["winner"]) of_winner = fastest;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_EQ(of_winner, most);
  }
}

TEST(RunUncertainty, WhatNobodyFittedIsWider) {
  const std::vector<std::string> grouped = {"--concurrency", "4", "--strategy", "grouped_gemm_persistent"};
  const auto width_and_basis = [&](std::vector<std::string> more) {
    more.insert(more.end(), grouped.begin(), grouped.end());
    const json interval = rows_of(kBf16, more)["rows"][0]["interval"];
    return std::pair(interval["half_width_pct"].get<double>(), interval["basis"].get<std::string>());
  };
  const auto [fitted, held_out] = width_and_basis({});
  const auto [alone, not_fitted] = width_and_basis({"--uncalibrated"});
  const auto [elsewhere, other_device] = width_and_basis({"--device", "b200"});
  EXPECT_EQ(held_out, "held_out");
  EXPECT_EQ(not_fitted, "not_fitted");
  EXPECT_EQ(other_device, "not_fitted");
  EXPECT_LT(fitted, alone);
  EXPECT_LT(alone, elsewhere);
}

TEST(RunUncertainty, BeyondTheFitIsSaidAndWider) {
  const json rows = rows_of(kBf16, {"--concurrency", "256,512", "--strategy", "stream_gemv"})["rows"];
  EXPECT_EQ(rows[0]["interval"]["basis"], "held_out");
  EXPECT_EQ(rows[1]["interval"]["basis"], "beyond_fit");
  EXPECT_LT(rows[0]["interval"]["half_width_pct"], rows[1]["interval"]["half_width_pct"]);
}

TEST(RunUncertainty, AutoHasTheBarOfWhatItTook) {
  const json rows = rows_of(kBf16, {"--concurrency", "2", "--strategy", "auto,all"})["rows"];
  ASSERT_EQ(rows[0]["strategy"], "auto");
  EXPECT_TRUE(rows[0]["interval"]["fastest_probability"].is_null());
  const std::string took = rows[0]["picked_samples"].items().begin().key();
  for (const json& row : rows) {
    if (row["strategy"] != took) continue;
    EXPECT_EQ(row["interval"]["half_width_pct"], rows[0]["interval"]["half_width_pct"]);
  }
}

TEST(RunUncertainty, EveryFormatShowsIt) {
  const auto output = [](const std::string& format) {
    return successful_output({"run", "--model", "olmoe-1b-7b", "--samples", "1", "--concurrency", "1,2",
                              "--uncertainty", "--format", format});
  };
  EXPECT_THAT(output("table"), AllOf(HasSubstr("how sure"), HasSubstr("fastest %")));
  EXPECT_THAT(output("csv"), HasSubstr("interval_p5_us,interval_p95_us"));
  EXPECT_THAT(output("svg"), AllOf(HasSubstr("<polygon"), HasSubstr("shaded: p5 to p95")));
}

TEST(RunUncertainty, AStepRestsOnNoFit) {
  const json row = successful_json({"run", "--model", "mixtral-8x7b", "--scope", "step", "--layers", "2",
                                    "--concurrency", "1", "--strategy", "grouped_gemm", "--uncertainty"})["rows"][0];
  EXPECT_EQ(row["interval"]["basis"], "not_fitted");
}

const std::vector<std::string> kSensitivity = {"sensitivity", "--model", "olmoe-1b-7b", "--concurrency",           "2",
                                               "--samples",   "1",       "--strategy",  "grouped_gemm,stream_gemv"};

std::string sensitivity(std::vector<std::string> more) {
  more.insert(more.begin(), kSensitivity.begin(), kSensitivity.end());
  return successful_output(more);
}

TEST(SensitivityCommand, EveryFormatShowsTheLargestFirst) {
  EXPECT_THAT(sensitivity({}), AllOf(HasSubstr("what could change the winner"), HasSubstr("error bars in %")));
  EXPECT_THAT(sensitivity({"--format", "csv"}), StartsWith("constant,group,kind"));
  EXPECT_THAT(sensitivity({"--format", "svg"}), AllOf(StartsWith("<svg"), HasSubstr("</svg>")));
  const json study = json::parse(sensitivity({"--result", "time:stream_gemv", "--format", "json"}));
  EXPECT_EQ(study["schema"], "moesim.sensitivity/1");
  double before = 1e300;
  for (const json& effect : study["effects"]) {
    const double base = study["result"]["time_us"];
    const auto size = [&](const char* end) { return std::abs(std::log(effect[end]["result"].get<double>() / base)); };
    EXPECT_LE(std::max(size("low"), size("high")), before + 1e-4);
    before = std::max(size("low"), size("high"));
  }
}

TEST(SensitivityCommand, SameBytesAgain) {
  EXPECT_EQ(sensitivity({"--format", "json"}), sensitivity({"--format", "json"}));
}

TEST(SensitivityCommand, ARangeReplacesTheUsualOne) {
  const auto row_of = [](const std::string& output) {
    const std::size_t at = output.find("\nhbm.latency,");
    return output.substr(at + 1, output.find('\n', at + 1) - at - 1);
  };
  EXPECT_THAT(row_of(sensitivity({"--format", "csv", "--range", "hbm.latency=50%"})), HasSubstr("\"50 %, --range\""));
  EXPECT_THAT(sensitivity({"--range", "tokens=0"}), Not(HasSubstr("\n  tokens ")));
}

std::string refusal(const std::vector<std::string>& arguments) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_EQ(run.output, "");
  return run.errors;
}

TEST(SensitivityCommand, WrongInputIsOneClearLine) {
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), kSensitivity.begin(), kSensitivity.end());
    return refusal(more);
  };
  EXPECT_THAT(refused({"--result", "leed"}), AllOf(HasSubstr("--result"), HasSubstr("lead")));
  EXPECT_THAT(refused({"--result", "time:gruped_gemm"}), HasSubstr("grouped_gemm"));
  EXPECT_THAT(refused({"--result", "ratio:grouped_gemm"}), HasSubstr("ratio:STRATEGY,STRATEGY"));
  EXPECT_THAT(refused({"--range", "hbm.latncy=5%"}), AllOf(HasSubstr("--range"), HasSubstr("hbm.latency")));
  EXPECT_THAT(refused({"--range", "hbm.latency"}), HasSubstr("LOW..HIGH"));
  EXPECT_THAT(refused({"--range", "hbm.latency=-5%"}), HasSubstr("hbm.latency"));
  EXPECT_THAT(refused({"--range", "hbm.latency=200%"}), HasSubstr("95 %"));
  EXPECT_THAT(refused({"--range", "hbm.latency=1us..2us"}), HasSubstr("350.5 ns"));
  EXPECT_THAT(refused({"--range", "hbm.latency=1..2us"}), HasSubstr("hbm.latency"));
  EXPECT_THAT(refused({"--range", "tokens=1..1e9"}), HasSubstr("1e+06"));
  EXPECT_THAT(refused({"--range", "tokens=1..2.5"}), HasSubstr("whole"));
  EXPECT_THAT(refused({"--range", "routing.duplicates=0..5"}), HasSubstr("0 to 1"));
  EXPECT_THAT(refused({"--range", "routing.skew=0..1000"}), HasSubstr("0 to 10"));
  EXPECT_THAT(refused({"--format", "html"}), HasSubstr("--format"));
  EXPECT_THAT(refusal({"sensitivity", "--concurrency", "1,2"}), HasSubstr("--concurrency"));
  EXPECT_THAT(refusal({"sensitivity", "--strategy", "auto"}), HasSubstr("--strategy"));
  EXPECT_THAT(refusal({"report", "--result", "lead"}), HasSubstr("--sensitivity"));
  EXPECT_THAT(refusal({"report", "--sensitivity", "--strategy", "auto", "--concurrency", "1"}), HasSubstr("by name"));
}

TEST(ValidateCoverage, NeedsAnOverlayThatKnowsResiduals) {
  const std::string rows = std::string(MOESIM_SOURCE_DIR) + "/validation/measured/h200-2026-11-29/measurements.jsonl";
  EXPECT_THAT(refusal({"validate", "--measurements", rows, "--uncalibrated", "--coverage"}), HasSubstr("--coverage"));
  const json shown = successful_json({"validate", "--measurements", rows, "--models", "olmoe", "--strategy",
                                      "grouped_gemm", "--weights", "bf16", "--max-tokens", "2", "--coverage"});
  EXPECT_GT(shown["coverage"]["overall"]["rows"], 3);
  EXPECT_EQ(shown["coverage"]["quantiles_of"], "the overlay");
  EXPECT_GT(shown["coverage"]["by_basis"]["held_out"]["median_half_width_pct"], 0);
}

}  // namespace
}  // namespace moesim
