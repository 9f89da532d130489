// moesim tune and validate --tiles as a user runs them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<std::string> kQuick = {"tune",          "--model", "olmoe-1b-7b", "--concurrency", "1,64",
                                         "--samples",     "1",       "--space",     "group_m=1",     "--space",
                                         "block_m=16,64", "--space", "num_stages=3"};

std::vector<std::string> quick(std::vector<std::string> more) {
  std::vector<std::string> arguments = kQuick;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Tune, JsonHasTheSearch) {
  const nlohmann::json study = successful_json(quick({"--min-gain", "0"}));
  EXPECT_EQ(study["schema"], "moesim.tune/1");
  EXPECT_EQ(study["default_of"], "vllm-triton");
  EXPECT_EQ(study["space"]["block_m"], nlohmann::json({16, 64}));
  ASSERT_THAT(study["points"], SizeIs(2));
  for (const auto& point : study["points"]) {
    EXPECT_LE(point["best"]["time_ps"], point["default"]["time_ps"]);
    EXPECT_EQ(point["chosen"], point["best"]);
    EXPECT_GE(point["gain"], 0);
    EXPECT_GE(point["within_2_pct"], 1);
    EXPECT_LE(point["bound_us"], point["best"]["time_us"]);
    EXPECT_EQ(point["in_calibrated_range"], true);
  }
}

TEST(Tune, FormatsAgree) {
  const std::string table = successful_output(quick({}));
  EXPECT_THAT(table, HasSubstr("tuned    vllm-triton against the default of vllm-triton"));
  EXPECT_THAT(table, HasSubstr("space    48 configurations"));
  std::istringstream csv(successful_output(quick({"--format", "csv"})));
  std::string heading, line;
  std::getline(csv, heading);
  EXPECT_THAT(heading, HasSubstr("tokens,best_block_m,best_block_n"));
  std::vector<std::string> lines;
  while (std::getline(csv, line)) lines.push_back(line);
  EXPECT_THAT(lines, SizeIs(2));
}

