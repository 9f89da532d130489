// moesim validate, on a small file of measurements made here.
#include <fmt/format.h>
#include <gmock/gmock.h>

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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

struct Row {
  std::string device = "h200";
  std::string model = "mixtral-8x7b";
  std::string strategy = "grouped_gemm";
  std::string stage = "total";
  double us = 340;
  double p90_us = 344;
  int tp = 1;
  std::string implementation = "made-up";
  bool power_capped = false;
};

// Rows of one routing: two tokens on four experts.
std::string measurements(const std::vector<Row>& rows) {
  npy_file("routes.npy", "1, 2, 2", {0, 1, 2, 3});
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format(
        R"({{"schema": "moesim.measurement/2", "kind": "moe", "device": "{}", "model": {{"name": "{}", "hidden": 4096,)"
        R"( "intermediate": 14336, "experts": 8, "topk": 2, "gated": true}}, "tp": {}, "ep": 1, "weights": "bf16",)"
        R"( "activations": "bf16", "tokens": 2, "routing": "uniform", "routed_trace": "routes.npy",)"
        R"( "mean_active_experts": 4, "strategy": "{}", "implementation": {{"name": "{}"}}, "launch": "graph",)"
        R"( "scope": "expert_ffn", "stage": "{}", "us": {}, "p90_us": {}, "power_capped": {}}})"
        "\n",
        row.device, row.model, row.tp, row.strategy, row.implementation, row.stage, row.us, row.p90_us,
        row.power_capped);
  }
  return temp_file("measurements.jsonl", text);
}

std::string output_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "validate");
  return successful_output(arguments);
}

json json_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "validate");
  return successful_json(std::move(arguments));
}

void expect_summary(const json& summary, int count) {
  EXPECT_EQ(summary.at("count"), count);
  for (const char* key : {"mean_abs_pct", "median_abs_pct", "p95_abs_pct", "bias_pct", "max_abs_pct"}) {
    EXPECT_EQ(summary.at(key).is_number(), count > 0) << key;
  }
}

TEST(Validate, JsonHasTheKeysOfTheContract) {
  const std::string file = measurements({{}, {.strategy = "stream_gemv"}, {.stage = "act", .us = 3}});
  const json result = json_of({"--measurements", file, "--uncalibrated"});
  expect_summary(result.at("overall"), 2);
  expect_summary(result.at("by_strategy").at("grouped_gemm"), 1);
  expect_summary(result.at("by_strategy_dtype").at("stream_gemv/bf16"), 1);
  expect_summary(result.at("by_band").at("1-8"), 2);
  expect_summary(result.at("by_stage").at("total"), 2);
  expect_summary(result.at("by_implementation").at("made-up"), 2);
  ASSERT_THAT(result.at("cells"), SizeIs(2));
  EXPECT_EQ(result.at("cells")[0].at("strategy"), "grouped_gemm");
  EXPECT_EQ(result.at("cells")[0].at("weights"), "bf16");
  EXPECT_EQ(result.at("cells")[0].at("band"), "1-8");
  EXPECT_EQ(result.at("cells")[0].at("scope"), "expert_ffn");
  expect_summary(result.at("cells")[0].at("ours"), 1);
  expect_summary(result.at("cells")[0].at("floor"), 1);
  expect_summary(result.at("in_range"), 0);
  expect_summary(result.at("out_of_range"), 2);
  expect_summary(result.at("small_rows"), 1);
  expect_summary(result.at("floor"), 2);
  EXPECT_EQ(result.at("choice").at("cells"), 1);
  EXPECT_TRUE(result.at("choice").at("right_share").is_number());
  EXPECT_TRUE(result.at("choice").at("mean_regret_pct").is_number());
  ASSERT_THAT(result.at("worst"), SizeIs(2));
  EXPECT_GE(std::abs(result.at("worst")[0].at("error_pct").get<double>()),
            std::abs(result.at("worst")[1].at("error_pct").get<double>()));
  EXPECT_EQ(result.at("device").at("name"), "h200");
  EXPECT_EQ(result.at("calibration"), "uncalibrated");
  EXPECT_EQ(result.at("below_bound"), 0);
}

