#include "workloads/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Small sizes that no model has, so that no value can come from elsewhere.
const std::string kQwen3Body =
    R"("hidden_size": 64, "num_hidden_layers": 6, "num_experts": 12, "num_experts_per_tok": 3,
       "moe_intermediate_size": 24, "intermediate_size": 999)";
const std::string kDeepseekBody =
    R"("hidden_size": 64, "num_hidden_layers": 10, "n_routed_experts": 16, "num_experts_per_tok": 4,
       "moe_intermediate_size": 24, "intermediate_size": 999, "n_shared_experts": 2, "first_k_dense_replace": 3)";
const std::string kMixtralBody =
    R"("hidden_size": 64, "num_hidden_layers": 6, "num_local_experts": 8, "num_experts_per_tok": 2,
       "intermediate_size": 96)";

// `extra`: further members, each with a comma before it.
std::string config(const std::string& type, const std::string& body, const std::string& extra = "") {
  return "{\"model_type\": \"" + type + "\", " + body + extra + "}";
}
MoeModel parse(const std::string& text) { return parse_model(text, "folder/config.json"); }
MoeModel qwen3(const std::string& extra) { return parse(config("qwen3_moe", kQwen3Body, extra)); }
MoeModel deepseek(const std::string& extra) { return parse(config("deepseek_v3", kDeepseekBody, extra)); }
std::string quantised(const std::string& members) { return R"(, "quantization_config": {)" + members + "}"; }

std::string message(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(ModelConfig, Qwen3) {
  const MoeModel model = qwen3(R"(, "norm_topk_prob": true, "torch_dtype": "bfloat16")");
  EXPECT_EQ(model.family, "qwen3_moe");
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.experts, 12);
  EXPECT_EQ(model.topk, 3);
  EXPECT_TRUE(model.gated);
  EXPECT_EQ(model.shared_experts, 0);
  EXPECT_EQ(model.layers, 6);
  EXPECT_EQ(model.moe_layers, 6);
  EXPECT_EQ(model.scoring, Scoring::kSoftmax);
  EXPECT_TRUE(model.norm_topk);
  EXPECT_EQ(model.routed_scale, 1.0);
  EXPECT_EQ(model.groups, 1);
  EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kBf16});
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kBf16});
}

TEST(ModelConfig, NormTopkDefaultsByFamily) {
  for (const char* type : {"qwen2_moe", "qwen3_moe"}) EXPECT_FALSE(parse(config(type, kQwen3Body)).norm_topk) << type;
  for (const char* type : {"qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl_moe", "qwen3_vl_moe_text"}) {
    EXPECT_TRUE(parse(config(type, kQwen3Body)).norm_topk) << type;
    EXPECT_FALSE(parse(config(type, kQwen3Body, R"(, "norm_topk_prob": false)")).norm_topk) << type;
  }
  EXPECT_FALSE(parse(config("deepseek_v2", kDeepseekBody)).norm_topk);
  EXPECT_TRUE(parse(config("deepseek_v3", kDeepseekBody)).norm_topk);
  // Mixtral's code renormalises without asking.
  EXPECT_TRUE(parse(config("mixtral", kMixtralBody, R"(, "norm_topk_prob": false)")).norm_topk);
}

TEST(ModelConfig, Qwen35IsReadFromItsTextConfig) {
  const MoeModel model = parse(R"({"model_type": "qwen3_5_moe", "hidden_size": 1, "vision_config": {"hidden_size": 2},
                "text_config": {"model_type": "qwen3_5_moe_text", "shared_expert_intermediate_size": 40, )" +
                               kQwen3Body + "}}");
  EXPECT_EQ(model.family, "qwen3_5_moe");
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_intermediate, 40);
  EXPECT_TRUE(model.shared_gate);
}

TEST(ModelConfig, ANestedConfigWithoutItsOwnTypeHasTheOuterOne) {
  EXPECT_EQ(parse(R"({"model_type": "qwen3_vl_moe", "text_config": {)" + kQwen3Body + "}}").hidden, 64);
}

