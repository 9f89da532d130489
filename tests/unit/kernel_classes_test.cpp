// The table of kernel names: patterns, rules of both kinds of files, and names that real traces hold.
#include "traces/kernel_classes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sim/io/input_error.h"
#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::HasSubstr;

TEST(KernelPattern, PiecesStandInOrder) {
  EXPECT_TRUE(pattern_matches("moe_sum", "void vllm::moe::moe_sum_kernel<float>"));
  EXPECT_TRUE(pattern_matches("bmm_*swiGlu", "bmm_E4m3_t128_swiGlu_dynBatch"));
  EXPECT_FALSE(pattern_matches("swiGlu*bmm_", "bmm_E4m3_t128_swiGlu_dynBatch"));
  EXPECT_TRUE(pattern_matches("a*a", "aa"));
  EXPECT_FALSE(pattern_matches("a*a", "a"));
  EXPECT_FALSE(pattern_matches("Moe", "moe"));
}

TEST(KernelPattern, AnchorsBindTheEnds) {
  EXPECT_TRUE(pattern_matches("^combine$", "combine"));
  EXPECT_FALSE(pattern_matches("^combine$", "combine_kernel"));
  EXPECT_FALSE(pattern_matches("^combine$", "my_combine"));
  EXPECT_TRUE(pattern_matches("^a*b$", "a...b...b"));
  EXPECT_FALSE(pattern_matches("^ab*b$", "ab"));  // pieces do not share letters
  EXPECT_TRUE(pattern_matches("kernel$", "my_kernel"));
}

// A name that the pattern was surely written for.
std::string name_for(const std::string& pattern) {
  std::string name;
  for (const char c : pattern) {
    if (c == '*') name += '_';
    if (c != '*' && c != '^' && c != '$') name += c;
  }
  return name;
}

TEST(KernelClasses, NoRuleHidesAnotherOfAnotherClass) {
  const KernelClassifier classifier;
  EXPECT_GT(classifier.rules().size(), 200U);
  for (const KernelRule& rule : classifier.rules()) {
    const KernelRule* found = classifier.find(name_for(rule.match));
    ASSERT_NE(found, nullptr) << rule.match;
    EXPECT_EQ(found->kernel_class, rule.kernel_class) << rule.match << " is hidden by " << found->match;
    EXPECT_EQ(found->stages, rule.stages) << rule.match << " is hidden by " << found->match;
  }
}

struct Known {
  const char* name;
  const char* kind;  // stages, or the class
};