TEST(Validate, TheDevicesOverlayIsTheDefault) {
  const std::string file = measurements({{.implementation = "triton-grouped"}, {.strategy = "stream_gemv"}});
  const json result = json_of({"--measurements", file});
  EXPECT_THAT(result.at("calibration").get<std::string>(), StartsWith("calibrated by h200.json"));
  expect_summary(result.at("in_range"), 1);
  expect_summary(result.at("out_of_range"), 1);
  EXPECT_EQ(result.at("implementations")[0].at("fitted"), true);
  EXPECT_EQ(result.at("implementations")[1].at("implementation"), "made-up");
  EXPECT_EQ(result.at("implementations")[1].at("fitted"), false);
  EXPECT_THAT(output_of({"--measurements", file}), HasSubstr("no fit to this implementation"));

  const std::vector<std::string> generic = {"--measurements", file, "--strategy", "stream_gemv"};
  std::vector<std::string> uncalibrated = generic;
  uncalibrated.emplace_back("--uncalibrated");
  EXPECT_EQ(json_of(generic).at("overall"), json_of(uncalibrated).at("overall"));
}

TEST(Validate, PowerCappedRowsStandApart) {
  const json result = json_of({"--measurements", measurements({{}, {.us = 330}, {.power_capped = true}})});
  expect_summary(result.at("power_capped"), 1);
  expect_summary(result.at("not_power_capped"), 2);
}

TEST(Validate, DecidedCellsAreThoseBeyondTheSpread) {
  const json near =
      json_of({"--measurements", measurements({{}, {.strategy = "stream_gemv", .us = 345, .p90_us = 350}})});
  EXPECT_EQ(near.at("choice").at("cells"), 1);
  EXPECT_EQ(near.at("choice").at("decided").at("cells"), 0);
  EXPECT_TRUE(near.at("choice").at("decided").at("right_share").is_null());
  const json far =
      json_of({"--measurements", measurements({{}, {.strategy = "stream_gemv", .us = 400, .p90_us = 404}})});
  EXPECT_EQ(far.at("choice").at("decided").at("cells"), 1);
}

TEST(Validate, ImplementationsOfOneStrategyAreNoRivals) {
  const json result = json_of({"--measurements", measurements({{}, {.us = 400, .implementation = "another"}})});
  EXPECT_EQ(result.at("choice").at("cells"), 0);
}

// Twelve rows each of two models, whose times differ from the simulated ones by the same 5 us.
std::vector<Row> rows_of_two_models(int tp_of_second = 1) {
  std::vector<Row> rows;
  for (int i = 0; i < 24; ++i) {
    Row row{.strategy = "stream_gemv", .stage = i % 3 == 0 ? "gemm1" : i % 3 == 1 ? "gemm2" : "total"};
    row.us = i % 3 == 0 ? 250 : i % 3 == 1 ? 130 : 380;
    if (i >= 12) row.model = "second";
    if (i >= 12) row.tp = tp_of_second;
    rows.push_back(row);
  }
  return rows;
}

TEST(Validate, LeaveOneOutFitsToTheOtherModels) {
  const std::string file = measurements(rows_of_two_models());
  const json result = json_of({"--measurements", file, "--leave-one-out"});
  EXPECT_THAT(result.at("calibration").get<std::string>(), HasSubstr("other models"));
  EXPECT_EQ(result.at("overall").at("count"), 24);
  EXPECT_EQ(result.at("in_range").at("count"), 24);
  EXPECT_LT(result.at("overall").at("median_abs_pct"), result.at("uncalibrated").at("overall").at("median_abs_pct"));
  EXPECT_EQ(json_of({"--measurements", file, "--leave-out", "model"}), result);
}

TEST(Validate, CalibrateWritesTheSameTables) {
  const std::string file = measurements(rows_of_two_models());
  const std::string tables = temp_file("tables.md", "");
  ASSERT_EQ(run_moesim({"calibrate", "--measurements", file, "--leave-one-out", "--tables", tables}).exit_code, 0);
  std::ifstream written(tables);
  const std::string text{std::istreambuf_iterator<char>(written), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, run_moesim({"validate", "--measurements", file, "--leave-one-out", "--format", "markdown"}).output);
  EXPECT_THAT(text, HasSubstr("<!-- table: implementations -->"));
}

TEST(Validate, LeaveOutShardPredictsShardsFromWholeModels) {
  const json result = json_of({"--measurements", measurements(rows_of_two_models(2)), "--leave-out", "shard"});
  EXPECT_EQ(result.at("overall").at("count"), 12);
  for (const json& row : result.at("worst")) EXPECT_EQ(row.at("tp"), 2);
}

