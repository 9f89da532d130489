// moesim import, on tables made here in the forms of the projects that publish them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"
#include "traces/measurement.h"
#include "traces/routed_trace.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kLayers =
    "kernel_source,moe_dtype,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,us_t1,us_"
    "t4\n";

struct Imported {
  std::string report;
  std::vector<MoeMeasurement> rows;
  std::map<std::string, std::string> lines;  // by source
};

Imported import(const std::string& format, const std::string& device, const std::string& table,
                const std::vector<std::string>& more = {}) {
  const std::string in = temp_file("table.csv", table);
  const std::string out = in.substr(0, in.rfind('/')) + "/out";
  std::vector<std::string> arguments = {"import", "--format", format, "--device", device, "--in", in, "--out", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Imported result;
  result.report = successful_output(arguments);
  result.rows = read_measurements(out + "/measurements.jsonl");
  return result;
}

double distinct(const MoeMeasurement& row) {
  double sum = 0;
  const std::vector<RoutedBatch> batches = read_routed_trace(row.routed_trace, row.experts);
  for (const RoutedBatch& batch : batches) {
    sum += routing_statistics(batch).distinct_experts / static_cast<double>(batches.size());
  }
  return sum;
}

TEST(Import, AiconfiguratorLayersBecomeRowsOfTheirStack) {
  const Imported imported =
      import("aiconfigurator", "h200",
             std::string(kLayers) +
                 "sglang_fused_moe_triton,bfloat16,2048,768,8,128,2,1,balanced,40.5,90\n"
                 "vllm_fp8moe_triton_tritonexperts,fp8_block,4096,1536,8,128,1,1,power_law_1.2,50,\n");
  ASSERT_THAT(imported.rows, SizeIs(3));
  const MoeMeasurement& row = imported.rows[1];
  EXPECT_EQ(row.device, "h200");
  EXPECT_EQ(row.model_name, "qwen3-30b-a3b");
  EXPECT_EQ(row.intermediate, 768);  // the whole model's
  EXPECT_EQ(row.tp, 2);
  EXPECT_EQ(row.tokens, 4);
  EXPECT_EQ(row.us, 90);
  EXPECT_EQ(row.implementation, "sglang-triton");
  EXPECT_EQ(row.strategy, "grouped_gemm");
  EXPECT_EQ(row.scope, "moe_layer");
  EXPECT_EQ(row.parameters.at("router"), "0");  // these layers are given their scores
  EXPECT_EQ(row.routing, "balanced");
  EXPECT_EQ(row.mean_active_experts, 32);
  EXPECT_EQ(distinct(row), 32);
  EXPECT_THAT(row.source, AllOf(HasSubstr("table.csv"), HasSubstr("line 2"), HasSubstr("us_t4")));
  EXPECT_EQ(imported.rows[2].weights, "fp8_block128");
  EXPECT_EQ(imported.rows[2].routing, "power_law:1.2");
  EXPECT_EQ(imported.rows[2].implementation, "vllm-triton");
  EXPECT_THAT(imported.report, Not(HasSubstr("left out")));
}

TEST(Import, AiconfiguratorTablesWithOneTimeALineAreInMilliseconds) {
  const Imported imported =
      import("aiconfigurator", "h200",
             "kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
             "distribution,latency\nmoe_torch_flow_cutlass,bfloat16,4,64,32,2,8,1,1,balanced,0.0425\n");
  ASSERT_THAT(imported.rows, SizeIs(1));
  EXPECT_DOUBLE_EQ(imported.rows[0].us, 42.5);
  EXPECT_EQ(imported.rows[0].tokens, 4);
  EXPECT_EQ(imported.rows[0].model_name, "moe-64x32-2of8");
  EXPECT_EQ(imported.rows[0].launch, "programmatic");
}

// Each line carries one trap; the last none.
TEST(Import, AiconfiguratorTrapsAreLeftOutAndCounted) {
  const Imported imported =
      import("aiconfigurator", "h200",
             std::string(kLayers) +
                 "sglang_fused_moe_triton,fp8_block,7168,2048,8,256,1,1,balanced,40,90\n"
                 "moe_torch_flow_min_latency,nvfp4,2048,768,8,128,1,1,balanced,40,90\n"
                 "vllm_modeloptfp8moe_flashinfer_cutlass_x,fp8,2048,768,8,128,1,1,balanced,40,90\n"
                 "sglang_fused_moe_triton,bfloat16,2048,768,8,128,1,4,balanced,40,90\n"
                 "moe_torch_flow_cutlass,bfloat16,4096,1024,10,512,1,8,balanced,40,90\n"
                 "moe_torch_flow_cutlass_situ_as_silu,bfloat16,64,32,2,8,1,1,balanced,40,90\n"
                 "somebodys_kernel,bfloat16,64,32,2,8,1,1,balanced,40,90\n"
                 "sglang_fused_moe_triton,int3,64,32,2,8,1,1,balanced,40,90\n"
                 "sglang_fused_moe_triton,bfloat16,64,32,2,8,1,1,zigzag,40,90\n"
                 "moe_torch_flow_cutlass,fp8_block,7168,2048,8,256,1,1,balanced,40,90\n");
  EXPECT_THAT(imported.rows, SizeIs(2));
  EXPECT_EQ(imported.rows[0].model_name, "deepseek-v3");
  for (const char* reason : {"2  group-limited routing (DeepSeek-V3", "2  group-limited routing (TensorRT-LLM",
                             "FlashInfer CUTLASS fp8", "SGLang Triton with EP", "wild times", "situ_as_silu",
                             "kernel source 'somebodys_kernel'", "format for 'int3'", "distribution 'zigzag'"}) {
    EXPECT_THAT(imported.report, HasSubstr(reason));
  }
}

TEST(Import, AiconfiguratorRowsSayWhatIsWarmAndWhatHasTwoMatrices) {
  const Imported imported =
      import("aiconfigurator", "h200",
             std::string(kLayers) +
                 "vllm_unquantizedfusedmoe_triton_tritonexperts,bfloat16,2688,1856,6,128,1,1,balanced,40,90\n"
                 "sglang_fused_moe_triton,w4a16_mxfp4,2880,2880,4,128,1,1,balanced,40,90\n");
  ASSERT_THAT(imported.rows, SizeIs(4));
  EXPECT_FALSE(imported.rows[0].gated);
  EXPECT_FALSE(imported.rows[0].warm);  // 6 x 20 MB are more than 63 MB
  EXPECT_TRUE(imported.rows[2].gated);
  EXPECT_EQ(imported.rows[2].weights, "bf16");  // widened when loaded
  const Imported small =
      import("aiconfigurator", "h200",
             std::string(kLayers) + "sglang_fused_moe_triton,bfloat16,2048,768,8,128,8,1,balanced,20,30\n");
  EXPECT_TRUE(small.rows[0].warm);  // 8 x 1.2 MB
  EXPECT_THAT(small.report, HasSubstr("2 of them with weights that fit the cache"));
}

// vLLM's table has the balanced pattern in bfloat16 where there are fewer tokens than the stride: of the experts above
// 256 only even ones are picked.
TEST(Import, VllmsBalancedPatternIsRoundedToBfloat16) {
  const std::string columns =
      "kernel_source,moe_dtype,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
      "distribution,us_t32,us_t48,us_t64\n";
  const std::string shape = ",bfloat16,4096,1024,10,512,1,1,balanced,90,95,99\n";
  const Imported imported =
      import("aiconfigurator", "h200",
             columns + "vllm_unquantizedfusedmoe_triton_tritonexperts" + shape + "sglang_fused_moe_triton" + shape);
  ASSERT_THAT(imported.rows, SizeIs(6));
  const std::vector<double> experts = {286, 361, 512, 316, 473, 512};
  for (std::size_t i = 0; i < experts.size(); ++i) {
    EXPECT_EQ(imported.rows[i].mean_active_experts, experts[i]) << i;
    EXPECT_EQ(distinct(imported.rows[i]), experts[i]) << i;
  }
}

TEST(Import, TunedTileFilesArePreferredToRules) {
  const std::string folder = temp_folder() + "tiles/";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "E=128,N=384,device_name=NVIDIA_H200.json")
      << R"({"triton_version": "3", "2": {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 256, "num_stages": 5}, "64": {"BLOCK_SIZE_M": 64}})";
  std::ofstream(folder + "E=128,N=384,device_name=NVIDIA_B200.json") << R"({"2": {"BLOCK_SIZE_M": 128}})";
  std::ofstream(folder + "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8.json")
      << R"({"2": {"BLOCK_SIZE_M": 128}})";
  const Imported imported = import("aiconfigurator", "h200",
                                   std::string(kLayers) +
                                       "sglang_fused_moe_triton,bfloat16,2048,768,8,128,2,1,balanced,40.5,90\n"
                                       "sglang_fused_moe_triton,bfloat16,2048,768,8,128,1,1,balanced,40.5,90\n",
                                   {"--tile-configs", folder});
  ASSERT_THAT(imported.rows, SizeIs(4));
  EXPECT_EQ(imported.rows[1].parameters.at("block_m"), "32");
  EXPECT_EQ(imported.rows[1].parameters.at("block_n"), "256");
  EXPECT_EQ(imported.rows[1].parameters.at("num_stages"), "5");
  EXPECT_FALSE(imported.rows[3].parameters.contains("block_m"));
}