TEST(ModelConfig, SharedWidthZeroOrNullIsNone) {
  for (const char* value : {"0", "null"}) {
    const MoeModel model = qwen3(std::string(R"(, "shared_expert_intermediate_size": )") + value);
    EXPECT_EQ(model.shared_experts, 0);
    EXPECT_EQ(model.shared_intermediate, 0);
    EXPECT_FALSE(model.shared_gate);
  }
}

TEST(ModelConfig, SparseStepAndDenseLayers) {
  // (layer + 1) % 2 == 0 leaves 1, 3, 5; layer 3 is listed as dense, and so is 4, which was dense anyway.
  EXPECT_EQ(qwen3(R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3, 4])").moe_layers, 2);
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "mlp_only_layers": [6])")), HasSubstr("/mlp_only_layers/0"));
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "decoder_sparse_step": 7)")), HasSubstr("no MoE layer"));
}

TEST(ModelConfig, MixtralsIntermediateSizeIsTheExpertWidth) {
  const MoeModel model = parse(config("mixtral", kMixtralBody));
  EXPECT_EQ(model.expert_intermediate, 96);
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.shared_experts, 0);
  EXPECT_EQ(model.moe_layers, 6);
}

TEST(ModelConfig, OlmoesIntermediateSizeIsTheExpertWidth) {
  const MoeModel model = parse(config("olmoe", R"("hidden_size": 64, "num_hidden_layers": 2, "num_experts": 16,
      "num_experts_per_tok": 8, "intermediate_size": 32)"));
  EXPECT_EQ(model.expert_intermediate, 32);
  EXPECT_EQ(model.experts, 16);
  EXPECT_FALSE(model.norm_topk);
}

TEST(ModelConfig, DeepseekV3) {
  const MoeModel model = deepseek(R"(, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5)");
  EXPECT_EQ(model.shared_experts, 2);
  EXPECT_EQ(model.shared_intermediate, 48);
  EXPECT_FALSE(model.shared_gate);
  EXPECT_EQ(model.moe_layers, 7);
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_EQ(model.groups, 4);
  EXPECT_EQ(model.topk_groups, 2);
  EXPECT_EQ(model.routed_scale, 2.5);
}

TEST(ModelConfig, DeepseeksRelativesReadAlike) {
  for (const char* type : {"deepseek_v32", "kimi_k2", "glm_moe_dsa"}) {
    const MoeModel model = parse(config(type, kDeepseekBody));
    EXPECT_EQ(model.family, type);
    EXPECT_EQ(model.scoring, Scoring::kSigmoid);
    EXPECT_EQ(model.moe_layers, 7);
  }
  EXPECT_EQ(parse(config("deepseek_v2", kDeepseekBody)).scoring, Scoring::kSoftmax);
  EXPECT_EQ(
      parse(R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2", )" + kDeepseekBody + "}}").family,
      "kimi_k25");
}

TEST(ModelConfig, ScoringKeyWinsOverTheFamily) {
  EXPECT_EQ(deepseek(R"(, "scoring_func": "softmax")").scoring, Scoring::kSoftmax);
  EXPECT_EQ(deepseek(R"(, "scoring_func": "sqrtsoftplus")").scoring, Scoring::kSqrtSoftplus);
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "scoring_func": "sigmoidd")")),
              HasSubstr("did you mean 'sigmoid'"));
}

TEST(ModelConfig, DenseLayersThenEverySecond) {
  // Of layers 3 to 9 those divisible by 2: 4, 6, 8.
  EXPECT_EQ(deepseek(R"(, "moe_layer_freq": 2)").moe_layers, 3);
  EXPECT_EQ(deepseek(R"(, "moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 1, 1, 0])").moe_layers, 8);
  EXPECT_EQ(deepseek(R"(, "mlp_layer_types": ["dense", "dense", "dense", "dense", "dense",
                                              "sparse", "sparse", "sparse", "sparse", "sparse"])")
                .moe_layers,
            5);
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "moe_layer_freq": [0, 1])")),
              AllOf(HasSubstr("2 entries"), HasSubstr("10 layers")));
}