TEST(Validate, MarkdownHasEachTableBetweenMarkers) {
  const std::string text =
      output_of({"--measurements", measurements({{}, {.strategy = "stream_gemv"}}), "--format", "markdown"});
  for (const char* table : {"implementations", "cells", "groups", "choice", "worst"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format("<!-- table: {} -->\n| ", table)));
  }
}

TEST(Validate, WrongLeaveOut) {
  const std::string one = measurements({{}});
  const auto complaint = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"validate", "--measurements", one});
    const CommandOutput run = run_moesim(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.output;
    return run.errors;
  };
  EXPECT_THAT(complaint({"--leave-one-out"}), HasSubstr("rows of one model"));
  EXPECT_THAT(complaint({"--leave-out", "shard"}), HasSubstr("no row of a shard"));
  EXPECT_THAT(complaint({"--leave-out", "shrad"}), AllOf(HasSubstr("model or shard"), HasSubstr("'shard'")));
  EXPECT_THAT(complaint({"--leave-one-out", "--leave-out", "model"}), HasSubstr("one of the two"));
  EXPECT_THAT(complaint({"--leave-one-out", "--uncalibrated"}), HasSubstr("--uncalibrated"));
  EXPECT_THAT(complaint({"--leave-one-out", "--calibration", "overlay.json"}), HasSubstr("--calibration"));
  EXPECT_THAT(complaint({"--leave-one-out", "--vary-assumed"}), HasSubstr("--vary-assumed"));
  EXPECT_THAT(complaint({"--format", "markdwon"}), HasSubstr("'markdown'"));
}

TEST(Validate, ErrorsAreOfMeasuredTime) {
  const json low = json_of({"--measurements", measurements({{.us = 1000}})});
  const double error = low.at("worst")[0].at("error_pct").get<double>();
  EXPECT_NEAR(error, (low.at("worst")[0].at("simulated_us").get<double>() / 1000 - 1) * 100, 1e-3);
  EXPECT_LT(error, 0);
  EXPECT_DOUBLE_EQ(low.at("overall").at("bias_pct").get<double>(), error);
  EXPECT_DOUBLE_EQ(low.at("overall").at("median_abs_pct").get<double>(), -error);
}

TEST(Validate, RowsOfOtherDevicesAreCountedAndLeftOut) {
  const std::string file = measurements({{}, {.device = "NVIDIA H200"}, {.device = "b200"}});
  const json result = json_of({"--measurements", file, "--device", "h200"});
  EXPECT_EQ(result.at("rows_in_file"), 3);
  EXPECT_EQ(result.at("rows_of_other_devices"), 1);  // an alias is the same device
  EXPECT_EQ(result.at("overall").at("count"), 2);
}

TEST(Validate, FiltersSayWhatTheyLeftOut) {
  const std::string file = measurements({{}, {.strategy = "stream_gemv"}, {.model = "another"}});
  const json result =
      json_of({"--measurements", file, "--models", "mixtral-8x7b", "--strategy", "stream_gemv", "--max-tokens", "64"});
  EXPECT_EQ(result.at("overall").at("count"), 1);
  EXPECT_EQ(result.at("rows_filtered"), 2);
  EXPECT_THAT(result.at("filters"), ElementsAre("--models mixtral-8x7b", "--strategy stream_gemv", "--max-tokens 64"));
}

TEST(Validate, NothingLeftIsNoErrorOfZero) {
  const std::string file = measurements({{}});
  const json result = json_of({"--measurements", file, "--max-tokens", "1"});
  expect_summary(result.at("overall"), 0);
  EXPECT_EQ(result.at("choice").at("cells"), 0);
  EXPECT_TRUE(result.at("choice").at("right_share").is_null());
  const std::string table = output_of({"--measurements", file, "--max-tokens", "1"});
  EXPECT_THAT(table, AllOf(HasSubstr("rows                        0         -"), Not(HasSubstr("by strategy"))));
}

TEST(Validate, UnknownStrategiesAreSkippedWithTheReason) {
  const json result = json_of({"--measurements", measurements({{}, {.strategy = "warp_magic"}})});
  EXPECT_EQ(result.at("overall").at("count"), 1);
  ASSERT_THAT(result.at("skipped"), SizeIs(1));
  EXPECT_THAT(result.at("skipped")[0].get<std::string>(), AllOf(HasSubstr(":2: "), HasSubstr("warp_magic")));
  EXPECT_THAT(output_of({"--measurements", measurements({{}, {.strategy = "warp_magic"}})}), HasSubstr("skipped\n"));
}