TEST(Import, AiterStagesAreRowsOfOneProjection) {
  const std::string columns =
      "gfx,cu_num,token,model_dim,inter_dim,expert,topk,q_dtype_a,q_dtype_w,q_type,g1u1,block_m,us1,us2,kernel1,"
      "kernel2\n";
  const Imported imported =
      import("aiter", "mi355x",
             columns +
                 "gfx950,256,4,4096,384,128,8,bf16,bf16,No,1,32,25,9,moe_ck2stages_gemm1_256x32x64x128_1x4_x,"
                 "moe_ck2stages_gemm2_256x32x64x64_1x4_x\n"
                 "gfx950,256,4,4096,384,128,8,fp8,fp8,per_1x128,1,16,36,0,one_kernel_16x128E,\n"
                 "gfx942,304,4,4096,384,128,8,fp8,fp8,per_1x128,1,16,36,0,one_kernel_16x128E,\n"
                 "gfx950,256,4,4096,384,128,8,int8,int8,per_Odd,1,16,36,0,one_kernel_16x128E,\n");
  ASSERT_THAT(imported.rows, SizeIs(3));
  EXPECT_EQ(imported.rows[0].stage, "gemm1");
  EXPECT_EQ(imported.rows[0].us, 25);
  EXPECT_EQ(imported.rows[0].parameters.at("block_m"), "32");
  EXPECT_EQ(imported.rows[0].parameters.at("block_k"), "128");
  EXPECT_EQ(imported.rows[1].stage, "gemm2");
  EXPECT_EQ(imported.rows[1].parameters.at("block_k"), "64");
  EXPECT_EQ(imported.rows[2].stage, "total");
  EXPECT_EQ(imported.rows[2].weights, "fp8_block128");
  EXPECT_FALSE(imported.rows[0].warm);
  EXPECT_THAT(imported.report, AllOf(HasSubstr("a part with 304 compute units"), HasSubstr("format for 'int8'")));
}

