// moesim compare: right and wrong input.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testkit::profiler_data;

using Arguments = std::vector<std::string>;

Arguments compare_of(const std::string& file, Arguments more) {
  return joined({"compare", "--measured", profiler_data(file)}, more);
}

json stage_of(const json& section, const std::string& name) {
  for (const json& stage : section["stages"]) {
    if (stage["stage"] == name) return stage;
  }
  return nullptr;
}

TEST(Compare, TakesWhatItCanFromACudaTrace) {
  const json result = successful_json(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b"}));
  EXPECT_EQ(result["schema"], "moesim.comparison/1");
  EXPECT_EQ(result["device"]["name"], "h200");
  EXPECT_EQ(result["named_share"], 1.0);
  EXPECT_EQ(result["moe_kernels"], result["moe_kernels_with_stage"]);
  ASSERT_THAT(result["sections"], SizeIs(1));
  const json& section = result["sections"][0];
  EXPECT_EQ(section["tokens"], 4);
  EXPECT_EQ(section["layers"], 3);
  EXPECT_EQ(section["period_kernels"], 15);
  EXPECT_EQ(section["strategy"], "vllm-triton");
  EXPECT_EQ(stage_of(section, "gemm1")["measured"]["median_ps"], 51'000'000);
  const double simulated = stage_of(section, "gemm1")["simulated"]["us"];
  EXPECT_NEAR(stage_of(section, "gemm1")["error_pct"], 100 * (simulated / 51 - 1), 1e-3);
}

TEST(Compare, GuessesAnAmdDeviceByItsSizes) {
  const std::string output = successful_output(compare_of("rocm_graph.json", {"--model", "gpt-oss-20b"}));
  EXPECT_THAT(output,
              AllOf(HasSubstr("device mi300x, the only one with 304 units and 206 GB"), HasSubstr("triton-kernels"),
                    HasSubstr("gemm1+act"), HasSubstr("launch graph"), HasSubstr("not simulated")));
}

TEST(Compare, SectionsHaveStrategiesOfTheirOwn) {
  const json result = successful_json(compare_of("sections.json", {"--model", "qwen3-30b-a3b", "--concurrency", "4"}));
  ASSERT_THAT(result["sections"], SizeIs(4));
  EXPECT_EQ(result["sections"][2]["strategy"], "expert_loop");
  EXPECT_EQ(result["sections"][3]["strategy"], "gather_gemv");
  EXPECT_THAT(result["sections"][2]["notes"].dump(), HasSubstr("the loop ran 3 experts"));
  EXPECT_EQ(result["sections"][0]["scope"], "expert_ffn");
}

TEST(Compare, FlagsOverrideTheTrace) {
  const json result = successful_json(
      compare_of("cuda_vllm.json",
                 {"--model", "qwen3-30b-a3b", "--device", "b200", "--concurrency", "8", "--strategy", "stream_gemv",
                  "--scope", "expert_ffn", "--launch", "graph", "--tp", "2", "--samples", "1", "--uncalibrated"}));
  EXPECT_EQ(result["device"]["name"], "b200");
  EXPECT_EQ(result["model"]["tp"], 2);
  EXPECT_EQ(result["calibration"], "uncalibrated");
  EXPECT_THAT(result["taken"], IsEmpty());
  const json& section = result["sections"][0];
  EXPECT_EQ(section["tokens"], 8);
  EXPECT_EQ(section["strategy"], "stream_gemv");
  EXPECT_EQ(section["launch"], "graph");
  EXPECT_EQ(stage_of(section, "router")["simulated"], nullptr);
}

TEST(Compare, CsvHasALinePerStageAndTotals) {
  const std::string output =
      successful_output(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--format", "csv"}));
  for (const char* stage : {",router,", ",gemm1,", ",gemm2,", ",all,", ",gaps,", ",layer,"}) {
    EXPECT_THAT(output, HasSubstr(stage));
  }
}

TEST(Compare, RoutedTracesDriveTheSimulation) {
  std::vector<int> ids;
  for (int token = 0; token < 4; ++token) {
    for (int pick = 0; pick < 8; ++pick) ids.push_back(pick);
  }
  const std::string npy = npy_file("routes.npy", "1, 4, 8", ids);
  const json result =
      successful_json(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--routing", "trace:" + npy}));
  EXPECT_EQ(result["sections"][0]["distinct_experts_mean"], 8);
}

TEST(Compare, UsersRulesNameNewKernels) {
  const std::string rules = temp_file("k.json", R"({"schema": "moesim.kernel_classes/1", "rules": [
    {"match": "my_new_kernel", "class": "gemm1+act+gemm2", "strategy": "grouped_gemm"}]})");
  const json result = successful_json(compare_of(
      "dense.json", {"--model", "qwen3-30b-a3b", "--device", "h200", "--concurrency", "1", "--kernels", rules}));
  EXPECT_EQ(result["sections"][0]["layers"], 2);
  EXPECT_NE(stage_of(result["sections"][0], "gemm1+act+gemm2"), nullptr);
}

TEST(Compare, NothingFeasibleIsExitCodeThree) {
  const CommandOutput run =
      run_moesim(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--strategy",
                                               "grouped_gemm:block_m=256,block_n=512,block_k=256,num_stages=8"}));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors, HasSubstr("nothing could be simulated"));
  EXPECT_THAT(run.output, HasSubstr("not simulated: "));
}