TEST(ModelConfig, GreedyTopkIgnoresGroups) {
  EXPECT_EQ(deepseek(R"(, "topk_method": "greedy", "n_group": 4, "topk_group": 2)").groups, 1);
}

TEST(ModelConfig, ImpossibleGroups) {
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "n_group": 3)")), HasSubstr("a divisor of 16 experts"));
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "n_group": 4, "topk_group": 5)")),
              HasSubstr("/topk_group"));
  // 16 groups of one expert, three of them allowed: top-4 cannot be filled.
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "n_group": 16, "topk_group": 3)")),
              AllOf(HasSubstr("4 (top-k)"), HasSubstr("at most 3")));
}

TEST(ModelConfig, GptOss) {
  const MoeModel model = parse(config("gpt_oss", kMixtralBody, R"(, "experts_per_token": 2)" + quantised(R"(
      "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"])")));
  EXPECT_EQ(model.expert_intermediate, 96);
  EXPECT_EQ(model.topk, 2);
  EXPECT_TRUE(model.norm_topk);
  EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kMxfp4});
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kBf16}) << "no shared experts, and the router stays in 16 bits";
}

TEST(ModelConfig, TwoNamesForOneValueMustAgree) {
  EXPECT_THAT(message(config("gpt_oss", kMixtralBody, R"(, "experts_per_token": 4)")),
              AllOf(HasSubstr("/experts_per_token"), HasSubstr("2, as num_experts_per_tok says")));
}

TEST(ModelConfig, MinimaxM2) {
  const MoeModel model = parse(config("minimax_m2", kMixtralBody, R"(, "shared_intermediate_size": 0)"));
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_EQ(model.expert_intermediate, 96);
  EXPECT_EQ(model.shared_experts, 0);
  EXPECT_EQ(parse(config("minimax_m2", kMixtralBody, R"(, "shared_intermediate_size": 7)")).shared_intermediate, 7);
}

// ---------------------------------------------------------------------------------------------- quantisation

struct QuantCase {
  const char* members;
  WeightFormat experts;
};
class Quantised : public testing::TestWithParam<QuantCase> {};

TEST_P(Quantised, ExpertsAndSharedExperts) {
  const MoeModel model = deepseek(quantised(GetParam().members));
  EXPECT_EQ(model.expert_weights, GetParam().experts);
  EXPECT_EQ(model.other_weights, GetParam().experts);
}

constexpr const char* kPacked = R"("quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights":
    {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}, "ignore": ["lm_head"])";

