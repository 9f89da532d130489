// moesim models, devices, strategies: lists, and one in full.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "tests/testkit/run_command.h"
#include "workloads/model_config.h"
#include "workloads/strategies/strategy.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::string> names_in(const json& rows) {
  std::vector<std::string> names;
  for (const json& row : rows) names.push_back(row.at("name").get<std::string>());
  return names;
}

std::ptrdiff_t line_count(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Models, ListHoldsAll) {
  EXPECT_EQ(names_in(successful_json({"models"}).at("models")), model_names());
  const auto rows = static_cast<std::ptrdiff_t>(model_names().size());
  EXPECT_EQ(line_count(successful_output({"models"})), rows + 1);
  EXPECT_EQ(line_count(successful_output({"models", "--format", "csv"})), rows + 1);
}

TEST(Models, OneInFull) {
  const json model = successful_json({"models", "mixtral-8x7b"});
  EXPECT_EQ(model.at("hidden"), 4096);
  EXPECT_EQ(model.at("topk"), 2);
  EXPECT_EQ(model.at("gated"), true);
  EXPECT_EQ(model.at("expert_weights"), "bf16");
  // 8 experts x 3 matrices x 4096 x 14336 x 32 layers.
  EXPECT_NEAR(model.at("routed_parameters_billion").get<double>(), 45.1, 0.01);
  EXPECT_THAT(successful_output({"models", "mixtral-8x7b"}), HasSubstr("top-k                    2\n"));
  EXPECT_EQ(line_count(successful_output({"models", "mixtral-8x7b", "--format", "csv"})), 2);
}

TEST(Models, AConfigFileInFull) {
  const std::string path = temp_file(
      "config.json", R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128, "num_local_experts": 4,)"
                     R"( "num_experts_per_tok": 2, "num_hidden_layers": 2, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(successful_json({"models", path}).at("experts"), 4);
}

TEST(Devices, ListHoldsAll) {
  EXPECT_EQ(names_in(successful_json({"devices"}).at("devices")), device_names());
  const auto rows = static_cast<std::ptrdiff_t>(device_names().size());
  EXPECT_EQ(line_count(successful_output({"devices", "--format", "csv"})), rows + 1);
}

TEST(Devices, OneInFullHasValueKindAndSourceOfEveryConstant) {
  const json device = successful_json({"devices", "h200"});
  EXPECT_EQ(device.at("device"), "h200");
  EXPECT_THAT(device.at("device_hash").get<std::string>(), SizeIs(16));
  std::vector<std::string> paths;
  for (const json& constant : device.at("constants")) {
    paths.push_back(constant.at("path").get<std::string>());
    for (const char* key : {"value", "kind", "meaning", "source"}) {
      EXPECT_FALSE(constant.at(key).get<std::string>().empty()) << paths.back();
    }
  }
  for (const HwEntry& entry : hw_schema()) {
    if (entry.presence(Grid::kParallel) != Presence::kRequired) continue;
    EXPECT_THAT(paths, Contains(entry.path));
  }
}

TEST(Devices, AnOverrideSaysSo) {
  const json device = successful_json({"devices", "h200", "--set", "hbm.bandwidth=6TB/s"});
  for (const json& constant : device.at("constants")) {
    if (constant.at("path") != "hbm.bandwidth") continue;
    EXPECT_EQ(constant.at("value"), "6 TB/s");
    EXPECT_EQ(constant.at("source"), "--set");
  }
}

TEST(Devices, CsvRepeatsDeviceAndHash) {
  EXPECT_THAT(
      successful_output({"devices", "h200", "--format", "csv"}),
      AllOf(StartsWith("device,device_hash,path,value,kind,p5,p95,meaning,source\nh200,"), HasSubstr("\nh200,")));
}

TEST(Strategies, ListHoldsAllAndAuto) {
  const auto names = names_in(successful_json({"strategies"}).at("strategies"));
  for (const Strategy& strategy : strategy_catalogue()) EXPECT_THAT(names, Contains(strategy.name));
  EXPECT_THAT(names, Contains("auto"));
}

TEST(Strategies, AStackProfileShowsItsRulesAtSeveralSizes) {
  EXPECT_THAT(names_in(successful_json({"strategies"}).at("strategies")), Contains("trtllm-gen"));
  const json shown = successful_json({"strategies", "vllm-triton"});
  EXPECT_EQ(shown.at("strategy"), "grouped_gemm");
  EXPECT_THAT(shown.at("parameters")[0].at("parameters"), Contains("block_m=16"));
  EXPECT_THAT(shown.at("source").get<std::string>(), HasSubstr("34846"));
}

TEST(Strategies, OneInFullHasEveryParameter) {
  for (const Strategy& strategy : strategy_catalogue()) {
    const json shown = successful_json({"strategies", strategy.name});
    EXPECT_EQ(shown.at("summary"), strategy.summary);
    EXPECT_EQ(shown.at("counterpart"), strategy.counterpart);
    ASSERT_THAT(shown.at("parameters"), SizeIs(strategy.parameters.size()));
    for (std::size_t p = 0; p < strategy.parameters.size(); ++p) {
      EXPECT_EQ(shown.at("parameters")[p].at("name"), strategy.parameters[p].name);
      EXPECT_EQ(shown.at("parameters")[p].at("default"), strategy.parameters[p].default_rule);
      EXPECT_EQ(shown.at("parameters")[p].at("min"), strategy.parameters[p].min);
      EXPECT_EQ(shown.at("parameters")[p].at("max"), strategy.parameters[p].max);
    }
  }
}

}  // namespace
}  // namespace moesim