TEST(Import, InfersimRowsOfAnExpertSpreadAroundTheirMean) {
  const Imported imported =
      import("infersim", "h100-sxm",
             "num_experts,num_gpus,num_local_experts,topk,hidden_size,intermediate_size,batch_size_per_gpu,"
             "tokens_per_expert,up_proj_us,up_mfu,down_proj_us,down_mfu\n"
             "256,1,256,8,7168,2048,32,1,1297,0.1,721,0.1\n256,32,8,8,7168,2048,16,16,92,0.1,52,0.1\n");
  ASSERT_THAT(imported.rows, SizeIs(4));
  EXPECT_EQ(imported.rows[0].stage, "gemm1");
  EXPECT_EQ(imported.rows[1].stage, "gemm2");
  EXPECT_EQ(imported.rows[1].us, 721);
  EXPECT_NEAR(imported.rows[0].mean_active_experts, 128, 24);  // floor(0.7 to 1.3): half have none
  EXPECT_EQ(imported.rows[2].mean_active_experts, 8);
  EXPECT_NEAR(static_cast<double>(imported.rows[2].tokens), 8 * 16, 30);
}

TEST(Import, LlmservingsimRowsTouchExactlySoManyExperts) {
  const Imported imported =
      import("llmservingsim", "rtx-pro-6000", "tokens,activated_experts,time_us\n4,8,56.6\n4,32,234.3\n");
  ASSERT_THAT(imported.rows, SizeIs(2));
  EXPECT_EQ(imported.rows[0].mean_active_experts, 8);
  EXPECT_EQ(distinct(imported.rows[1]), 32);
  EXPECT_EQ(imported.rows[1].model_name, "qwen3-30b-a3b");
}