INSTANTIATE_TEST_SUITE_P(
    Methods, Quantised,
    testing::Values(QuantCase{R"("quant_method": "fp8", "weight_block_size": [128, 128])", {Dtype::kFp8Block128}},
                    QuantCase{R"("quant_method": "fp8")", {Dtype::kFp8}},
                    QuantCase{R"("quant_method": "fp8", "weight_block_size": null)", {Dtype::kFp8}},
                    QuantCase{R"("quant_method": "mxfp4")", {Dtype::kMxfp4}},
                    QuantCase{R"("quant_method": "modelopt", "quant_algo": "NVFP4")", {Dtype::kNvfp4}},
                    QuantCase{R"("quant_method": "modelopt", "quant_algo": "FP8")", {Dtype::kFp8}},
                    QuantCase{R"("quant_algo": "NVFP4")", {Dtype::kNvfp4}},
                    QuantCase{R"("quant_method": "gptq", "bits": 4, "group_size": 128)", {Dtype::kInt4, 128}},
                    QuantCase{R"("quant_method": "gptq", "bits": 8, "group_size": 128)", {Dtype::kInt8}},
                    QuantCase{R"("quant_method": "awq", "bits": 4, "group_size": 64)", {Dtype::kInt4, 64}},
                    QuantCase{kPacked, {Dtype::kInt4, 32}},
                    QuantCase{R"("quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                     "config_groups": {"a": {"weights": {"num_bits": 4}}})",
                              {Dtype::kNvfp4}},
                    QuantCase{R"("quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
                     "config_groups": {"a": {"weights": {"num_bits": 4}}})",
                              {Dtype::kMxfp4}},
                    QuantCase{R"("quant_method": "compressed-tensors", "format": "float-quantized",
                     "config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "block",
                     "block_structure": [128, 128]}}})",
                              {Dtype::kFp8Block128}},
                    QuantCase{R"("quant_method": "compressed-tensors", "format": "float-quantized",
                     "config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "channel"}}})",
                              {Dtype::kFp8}},
                    QuantCase{R"("quant_method": "modelopt", "quant_algo": "W4A16_AWQ")", {Dtype::kInt4, 128}},
                    QuantCase{R"("quant_method": "modelopt", "quant_algo": "FP8_PB_WO")", {Dtype::kFp8Block128}},
                    QuantCase{R"("quant_method": "bitsandbytes", "load_in_4bit": true)", {Dtype::kInt4, 64}},
                    QuantCase{R"("quant_method": "auto-round", "bits": 4, "group_size": 128)", {Dtype::kInt4, 128}},
                    QuantCase{R"("bits": 4, "group_size": 64)", {Dtype::kInt4, 64}},
                    QuantCase{R"("quant_method": "compressed-tensors", "format": "int-quantized",
                     "config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "channel"}}})",
                              {Dtype::kInt8}}));

TEST(Quantisation, ExcludedSharedExpertsStayIn16Bits) {
  const std::string fp8 = R"("quant_method": "fp8", "weight_block_size": [128, 128], )";
  for (const char* list :
       {R"("modules_to_not_convert": ["model.layers.5.mlp.shared_experts"])",
        R"("ignore": ["lm_head", "*.mlp.shared_expert.*"])", R"("ignore": ["re:.*shared_experts.*"])",
        R"("dynamic": {"lm_head": {}, "-:.*shared_expert.*": {}})"}) {
    const MoeModel model = deepseek(quantised(fp8 + list));
    EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kFp8Block128}) << list;
    EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kBf16}) << list;
  }
}

TEST(Quantisation, ExclusionsThatLeaveTheSharedExpertsQuantised) {
  const std::string fp8 = R"("quant_method": "fp8", "modules_to_not_convert": )";
  // The gate of the shared expert is one column; layer 10 of 10 is a multi-token-prediction layer.
  for (const char* list :
       {R"(["model.layers.0.mlp.gate", "model.layers.0.mlp.shared_expert_gate"])",
        R"(["model.layers.10.mlp.shared_experts", "model.layers.10.mlp.experts.3"])", "null", "[]"}) {
    EXPECT_EQ(deepseek(quantised(fp8 + list)).other_weights, WeightFormat{Dtype::kFp8}) << list;
  }
}

TEST(Quantisation, MayStandInTheNestedConfig) {
  const MoeModel model =
      parse(R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2", "dtype": "float16", )" +
            kDeepseekBody + quantised(kPacked) + "}}");
  EXPECT_EQ(model.expert_weights, (WeightFormat{Dtype::kInt4, 32}));
}

TEST(Quantisation, DtypeWithoutQuantisation) {
  EXPECT_EQ(qwen3(R"(, "dtype": "float16")").expert_weights, WeightFormat{Dtype::kFp16});
  EXPECT_EQ(qwen3(R"(, "torch_dtype": "float32")").other_weights, WeightFormat{Dtype::kFp32});
  EXPECT_EQ(qwen3(R"(, "torch_dtype": "bfloat16", "quantization_config": null)").expert_weights,
            WeightFormat{Dtype::kBf16});
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "dtype": "bfloat61")")),
              HasSubstr("did you mean 'bfloat16'"));
}

struct RefusedCase {
  const char* members;
  const char* reason;
};
class Refused : public testing::TestWithParam<RefusedCase> {};

