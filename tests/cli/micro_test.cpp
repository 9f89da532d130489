// validate and calibrate --kind micro.
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
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kTritonSet = MOESIM_SOURCE_DIR "/validation/measured/h200-2026-11-29/micro.jsonl";

std::string nodes() {
  std::string text;
  for (const int ctas : {1, 132, 1056}) {
    text += fmt::format(R"({{"schema": "moesim.measurement/2", "kind": "micro", "device": "h200", "benchmark":)"
                        R"( "graph_node", "ctas": {}, "us": 0.5}})"
                        "\n",
                        ctas);
  }
  return temp_file("nodes.jsonl", text);
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& what) {
  const CommandOutput output = run_moesim(arguments);
  EXPECT_EQ(output.exit_code, 2) << output.output;
  EXPECT_THAT(output.errors, HasSubstr(what));
  EXPECT_THAT(output.output, IsEmpty());
}

TEST(MicroCommand, ValidatesInEachFormat) {
  const json report = successful_json({"validate", "--kind", "micro", "--measurements", kTritonSet});
  EXPECT_EQ(report.at("schema"), "moesim.micro_evaluation/1");
  EXPECT_EQ(report.at("by_benchmark").at("graph_node").at("count"), 7);
  EXPECT_LT(report.at("by_benchmark").at("cold_read_size").at("max_abs_pct"), 10);
  std::int64_t left_out = 0;
  for (const json& group : report.at("left_out")) left_out += group.at("rows").get<std::int64_t>();
  EXPECT_EQ(report.at("overall").at("count").get<std::int64_t>() + left_out, 238);

  const CommandOutput table = run_moesim({"validate", "--kind", "micro", "--measurements", kTritonSet});
  EXPECT_THAT(table.output, HasSubstr("several loads in flight only in part"));
  const CommandOutput csv =
      run_moesim({"validate", "--kind", "micro", "--measurements", kTritonSet, "--format", "csv"});
  EXPECT_EQ(std::count(csv.output.begin(), csv.output.end(), '\n'), 239);
}

TEST(MicroCommand, SetChangesThePrediction) {
  const std::string rows = nodes();
  const auto simulated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"validate", "--kind", "micro", "--measurements", rows};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return successful_json(arguments).at("overall").at("bias_pct").get<double>();
  };
  EXPECT_GT(simulated({"--set", "launch.graph=2us"}), simulated({}) + 100);
}

TEST(MicroCommand, CalibrateWritesSectionsOfADeviceFile) {
  const std::string first = temp_file("first.json", ""), second = temp_file("second.json", "");
  for (const std::string& out : {first, second}) {
    const CommandOutput output =
        run_moesim({"calibrate", "--kind", "micro", "--measurements", kTritonSet, "--device", "h200", "--out", out});
    ASSERT_EQ(output.exit_code, 0) << output.errors;
    EXPECT_THAT(output.output, HasSubstr("no row depends on it"));
  }
  const auto bytes = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes(first), bytes(second));
  const json sections = json::parse(bytes(first));
  EXPECT_EQ(sections.at("launch").at("graph").at("kind"), "microbenchmark");
  EXPECT_THAT(sections.at("hbm").at("latency").at("source").get<std::string>(), HasSubstr("micro.jsonl"));
  EXPECT_FALSE(sections.contains("matrix"));
}

TEST(MicroCommand, WrongInput) {
  const std::string rows = nodes();
  expect_refused({"validate", "--kind", "mirco", "--measurements", rows}, "micro");
  expect_refused({"validate", "--kind", "micro"}, "--measurements");
  expect_refused({"validate", "--kind", "micro", "--measurements", rows, "--models", "olmoe"}, "--models");
  expect_refused({"validate", "--kind", "micro", "--measurements", rows, "--max-tokens", "4"}, "--max-tokens");
  expect_refused({"validate", "--kind", "micro", "--measurements", rows, "--vary-assumed"}, "--vary-assumed");
  expect_refused({"validate", "--kind", "micro", "--measurements", rows, "--calibration", "x.json"}, "--calibration");
  expect_refused({"validate", "--measurements", rows}, "no row of kind 'moe'");
  expect_refused({"calibrate", "--kind", "micro", "--measurements", rows}, "more than the");
  expect_refused({"calibrate", "--kind", "micro", "--measurements", rows, "--leave-one-out"}, "--leave-one-out");
  const std::string layers = MOESIM_SOURCE_DIR "/validation/measured/h200-2026-11-29/measurements.jsonl";
  expect_refused({"validate", "--kind", "micro", "--measurements", layers}, "no row of kind 'micro'");
}

}  // namespace
}  // namespace moesim