TEST(Tune, WritesTheFileThatTheStackReads) {
  const std::string folder = temp_folder();
  const CommandOutput run = run_moesim(quick({"--out", folder, "--tp", "2", "--strategy", "sglang-triton"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("E=64,N=512,device_name=NVIDIA_H200.json, 2 configurations"));
  std::ifstream in(folder + "E=64,N=512,device_name=NVIDIA_H200.json");
  const nlohmann::json file = nlohmann::json::parse(in);
  ASSERT_THAT(file, SizeIs(2));
  for (const char* tokens : {"1", "64"}) {
    for (const char* key :
         {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"}) {
      EXPECT_TRUE(file[tokens].contains(key)) << key;
    }
  }
}

// Parameters given with the strategy stay, and stand in the file.
TEST(Tune, WhatIsGivenIsNotSearched) {
  const std::string folder = temp_folder();
  const CommandOutput run =
      run_moesim({"tune", "--model", "olmoe-1b-7b", "--concurrency", "4", "--samples", "1", "--out", folder,
                  "--strategy", "grouped_gemm:block_m=32,group_m=1,block_n=64,num_stages=4", "--format", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_FALSE(nlohmann::json::parse(run.output)["space"].contains("block_m"));
  std::ifstream in(folder + "E=64,N=1024,device_name=NVIDIA_H200.json");
  EXPECT_EQ(nlohmann::json::parse(in)["4"]["BLOCK_SIZE_M"], 32);
}

struct Wrong {
  std::vector<std::string> arguments;
  std::string complaint;
};

TEST(Tune, WrongInput) {
  const std::string folder = temp_folder() + "tiles/";
  std::filesystem::create_directories(folder);
  for (const Wrong& wrong :
       {Wrong{{"--space", "block_m"}, "'block_m', expected PARAMETER=VALUE"},
        Wrong{{"--space", "block_q=1"}, "parameter 'block_q'"}, Wrong{{"--space", "block_m=7"}, "8 to 256"},
        Wrong{{"--space", "block_m=16,x"}, "'x'"},
        Wrong{{"--space", "block_m=16", "--space", "block_m=32"}, "'block_m' twice"},
        Wrong{{"--strategy", "grouped_gemm:block_m=16", "--space", "block_m=32"}, "either a range or one value"},
        Wrong{{"--strategy", "gather_gemv"}, "a strategy with a space of tiles"},
        Wrong{{"--strategy", "auto"}, "one strategy"},
        Wrong{{"--strategy", "grouped_gemm,stream_gemv"}, "one strategy"},
        Wrong{{"--strategy", "vllm-trition"}, "did you mean 'vllm-triton'"}, Wrong{{"--min-gain", "-1"}, "0 to 100"},
        Wrong{{"--scope", "step"}, "moe_layer or expert_ffn"}, Wrong{{"--out", folder + "none"}, "cannot be written"},
        Wrong{{"--out", folder, "--strategy", "stream_gemv"}, "only these read such files"},
        Wrong{{"--out", folder, "--weights", "mxfp4"}, "weights mxfp4"},
        Wrong{{"--format", "svg"}, "one of table, json, csv"}}) {
    std::vector<std::string> arguments = {"tune", "--concurrency", "1", "--samples", "1", "--model", "olmoe-1b-7b"};
    arguments.insert(arguments.end(), wrong.arguments.begin(), wrong.arguments.end());
    const CommandOutput run = run_moesim(arguments);
    EXPECT_EQ(run.exit_code, 2) << fmt::format("{}", fmt::join(wrong.arguments, " "));
    EXPECT_THAT(run.errors, HasSubstr(wrong.complaint));
    EXPECT_THAT(run.output, IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  const CommandOutput tpu = run_moesim({"tune", "--device", "tpu7x", "--concurrency", "1", "--samples", "1"});
  EXPECT_EQ(tpu.exit_code, 3);
}

// Rows of one layer under several tiles; the fastest is `best`.
std::string rows_of(int best) {
  npy_file("routes.npy", "1, 2, 2", {0, 1, 2, 3});
  std::string rows;
  int number = 0;
  for (const int n : {32, 64, 128}) {
    for (const int k : {64, 128, 256}) {
      rows += fmt::format(
          R"({{"schema": "moesim.measurement/2", "kind": "moe", "device": "h200", "model": {{"name": "mixtral-8x7b", "hidden":)"
          R"( 4096, "intermediate": 14336, "experts": 8, "topk": 2, "gated": true}}, "tp": 1, "ep": 1, "weights": "bf16",)"
          R"( "activations": "bf16", "tokens": 2, "routing": "uniform", "routed_trace": "routes.npy",)"
          R"( "mean_active_experts": 4, "strategy": "grouped_gemm", "implementation": {{"name": "triton-grouped",)"
          R"( "block_m": 16, "block_n": {}, "block_k": {}, "num_warps": 4, "num_stages": 4}}, "launch": "graph", "scope":)"
          R"( "expert_ffn", "stage": "total", "us": {}}})"
          "\n",
          n, k, number == best ? 320.0 : 400.0);
      ++number;
    }
  }
  return temp_file("tiles.jsonl", rows);
}

TEST(ValidateTiles, RegretIsTheTimeLost) {
  temp_folder();
  const std::string file = rows_of(0);
  const nlohmann::json report = successful_json({"validate", "--measurements", file, "--tiles"});
  ASSERT_THAT(report["cells"], SizeIs(1));
  const nlohmann::json& cell = report["cells"][0];
  EXPECT_EQ(cell["tiles"], 9);
  EXPECT_EQ(cell["best_us"], 320);
  const double regret = cell["regret_pct"];
  EXPECT_EQ(regret, cell["predicted"] == cell["best"] ? 0 : 25);
  EXPECT_EQ(cell["default_regret_pct"]["vllm-triton"], 25);  // 16/64/128, 4 warps, 4 stages
  EXPECT_EQ(report["means"]["all"]["regret_pct"], regret);
  EXPECT_THAT(successful_output({"validate", "--measurements", file, "--tiles"}), HasSubstr("mixtral-8x7b"));
  EXPECT_THAT(successful_output({"validate", "--measurements", file, "--tiles", "--format", "csv"}),
              HasSubstr("regret_pct"));
}

TEST(ValidateTiles, WrongInput) {
  temp_folder();
  const std::string file = rows_of(0);
  for (const Wrong& wrong :
       {Wrong{{"--leave-one-out"}, "one of the two"}, Wrong{{"--vary-assumed"}, "one of the two"},
        Wrong{{"--format", "markdown"}, "one of table, json, csv"}, Wrong{{"--max-tokens", "1"}, "at least 8 tiles"}}) {
    std::vector<std::string> arguments = {"validate", "--measurements", file, "--tiles"};
    arguments.insert(arguments.end(), wrong.arguments.begin(), wrong.arguments.end());
    const CommandOutput run = run_moesim(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr(wrong.complaint));
  }
}

// --- what-ifs ---

TEST(WhatIf, IsOnlySimulatedByNameAndNeverWins) {
  const auto strategies_of = [](const nlohmann::json& study) {
    std::vector<std::string> names;
    for (const auto& row : study["rows"]) names.push_back(row["strategy"]);
    return names;
  };
  const std::vector<std::string> one = {"run", "--concurrency", "1", "--samples", "1", "--strategy"};
  const auto with = [&](const char* strategies) {
    std::vector<std::string> arguments = one;
    arguments.emplace_back(strategies);
    return arguments;
  };
  EXPECT_THAT(strategies_of(successful_json(with("all"))), testing::Not(testing::Contains("fused_stream_gemv")));
  const nlohmann::json study = successful_json(with("fused_stream_gemv,expert_loop"));
  ASSERT_THAT(study["rows"], SizeIs(2));
  EXPECT_LT(study["rows"][0]["time_us_median"], study["rows"][1]["time_us_median"]);
  EXPECT_EQ(study["rows"][0]["what_if"], true);
  EXPECT_EQ(study["rows"][0]["winner"], false);
  EXPECT_EQ(study["rows"][1]["winner"], true);
  EXPECT_EQ(study["rows"][0]["implementation"], "triton-stream-gemv");  // its parts are that kernel's
  EXPECT_EQ(successful_json(with("fused_stream_gemv"))["rows"][0]["winner"], true);
  EXPECT_THAT(successful_output(with("fused_stream_gemv,expert_loop")), HasSubstr("no such kernel exists"));
  EXPECT_THAT(successful_output({"strategies"}), HasSubstr("what-if: stream_gemv with one launch"));
}

}  // namespace
}  // namespace moesim