TEST(KernelClasses, KnowsTheStacks) {
  const Known kKnown[] = {
      {"void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32, int>(float const*)", "topk"},
      {"void vllm::moe::moe_align_block_size_kernel<int>(int const*)", "align"},
      {"void moe_align_block_size_kernel<int>", "align"},
      {"count_and_sort_expert_tokens_kernel", "align"},
      {"fused_moe_kernel", "moe_gemm"},
      {"fused_moe_kernel_gptq_awq", "moe_gemm"},
      {"void vllm::act_and_mul_kernel<c10::BFloat16>", "activation"},
      {"void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>", "combine"},
      {"_topk_forward", "topk"},
      {"_combined_routing_memset", "align"},
      {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "gemm1+act"},
      {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "moe_gemm"},
      {"_p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1_swiglu", "gemm1+act"},
      {"_finalize_matmul_scatter_bf16", "combine"},
      {"void moe::dev::routing::routingRenormalize::routingIndicesHistogramScoresKernel<moe::dev>", "topk"},
      {"void moe::dev::routing::routingIndicesOffsetsKernel<moe::dev>", "align"},
      {"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_clmp_swiGlu_dynBatch_sm100f", "gemm1+act"},
      {"bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_clmp_dynBatch_sm100f", "moe_gemm"},
      {"void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams>", "combine"},
      {"void tensorrt_llm::kernels::quantize_with_block_size<x, __nv_bfloat16, 32, "
       "true>(flashinfer::QuantizationSFLayout)",
       "quantisation"},
      {"void dpsk::ep::internode::dispatch<false, 8, true>", "dispatch"},
      {"void dpsk::ep::internode::combine<false, 8>", "collect"},
      {"void deep_ep::internode_ll::combine<true, 7168>", "collect"},
      {"void deep_ep::intranode::notify_dispatch<8>", "dispatch"},
      {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::GemmKernel>", "moe_gemm"},
      {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>", "gemm"},
      {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, (deep_gemm::GemmType)1>", "moe_gemm"},
      {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, (deep_gemm::GemmType)0>", "gemm"},
      {"moe_ck2stages_gemm1_256x64x128x128_1x4_silu", "gemm1+act"},
      {"moe_ck2stages_gemm2_256x64x128x128_1x4", "gemm2"},
      {"_ZN5aiter41fmoe_stage1_bf16_pertokenFp8_g1u1_128x128_2tgE", "gemm1+act"},
      {"flydsl_moe2_a8w4_t32x128", "gemm2"},
      {"_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelI", "align"},
      {"_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS5_17GroupProblemShapeIN4cute",
       "moe_gemm"},
      {"void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t>", "moe_setup"},
      {"void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<half>", "permute"},
      {"void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<half>", "combine"},
      {"nvjet_sm90_tst_16x64_64x16_4x1_v_bz_TNN", "gemm"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>", "gemm_part"},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256", "gemm"},
      {"triton_poi_fused_constant_pad_nd_moe_forward_0", "prepare"},
      {"triton_poi_fused_add_mul_1", "elementwise"},
      {"triton_red_fused_add_mean_mul_pow_rsqrt_2", "norm"},
      {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", "collective"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"},
      {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", "collective"},
      {"fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "attention"},
      {"kernel_unified_attention_3d", "attention"},
      {"reduce_segments", "attention"},
      {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "rope_cache"},
      {"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", "norm"},
      {"_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePass", "norm"},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>", "sampling"},
      {"void at::native::vectorized_gather_kernel<16, long>(char*, char*)", "indexing"},
      {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", "select"},
      {"gg_kernel", "moe_gemm"},
      {"gemv_up", "gemm1+act"},
      {"silu_mul", "act"},
      {"combine", "combine"},
  };
  const KernelClassifier classifier;
  for (const Known& known : kKnown) {
    const KernelRule* rule = classifier.find(known.name);
    ASSERT_NE(rule, nullptr) << known.name;
    const std::string kind = rule->stages.empty() ? std::string(class_name(rule->kernel_class)) : rule->stages.name();
    EXPECT_EQ(kind, known.kind) << known.name << " by " << rule->match;
  }
}

TEST(KernelClasses, UsersRulesComeFirst) {
  const std::string file = temp_file("k.json", R"({"schema": "moesim.kernel_classes/1", "rules": [
    {"match": "^fused_moe_kernel$", "class": "gemm1+act", "stack": "ours", "strategy": "stream_gemv"}]})");
  const KernelClassifier classifier(file);
  const KernelRule* rule = classifier.find("fused_moe_kernel");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->stages.name(), "gemm1+act");
  EXPECT_EQ(rule->strategy, "stream_gemv");
  EXPECT_EQ(classifier.find("fused_moe_kernel_gptq_awq")->kernel_class, KernelClass::kMoeGemm);
  EXPECT_EQ(classifier.find("no such name"), nullptr);
}

std::string error_of(const std::string& rules) {
  try {
    parse_kernel_rules(R"({"schema": "moesim.kernel_classes/1", "rules": )" + rules + "}", "k.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(KernelClasses, RefusesWrongRules) {
  EXPECT_THAT(error_of(R"([{"match": "a", "class": "gemm3"}])"), HasSubstr("gemm"));
  EXPECT_THAT(error_of(R"([{"match": "a", "class": "gemm1+gemm1"}])"), HasSubstr("/rules/0/class"));
  EXPECT_THAT(error_of(R"([{"match": "a", "class": "unknown"}])"), HasSubstr("/rules/0/class"));
  EXPECT_THAT(error_of(R"([{"match": "^*$", "class": "act"}])"), HasSubstr("/rules/0/match"));
  EXPECT_THAT(error_of(R"([{"match": "", "class": "act"}])"), HasSubstr("/rules/0/match"));
  EXPECT_THAT(error_of(R"([{"match": "a"}])"), HasSubstr("no key 'class'"));
  EXPECT_THAT(error_of(R"([{"match": "a", "class": "act", "Stack": "x"}])"), HasSubstr("unknown key 'Stack'"));
  EXPECT_THAT(error_of(R"([{"match": "a", "class": "act", "strategy": "grouped_gem"}])"), HasSubstr("grouped_gemm"));
  EXPECT_THAT(error_of(R"({})"), HasSubstr("an array"));
  EXPECT_THROW(parse_kernel_rules(R"({"schema": "other/1", "rules": []})", "k.json"), InputError);
}

// Names, counts and times of public traces, where the table is at hand: MOESIM_MEASURED names the folder that holds
// traces/kernel-tables.csv.
TEST(KernelClasses, CoverPublishedKernelTables) {
  const char* folder = std::getenv("MOESIM_MEASURED");
  if (folder == nullptr) GTEST_SKIP() << "MOESIM_MEASURED is not set";
  std::ifstream file(std::string(folder) + "/traces/kernel-tables.csv");
  ASSERT_TRUE(file);
  const KernelClassifier classifier;
  std::string line;
  std::getline(file, line);
  int names = 0, known = 0;
  double time = 0, known_time = 0;
  while (std::getline(file, line)) {
    const std::size_t comma = line.find(',') + 1;
    const bool quoted = line[comma] == '"';
    const std::size_t end = quoted ? line.find("\",", comma) : line.find(',', comma);
    const std::string name = line.substr(comma, end - comma);
    const std::size_t count_end = line.find(',', end + (quoted ? 2 : 1));
    const double us = std::stod(line.substr(count_end + 1));
    ++names;
    time += us;
    if (classifier.find(name) != nullptr) {
      ++known;
      known_time += us;
    } else {
      std::printf("no rule: %s\n", name.substr(0, 120).c_str());
    }
  }
  std::printf("%d of %d names, %.2f %% of time\n", known, names, 100 * known_time / time);
  EXPECT_GE(known, names * 95 / 100);
  EXPECT_GE(known_time, 0.99 * time);
}

}  // namespace
}  // namespace moesim