TEST(Validate, TableSetsTheFloorBesideOurs) {
  const std::string table =
      output_of({"--measurements", measurements({{}, {.strategy = "stream_gemv"}, {.stage = "act", .us = 3}})});
  for (const char* text : {"ours median %", "floor median %", "by strategy", "by tokens", "by stage", "worst rows",
                           "choice of strategy", "rows below 10 µs", "below bound   0 predictions"}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
}

TEST(Validate, AssumedConstantsAreVaried) {
  const std::string table = output_of({"--measurements", measurements({{}}), "--vary-assumed"});
  for (const char* text : {"x 0.7", "as assumed", "x 1.3", "llc.fill_weight = 0.5", "grouped_gemm"}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
}

TEST(Validate, ComparesTwoStrategiesOverTokens) {
  const std::string file = measurements({{.us = 300, .implementation = "triton-grouped"},
                                         {.strategy = "stream_gemv", .us = 330, .implementation = "triton-stream-gemv"},
                                         {.strategy = "stream_gemv", .us = 280}});
  const std::vector<std::string> compare = {"--measurements", file, "--compare-strategies"};
  const auto with = [&](const std::string& two) {
    std::vector<std::string> arguments = compare;
    arguments.push_back(two);
    return arguments;
  };
  const json result = json_of(with("stream_gemv,grouped_gemm"));
  ASSERT_THAT(result.at("curves"), SizeIs(1));
  const json& point = result.at("curves")[0].at("points")[0];
  EXPECT_EQ(point.at("one").at("implementation"), "made-up");
  EXPECT_NEAR(point.at("measured_ratio").get<double>(), 280.0 / 300, 1e-5);
  EXPECT_NEAR(point.at("simulated_ratio").get<double>(),
              point.at("one").at("simulated_us").get<double>() / point.at("other").at("simulated_us").get<double>(),
              1e-4);
  EXPECT_TRUE(point.at("confidence").is_null());  // nobody fitted the made-up one

  const json fitted = json_of(with("stream_gemv:implementation=triton-stream-gemv,grouped_gemm"));
  EXPECT_EQ(fitted.at("one"), "triton-stream-gemv");
  EXPECT_NEAR(fitted.at("curves")[0].at("points")[0].at("measured_ratio").get<double>(), 1.1, 1e-5);
  EXPECT_GE(fitted.at("curves")[0].at("points")[0].at("confidence").get<double>(), 0.5);
  EXPECT_EQ(fitted.at("curves")[0].at("measured_other_clear_from"), 2);
  EXPECT_THAT(output_of(with("stream_gemv,grouped_gemm")),
              HasSubstr("measured: stream_gemv at least 5 % ahead up to 2"));
  std::vector<std::string> csv = with("stream_gemv,grouped_gemm");
  csv.insert(csv.end(), {"--format", "csv"});
  EXPECT_THAT(output_of(csv), StartsWith("model,weights,"));

  for (const char* wrong : {"stream_gemv", "stream_gemv,grouped_gem", "stream_gemv,auto", "stream_gemv,gather_gemv",
                            "stream_gemv,grouped_gemm:block_m=32"}) {
    std::vector<std::string> arguments = with(wrong);
    arguments.insert(arguments.begin(), "validate");
    const CommandOutput run = run_moesim(arguments);
    EXPECT_EQ(run.exit_code, 2) << wrong << run.output;
    EXPECT_THAT(run.output, testing::IsEmpty());
  }
}

TEST(Validate, CsvHasARowPerMeasurementInFileOrder) {
  const std::string csv =
      output_of({"--measurements", measurements({{}, {.stage = "act", .us = 3}, {.strategy = "stream_gemv"}}),
                 "--format", "csv"});
  EXPECT_THAT(csv, StartsWith("line,model,"));
  EXPECT_THAT(csv, AllOf(HasSubstr("\n1,mixtral"), HasSubstr("\n2,mixtral"), HasSubstr("\n3,mixtral")));
  EXPECT_LT(csv.find("\n2,"), csv.find("\n3,"));
}

}  // namespace
}  // namespace moesim