TEST_P(Refused, SaysWhy) {
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, quantised(GetParam().members))),
              AllOf(HasSubstr("folder/config.json"), HasSubstr("/quantization_config"), HasSubstr(GetParam().reason)));
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Refused,
    testing::Values(RefusedCase{R"("quant_method": "quip")", "fp8, mxfp4, modelopt, compressed-tensors, gptq, awq"},
                    RefusedCase{R"("quant_method": "bitsandbytes")", "load_in_4bit"},
                    RefusedCase{R"("quant_method": "gtpq", "bits": 4)", "did you mean 'gptq'"},
                    RefusedCase{R"("bits": 4)", "quant_method"},
                    RefusedCase{R"("quant_method": "fp8", "weight_block_size": [64, 128])", "blocks of [64, 128]"},
                    RefusedCase{R"("quant_method": "fp8", "weight_block_size": 128)", "array"},
                    RefusedCase{R"("quant_method": "modelopt", "quant_algo": "W8A8_SQ")", "other ModelOpt formats"},
                    RefusedCase{R"("quant_method": "fp8", "quant_algo": "MIXED_PRECISION")", "quantized_layers"},
                    RefusedCase{R"("quant_method": "gptq", "bits": 3, "group_size": 128)", "4 or 8"},
                    RefusedCase{R"("quant_method": "gptq", "bits": 4, "group_size": -1)", "32, 64 or 128"},
                    RefusedCase{R"("quant_method": "awq", "bits": 8, "group_size": 128)", "other widths"},
                    RefusedCase{R"("quant_method": "fp8", "ignore": ["re:.*mlp.experts.*"])", "mixed precision"},
                    RefusedCase{R"("quant_method": "fp8", "ignore": [3])", "/ignore/0"},
                    RefusedCase{R"("quant_method": "compressed-tensors", "format": "float-quantized",
                        "config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "token"}}})",
                                "'float-quantized' of 8 bits, one scale per token"},
                    RefusedCase{
                        R"("quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {})",
                        "no group"},
                    RefusedCase{R"("quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
                        "a": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}},
                        "b": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 64}}})",
                                "int4:64 beside int4:32"}));

// ------------------------------------------------------------------------------------------------ wrong input

TEST(WrongConfig, TopkAboveTheExperts) {
  EXPECT_THAT(message(config("mixtral", R"("hidden_size": 64, "num_hidden_layers": 6, "num_local_experts": 8,
                      "num_experts_per_tok": 12, "intermediate_size": 96)")),
              HasSubstr("found 12 (num_experts_per_tok), expected at most 8 (num_local_experts)"));
}

TEST(WrongConfig, MissingAndNullKeysAreNamed) {
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    std::string missing = config("qwen3_moe", kQwen3Body);
    missing.replace(missing.find("\"" + std::string(key)), 2, "\"_");
    EXPECT_THAT(message(missing), HasSubstr("'" + std::string(key) + "'")) << key;
  }
  EXPECT_THAT(message(config("deepseek_v3", R"("hidden_size": 64, "num_hidden_layers": 10, "n_routed_experts": 16,
                      "num_experts_per_tok": 4, "moe_intermediate_size": 24)")),
              HasSubstr("first_k_dense_replace"));
  EXPECT_THAT(message(config("qwen3_moe", R"("hidden_size": null)")), HasSubstr("/hidden_size"));
}

TEST(WrongConfig, ValuesOutOfRangeOrOfAnotherType) {
  for (const char* value : {"0", "-64", "1000001", "64.5", "\"64\"", "true", "[64]"}) {
    std::string text = config("qwen3_moe", kQwen3Body);
    text.replace(text.find(": 64,"), 4, ": " + std::string(value));
    EXPECT_THAT(message(text), HasSubstr("/hidden_size")) << value;
  }
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "norm_topk_prob": 1)")), HasSubstr("/norm_topk_prob"));
  EXPECT_THAT(message(config("deepseek_v3", kDeepseekBody, R"(, "routed_scaling_factor": -1)")),
              HasSubstr("/routed_scaling_factor"));
}