TEST(Import, WhatItWritesCanBeValidatedAndCalibrated) {
  std::string table = kLayers;
  for (const int tp : {1, 2, 4}) {
    for (const char* routing : {"balanced", "power_law_1.2"}) {
      table += fmt::format("sglang_fused_moe_triton,bfloat16,4096,1536,8,128,{},1,{},{},{}\n", tp, routing,
                           30 + 70 / tp, 30 + 275 / tp);
    }
  }
  import("aiconfigurator", "h200", table);
  const std::string rows =
      temp_file("unused", "").substr(0, temp_file("unused", "").rfind('/')) + "/out/measurements.jsonl";
  const json all = successful_json({"validate", "--measurements", rows});
  EXPECT_EQ(all.at("overall").at("count"), 12);
  EXPECT_TRUE(all.at("by_implementation").contains("sglang-triton"));
  const json cold = successful_json({"validate", "--measurements", rows, "--min-cache-multiple", "2"});
  EXPECT_EQ(cold.at("overall").at("count"), 10);  // one token on four cards reads 75 MB, less than 126
  const std::string fit = successful_output({"calibrate", "--measurements", rows, "--constants", "helper.start_us"});
  EXPECT_THAT(fit, AllOf(HasSubstr("helper.start_us"), Not(HasSubstr("up.start_us"))));
}

// ---------------------------------------------------------------------------------------------- wrong input

std::string complaint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "import");
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.output << run.errors;
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  EXPECT_THAT(run.output, IsEmpty());
  return run.errors;
}

std::string complaint_about(const std::string& format, const std::string& table) {
  const std::string in = temp_file("table.csv", table);
  const std::string out = in.substr(0, in.rfind('/')) + "/out";
  std::string line = complaint({"--format", format, "--device", "h200", "--in", in, "--out", out});
  EXPECT_FALSE(std::filesystem::exists(out));
  return line;
}

TEST(ImportWrongInput, FlagsAreNeeded) {
  EXPECT_THAT(complaint({}), AllOf(HasSubstr("--format"), HasSubstr("aiconfigurator")));
  EXPECT_THAT(complaint({"--format", "aitre"}), HasSubstr("aiter"));
  EXPECT_THAT(complaint({"--format", "aiter"}), HasSubstr("--in"));
  EXPECT_THAT(complaint({"--format", "aiter", "--in", "x.csv"}), HasSubstr("--device"));
  EXPECT_THAT(complaint({"--format", "aiter", "--in", "x.csv", "--device", "h200"}), HasSubstr("--out"));
  EXPECT_THAT(complaint({"--format", "aiter", "--in", "no-such.csv", "--device", "h200", "--out", "x"}),
              HasSubstr("no-such.csv"));
}

TEST(ImportWrongInput, TablesNamePlaceAndExpectation) {
  EXPECT_THAT(complaint_about("llmservingsim", ""), HasSubstr("empty"));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,active_experts,time_us\n"),
              AllOf(HasSubstr("activated_experts"), HasSubstr("active_experts")));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,activated_experts,time_us\n1,8\n"),
              AllOf(HasSubstr("table.csv:2"), HasSubstr("2 fields")));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,activated_experts,time_us\n1,8,fast\n"),
              AllOf(HasSubstr("table.csv:2"), HasSubstr("time_us"), HasSubstr("'fast'")));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,activated_experts,time_us\n1,9,10\n"), HasSubstr("tokens x 8"));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,activated_experts,time_us\n1.5,8,10\n"), HasSubstr("whole"));
  EXPECT_THAT(complaint_about("llmservingsim", "tokens,activated_experts,time_us\n\"1,8,10\n"), HasSubstr("quote"));
  EXPECT_THAT(complaint_about("aiconfigurator",
                              "kernel_source,moe_dtype,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
                              "distribution\n"),
              HasSubstr("us_t<TOKENS>"));
}

TEST(ImportWrongInput, NoRowAtAllIsInfeasible) {
  const std::string in = temp_file("table.csv", std::string(kLayers) + "mine,bfloat16,64,32,2,8,1,1,balanced,40,90\n");
  const CommandOutput run = run_moesim({"import", "--format", "aiconfigurator", "--device", "h200", "--in", in, "--out",
                                        in.substr(0, in.rfind('/')) + "/out"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.output, HasSubstr("kernel source 'mine'"));
}

}  // namespace
}  // namespace moesim