TEST(Compare, TimelineHoldsBothSides) {
  const std::string path = temp_folder() + "both.json";
  const CommandOutput run = run_moesim(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--timeline", path}));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("both.json: 75 slices"));  // 48 events, 3 layers, 3 x 8 simulated kernels
  const json timeline = json::parse(read_text_file(path, 1 << 20));
  std::int64_t layer = -1, router = -1;
  for (const json& event : timeline["traceEvents"]) {
    if (event["name"] == "layer 1") layer = event["args"]["start_ps"];
    if (event["name"] == "router" && event["args"]["start_ps"] == layer) router = layer;
  }
  EXPECT_GT(layer, 0);
  EXPECT_EQ(router, layer);
}

void expect_refused(const Arguments& arguments, const std::string& text) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, HasSubstr(text));
}

TEST(Compare, SaysWhatATraceWithoutMoeHolds) {
  expect_refused(compare_of("dense.json", {}), "no MoE kernels among 14 device events: gemm 67.9 %, attention 17.9 %");
}

TEST(Compare, AsksForWhatIsMissing) {
  expect_refused({"compare"}, "--measured");
  expect_refused(compare_of("cuda_vllm.json", {}), "qwen3-30b-a3b, qwen3-30b-a3b-fp8");
  expect_refused(compare_of("rocm_graph.json", {}), "--model: found not given");
  expect_refused(compare_of("sections.json", {"--model", "qwen3-30b-a3b"}), "--concurrency: found not given");
  const std::string no_device =
      temp_file("t.json", testkit::trace_text(testkit::kernel_events({"fused_moe_kernel", "fused_moe_kernel"})));
  expect_refused({"compare", "--measured", no_device, "--model", "mixtral-8x7b"}, "--device: found not given");
  const std::string odd =
      temp_file("u.json", testkit::trace_text(testkit::kernel_events({"fused_moe_kernel", "fused_moe_kernel"}),
                                              R"("deviceProperties": [{"name": "NVIDIA H900", "numSms": 132}], )"));
  expect_refused({"compare", "--measured", odd, "--model", "mixtral-8x7b"}, "'NVIDIA H900' is no device that is known");
}

TEST(Compare, RefusesWrongFlags) {
  expect_refused(compare_of("cuda_vllm.json", {"--model", "mixtral-8x7b"}), "128 experts");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--strategy", "all"}), "one");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--scope", "step"}), "--scope");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--concurrency", "0"}), "--concurrency");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--samples", "0"}), "--samples");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--format", "svg"}), "--format");
  expect_refused(compare_of("cuda_vllm.json", {"--timeline", "x.txt"}), "a file .json");
  expect_refused(compare_of("cuda_vllm.json", {"--kernels", "/nonexistent/k.json"}), "/nonexistent/k.json");
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--calibration", "x", "--uncalibrated"}),
                 "--uncalibrated");
  const std::string npy = npy_file("routes.npy", "1, 2, 8", {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  expect_refused(compare_of("cuda_vllm.json", {"--model", "qwen3-30b-a3b", "--routing", "trace:" + npy}),
                 "2 tokens a step");
}

TEST(Compare, RefusesDamagedTraces) {
  const std::string good = read_source_file("tests/data/profiler/cuda_vllm.json");
  const auto refused = [](const std::string& bytes, const std::string& text) {
    expect_refused({"compare", "--measured", temp_file("bad.json.gz", bytes), "--model", "qwen3-30b-a3b"}, text);
  };
  const std::string packed = testkit::gzipped(good);
  refused("", "an empty file");
  refused(packed.substr(0, packed.size() / 2), "truncated");
  refused(good.substr(0, good.size() / 2), "byte");
  refused("{}", "no key 'traceEvents'");
  expect_refused({"compare", "--measured", "/nonexistent.json"}, "/nonexistent.json");
}

}  // namespace
}  // namespace moesim