TEST(WrongConfig, ADenseModelHasNoRoutedExperts) {
  EXPECT_THAT(message(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 99, "num_experts": null})"),
              AllOf(HasSubstr("model_type 'llama', a dense model: it has no routed experts"), HasSubstr("qwen3_moe"),
                    HasSubstr("mixtral")));
}

TEST(WrongConfig, AnUnknownFamilyIsNamedWithWhatItLacksAndTheNearestKnownOne) {
  EXPECT_THAT(
      message(config("mixtrall", kMixtralBody)),
      AllOf(HasSubstr("found model_type 'mixtrall', of no known family (found: hidden in hidden_size, experts in "
                      "num_local_experts, topk in num_experts_per_tok, layers in num_hidden_layers; missing: "
                      "intermediate)"),
            HasSubstr("expected a known family: Motif, afmoe, arctic"), HasSubstr("--model-override"),
            HasSubstr("did you mean 'mixtral'"), Not(HasSubstr("dense"))));
  EXPECT_THAT(message(R"({"model_type": "wrapper", "text_config": {"model_type": "inner", "num_experts": 4}})"),
              AllOf(HasSubstr("/text_config/model_type"), HasSubstr("'inner'")));
}

TEST(WrongConfig, NotAConfigAtAll) {
  EXPECT_THAT(message("[]"), HasSubstr("found an array, expected an object"));
  EXPECT_THAT(message("{}"), HasSubstr("model_type"));
  EXPECT_THAT(message(R"({"model_type": 3})"), HasSubstr("/model_type"));
  EXPECT_THAT(message(R"({"model_type": "qwen3_vl_moe", "text_config": []})"), HasSubstr("/text_config"));
  const std::string whole = config("qwen3_moe", kQwen3Body);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_THROW(parse(whole.substr(0, length)), InputError) << length;
  }
}

TEST(WrongConfig, ADuplicateKeyIsNotSilentlyTheLast) {
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "num_experts": 99)")), HasSubstr("num_experts"));
}

TEST(WrongConfig, OurOwnObjectIsStrict) {
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "moesim": {"name": "a", "sorce": "b"})")),
              HasSubstr("sorce"));
  EXPECT_THAT(message(config("qwen3_moe", kQwen3Body, R"(, "moesim": {"name": "a"})")), HasSubstr("source"));
}

// ------------------------------------------------------------------------------------------- names and paths

TEST(ModelName, ComesFromTheFileOrItsFolder) {
  const std::string text = config("qwen3_moe", kQwen3Body);
  EXPECT_EQ(parse_model(text, "a/Tiny-MoE/config.json").name, "Tiny-MoE");
  EXPECT_EQ(parse_model(text, "config.json").name, "config");
  EXPECT_EQ(parse_model(text, "a/tiny.json").name, "tiny");
  EXPECT_EQ(qwen3(R"(, "moesim": {"name": "a", "source": "b"})").name, "a");
  EXPECT_EQ(qwen3(R"(, "moesim": {"name": "a", "source": "b"})").source, "b");
}

TEST(LoadModel, ReadsAFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "moesim_load_model_test.json";
  std::ofstream(path) << config("mixtral", kMixtralBody);
  const MoeModel model = load_model(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.file, path.string());
}

TEST(LoadModel, WrongNamesAndPaths) {
  try {
    load_model("qwen3-30b-a3");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().nearest, "qwen3-30b-a3b");
    EXPECT_THAT(error.what(), HasSubstr("mixtral-8x7b"));
  }
  EXPECT_THROW(load_model("no/such/config.json"), InputError);
  EXPECT_THROW(load_model("missing.json"), InputError);
  EXPECT_THROW(load_model(""), InputError);
  EXPECT_THROW(load_model(testing::TempDir()), InputError);
}

}  // namespace
}  // namespace moesim
