// What one family writes differently from the next: each a trap for a reader that knows only the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/io/input_error.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

MoeModel parse(const std::string& text) { return parse_model(text, "folder/config.json"); }
MoeModel with(const std::string& text, const std::vector<std::string>& overrides) {
  return parse_model(text, "folder/config.json", ModelOverrides(overrides));
}

std::string message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    with(text, overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

std::vector<std::int64_t> moe_layers_of(const MoeModel& model) {
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < model.decoder_layers.size(); ++i) {
    if (model.decoder_layers[i].moe) layers.push_back(static_cast<std::int64_t>(i));
  }
  return layers;
}

// ------------------------------------------------------------------------------------------------ keys and nesting

TEST(Families, DbrxNestsItsKeysAndCallsTheHiddenSizeDModel) {
  const std::string text = R"({"model_type": "dbrx", "d_model": 64, "n_layers": 3, "n_heads": 4, "vocab_size": 10,
      "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 8, "moe_top_k": 2, "moe_normalize_expert_weights": 1},
      "attn_config": {"kv_n_heads": 2}})";
  const MoeModel model = parse(text);
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.expert_intermediate, 96);
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.topk, 2);
  EXPECT_EQ(model.layers, 3);
  EXPECT_TRUE(model.norm_topk);
  EXPECT_EQ(model.mixers.at(0).cached_values, 2 * 2 * 16);
  EXPECT_EQ(model.scoring, Scoring::kSoftmax);
}

TEST(Families, MistralsParamsJsonHasNoModelType) {
  const MoeModel model = parse(R"({"dim": 64, "n_layers": 2, "head_dim": 16, "hidden_dim": 96, "n_heads": 4,
      "n_kv_heads": 2, "vocab_size": 10, "moe": {"num_experts_per_tok": 2, "num_experts": 8}})");
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.expert_intermediate, 96);
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.moe_layers, 2);
  EXPECT_EQ(model.mixers.at(0).cache_heads, 2);
}

TEST(Families, IntermediateSizeIsTheExpertWidthHereAndTheDenseWidthThere) {
  const std::string body = R"("hidden_size": 64, "num_hidden_layers": 4, "num_experts_per_tok": 2,
      "intermediate_size": 96, )";
  for (const char* type : {"mixtral", "phimoe", "gpt_oss", "llama4_text", "arctic", "granitemoe", "minimax_m2"}) {
    const MoeModel model =
        parse(std::string(R"({"model_type": ")") + type + "\", " + body + R"("num_local_experts": 8})");
    EXPECT_EQ(model.expert_intermediate, 96) << type;
  }
  for (const char* type : {"qwen3_moe", "hy_v3", "kimi_linear"}) {
    const MoeModel model = parse(std::string(R"({"model_type": ")") + type + "\", " + body +
                                 R"("num_experts": 8, "moe_intermediate_size": 24, "first_k_dense_replace": 1})");
    EXPECT_EQ(model.expert_intermediate, 24) << type;
    if (model.decoder_layers[0].moe) continue;
    EXPECT_EQ(model.decoder_layers[0].dense_intermediate, 96) << type;
  }
}

TEST(Families, HunyuanWritesAListPerLayer) {
  const std::string head = R"({"model_type": "hunyuan_v1_moe", "hidden_size": 64, "num_hidden_layers": 3,
      "intermediate_size": 999, "num_experts": 8, )";
  const MoeModel model = parse(head + R"("moe_topk": [2, 2, 2], "moe_intermediate_size": [24, 24, 24],
      "num_shared_expert": [1, 1, 1]})");
  EXPECT_EQ(model.topk, 2);
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_intermediate, 24);
  EXPECT_THAT(message(head + R"("moe_topk": [2, 2, 4], "moe_intermediate_size": 24})"),
              AllOf(HasSubstr("/moe_topk/2"), HasSubstr("layers that differ are not modelled")));
  // Hunyuan-Large: one top-k, and its experts' width is intermediate_size.
  EXPECT_EQ(parse(head + R"("moe_topk": 1, "num_shared_expert": 1})").expert_intermediate, 999);
}

TEST(Families, ErnieVlListsTextBeforeVision) {
  const MoeModel model = parse(R"({"model_type": "ernie4_5_moe_vl", "hidden_size": 64, "num_hidden_layers": 4,
      "intermediate_size": 96, "moe_num_experts": [8, 8], "moe_k": 2, "moe_intermediate_size": [24, 12],
      "moe_num_shared_experts": 2, "moe_layer_start_index": [1, 1], "moe_layer_end_index": [3, 2]})");
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.shared_intermediate, 48);
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Families, NestingUnderOtherNames) {
  const std::string inner = R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2, "num_experts": 8,
      "num_experts_per_tok": 2, "moe_intermediate_size": 24})";
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    EXPECT_EQ(parse(std::string(R"({"model_type": "wrapper", ")") + key + "\": " + inner + "}").hidden, 64) << key;
  }
  EXPECT_EQ(parse(R"({"model_type": "omni", "thinker_config": {"text_config": )" + inner + "}}").hidden, 64);
}

// The model_type of a rewritten checkpoint may be its own; the architecture says what it is.
TEST(Families, AnArchitectureNamesTheFamilyWhereModelTypeDoesNot) {
  const MoeModel model = parse(R"({"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_ref",
      "hidden_size": 64, "num_hidden_layers": 4, "n_routed_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "n_shared_experts": 1, "num_hash_layers": 3})");
  EXPECT_EQ(model.family, "deepseek_ref");
  EXPECT_EQ(model.scoring, Scoring::kSqrtSoftplus);
  EXPECT_EQ(model.moe_layers, 4);
  EXPECT_TRUE(model.decoder_layers[2].hash_routed);
  EXPECT_FALSE(model.decoder_layers[3].hash_routed);
}

// ------------------------------------------------------------------------------------------- shared experts, scoring

TEST(Families, Llama4HasASharedExpertWithoutAKeyAndAlternates) {
  const std::string body = R"("hidden_size": 64, "num_hidden_layers": 4, "num_experts_per_tok": 1,
      "num_local_experts": 8, "intermediate_size": 96, "intermediate_size_mlp": 192)";
  const MoeModel model = parse(
      R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "interleave_moe_layer_step": 2, )" +
      body + "}}");
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_intermediate, 96);
  EXPECT_FALSE(model.shared_gate);
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(model.decoder_layers[0].dense_intermediate, 192);
  const MoeModel listed = parse(R"({"model_type": "llama4_text", "moe_layers": [0, 3], )" + body + "}");
  EXPECT_EQ(moe_layers_of(listed), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(parse(R"({"model_type": "llama4_text", "moe_layers": [], "interleave_moe_layer_step": 2, )" + body + "}")
                .moe_layers,
            2);
}

TEST(Families, Glm45IsSigmoidWithoutAKey) {
  const MoeModel model = parse(R"({"model_type": "glm4_moe", "hidden_size": 64, "num_hidden_layers": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
      "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1})");
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_TRUE(model.norm_topk);
}

TEST(Families, LingNamesItsScoreFunctionAndGroupsItsExperts) {
  const MoeModel model = parse(R"({"model_type": "bailing_moe_v2", "hidden_size": 64, "num_hidden_layers": 4,
      "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 24, "num_shared_experts": 1,
      "moe_shared_expert_intermediate_size": 40, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
      "score_function": "softmax"})");
  EXPECT_EQ(model.scoring, Scoring::kSoftmax) << "the key wins";
  EXPECT_EQ(model.groups, 4);
  EXPECT_EQ(model.topk_groups, 2);
  EXPECT_EQ(model.shared_intermediate, 40);
}

TEST(Families, MinimaxM3CountsSharedExpertsOfAWidthAndHasADenseWidth) {
  const MoeModel model = parse(R"({"model_type": "minimax_m3_vl", "text_config": {"hidden_size": 64,
      "num_hidden_layers": 3, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 24,
      "n_shared_experts": 2, "shared_intermediate_size": 40, "dense_intermediate_size": 96, "moe_layer_freq": [0, 1, 1],
      "scoring_func": "sigmoid", "routed_scaling_factor": 2.0}})");
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.shared_intermediate, 80);
  EXPECT_EQ(model.decoder_layers[0].dense_intermediate, 96);
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 2}));
}

// ---------------------------------------------------------------------------------------------------- placement

TEST(Families, StepListsItsMoeLayersInText) {
  const std::string body = R"("hidden_size": 64, "num_hidden_layers": 5, "moe_num_experts": 8, "moe_top_k": 2,
      "moe_intermediate_size": 24, "share_expert_dim": 40, "intermediate_size": 96, "moe_router_activation": "sigmoid",
      "moe_router_scaling_factor": 3.0, )";
  const auto model_with = [&](const std::string& list) {
    return R"({"model_type": "step3p5", )" + body + R"("moe_layers_enum": ")" + list + "\"}";
  };
  const MoeModel model = parse(model_with("1,3,4"));
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 3, 4}));
  EXPECT_EQ(model.routed_scale, 3.0);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_intermediate, 40);
  for (const char* list : {"1,,3", "1,x", "5", "-1", "", "1, 3"}) {
    EXPECT_THAT(message(model_with(list)), HasSubstr("layers from 0 to 4, separated by commas")) << list;
  }
}

TEST(Families, MimoHasAZeroOrOnePerLayer) {
  const std::string head = R"({"model_type": "mimo_v2_flash", "hidden_size": 64, "num_hidden_layers": 3,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "intermediate_size": 96,
      "routed_scaling_factor": null, "n_shared_experts": null, "moe_layer_freq": )";
  const MoeModel model = parse(head + "[0, 1, 1]}");
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(model.routed_scale, 1.0);
  EXPECT_EQ(model.shared_experts, 0);
  EXPECT_THAT(message(head + "[0, 1, 2]}"), HasSubstr("/moe_layer_freq/2"));
  EXPECT_THAT(message(head + "[0, 0, 0]}"), HasSubstr("no MoE layer"));
}

TEST(Families, JambaErnieAndArcticCountTheirOwnWay) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 6, "intermediate_size": 96, )";
  EXPECT_EQ(moe_layers_of(parse(R"({"model_type": "jamba", "num_experts": 8, "num_experts_per_tok": 2, )" + sizes +
                                R"("expert_layer_period": 2, "expert_layer_offset": 1})")),
            (std::vector<std::int64_t>{1, 3, 5}));
  EXPECT_EQ(moe_layers_of(parse(R"({"model_type": "ernie4_5_moe", "moe_num_experts": 8, "moe_k": 2, )" + sizes +
                                R"("moe_intermediate_size": 24, "moe_layer_start_index": 2, "moe_layer_end_index": 4,
                                   "moe_layer_interval": 1})")),
            (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(moe_layers_of(parse(R"({"model_type": "arctic", "num_local_experts": 8, "num_experts_per_tok": 2, )" +
                                sizes + R"("moe_layer_frequency": 3})")),
            (std::vector<std::int64_t>{2, 5}));
}

TEST(Families, ArcticAndGemmaRunADenseFfnBesideTheExperts) {
  const MoeModel arctic = parse(R"({"model_type": "arctic", "num_local_experts": 8, "num_experts_per_tok": 2,
      "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96, "moe_layer_frequency": 1})");
  EXPECT_EQ(arctic.decoder_layers[0].dense_intermediate, 64) << "as wide as the hidden state";
  const std::string text = R"("hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 40, "top_k_experts": )";
  const MoeModel gemma = parse(R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", )" + text +
                               R"(2, "num_experts": 8, "moe_intermediate_size": 24, "enable_moe_block": true}})");
  EXPECT_TRUE(gemma.decoder_layers[0].moe);
  EXPECT_EQ(gemma.decoder_layers[0].dense_intermediate, 40);
  EXPECT_EQ(gemma.topk, 2);
  EXPECT_THAT(message(R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", )" + text +
                      R"(null, "num_experts": null, "enable_moe_block": false}})"),
              HasSubstr("a dense model"));
}

TEST(Families, NemotronsPatternHasLayersOfOneBlockEach) {
  const std::string body = R"("hidden_size": 64, "n_routed_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40, "n_shared_experts": 1,
      "intermediate_size": 96, "moe_latent_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4)";
  const MoeModel model =
      parse(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "ME*-E", "num_hidden_layers": 5,
      "time_step_limit": [0.0, Infinity], )" +
            body + "}");
  EXPECT_FALSE(model.gated) << "two matrices, squared ReLU";
  EXPECT_EQ(model.latent, 16);
  EXPECT_EQ(model.shared_intermediate, 40);
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(model.decoder_layers[3].dense_intermediate, 96);
  EXPECT_EQ(model.decoder_layers[0].dense_intermediate, 0);
  EXPECT_FALSE(model.decoder_layers[1].mixer.has_value());
  EXPECT_EQ(model.mixers.at(*model.decoder_layers[0].mixer).name, "mamba2");
  EXPECT_EQ(model.mixers.at(*model.decoder_layers[2].mixer).name, "full_attention");
  // The largest has a list, and no number of layers.
  EXPECT_EQ(
      parse(R"({"model_type": "nemotron_h", "layers_block_type": ["mamba", "moe", "attention"], )" + body + "}").layers,
      3);
  EXPECT_THAT(message(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "MX", )" + body + "}"),
              HasSubstr("a pattern of M, *, - and E"));
  EXPECT_THAT(message(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M-*", "hidden_size": 64})"),
              HasSubstr("a dense model"));
}

TEST(Families, LongCatHasZeroExpertsAndTwoAttentionsALayer) {
  const MoeModel model = parse(R"({"model_type": "longcat_flash", "hidden_size": 64, "num_layers": 2,
      "num_hidden_layers": 4, "n_routed_experts": 8, "zero_expert_num": 4, "zero_expert_type": "identity", "moe_topk": 3,
      "expert_ffn_hidden_size": 24, "ffn_hidden_size": 96, "routed_scaling_factor": 6.0})");
  EXPECT_EQ(model.experts, 8);
  EXPECT_EQ(model.zero_experts, 4);
  EXPECT_EQ(model.topk, 3);
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.layers, 4) << "each of the two counts as two";
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{0, 2}));
  for (const DecoderLayer& layer : model.decoder_layers) EXPECT_EQ(layer.dense_intermediate, 96);
}

TEST(Families, KimiK3IsLatentAndNamesEverythingDifferently) {
  const MoeModel model = parse(R"({"model_type": "kimi_k3", "text_config": {"model_type": "kimi_linear",
      "hidden_size": 64, "num_hidden_layers": 4, "num_experts": 8, "num_experts_per_token": 2,
      "moe_intermediate_size": 24, "routed_expert_hidden_size": 32, "num_shared_experts": 2, "intermediate_size": 96,
      "first_k_dense_replace": 1, "num_expert_group": 1, "topk_group": 1, "moe_router_activation_func": "sigmoid",
      "moe_renormalize": false}})");
  EXPECT_EQ(model.topk, 2);
  EXPECT_EQ(model.latent, 32);
  EXPECT_EQ(model.shared_intermediate, 48);
  EXPECT_FALSE(model.norm_topk);
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
}

TEST(Families, CohereInklingAndMotifPutDenseLayersFirst) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 4, )";
  const MoeModel cohere =
      parse(R"({"model_type": "cohere2_moe", "num_experts": 8, "num_experts_per_tok": 2, )" + sizes +
            R"("intermediate_size": 24, "prefix_dense_intermediate_size": 96, "first_k_dense_replace": 1,
                                   "expert_selection_fn": "sigmoid", "num_shared_experts": 0})");
  EXPECT_EQ(cohere.expert_intermediate, 24);
  EXPECT_EQ(cohere.decoder_layers[0].dense_intermediate, 96);
  EXPECT_EQ(cohere.scoring, Scoring::kSigmoid);
  const MoeModel inkling = parse(R"({"model_type": "inkling_mm_model", "text_config": {"n_routed_experts": 8,
      "num_experts_per_tok": 2, )" +
                                 sizes + R"("intermediate_size": 24, "dense_intermediate_size": 96,
      "dense_mlp_idx": 2, "n_shared_experts": 2, "gate_activation": "sigmoid", "route_scale": 8.0}})");
  EXPECT_EQ(moe_layers_of(inkling), (std::vector<std::int64_t>{2, 3})) << "a boundary, not a layer";
  EXPECT_EQ(inkling.decoder_layers[1].dense_intermediate, 96);
  EXPECT_EQ(inkling.shared_intermediate, 48);
  EXPECT_EQ(inkling.routed_scale, 8.0);
  const MoeModel motif = parse(R"({"model_type": "Motif", "num_experts": 8, "experts_top_k": 2, )" + sizes +
                               R"("moe_intermediate_size": 24, "intermediate_size": 96, "n_dense_first_layers": 2,
                                  "num_shared_experts": 1, "score_func": "sigmoid", "route_norm": false})");
  EXPECT_EQ(motif.topk, 2);
  EXPECT_FALSE(motif.norm_topk);
  EXPECT_EQ(motif.moe_layers, 2);
}

// ------------------------------------------------------------------------------------------------------ overrides

const std::string kUnknown = R"({"model_type": "newmoe", "hidden_size": 64, "num_hidden_layers": 4, "num_experts": 8,
    "intermediate_size": 96, "n_shared_experts": 1, "first_k_dense_replace": 1})";

TEST(Overrides, SupplyWhatAnUnknownFamilyLacks) {
  EXPECT_THAT(message(kUnknown), AllOf(HasSubstr("missing: intermediate, topk"), HasSubstr("--model-override")));
  EXPECT_THAT(message(kUnknown, {"topk=2"}),
              AllOf(HasSubstr("missing: intermediate)"), Not(HasSubstr("missing: topk"))));
  const MoeModel model = with(kUnknown, {"topk=2", "intermediate=24"});
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.expert_intermediate, 24);
  EXPECT_EQ(model.topk, 2);
  EXPECT_EQ(model.shared_intermediate, 24);
  EXPECT_EQ(model.moe_layers, 3);
  EXPECT_THAT(model.origins, testing::Contains(testing::Pair("topk", "--model-override")));
  EXPECT_EQ(with(R"({"model_type": "x", "num_experts": 8})",
                 {"hidden=32", "intermediate=16", "topk=1", "layers=2", "experts=4"})
                .experts,
            4);
  // Nothing is missing but the family's rules: stated all the same.
  const std::string whole = R"({"model_type": "newmoe", "hidden_size": 64, "num_hidden_layers": 4, "num_experts": 8,
      "num_experts_per_tok": 2, "moe_intermediate_size": 24})";
  EXPECT_THAT(message(whole), HasSubstr("missing: which family's defaults hold"));
  EXPECT_TRUE(with(whole, {"family=qwen3_next"}).norm_topk);
  EXPECT_THAT(message(whole, {"family=qwen3_nxt"}), HasSubstr("did you mean 'qwen3_next'"));
}

TEST(Overrides, ReplaceValuesOfAKnownModel) {
  const MoeModel model = load_model("qwen3-30b-a3b", ModelOverrides({"hidden=1024",
                                                                     "intermediate=512",
                                                                     "experts=64",
                                                                     "topk=4",
                                                                     "layers=10",
                                                                     "moe_layers=6",
                                                                     "dense_intermediate=2048",
                                                                     "shared_intermediate=256",
                                                                     "latent=256",
                                                                     "zero_experts=32",
                                                                     "gated=false",
                                                                     "norm_topk=false",
                                                                     "scoring=sigmoid",
                                                                     "routed_scale=2.5",
                                                                     "groups=8",
                                                                     "topk_groups=4",
                                                                     "vocabulary=1000",
                                                                     "tied_embeddings=true",
                                                                     "weights=mxfp4",
                                                                     "shared_weights=fp8",
                                                                     "dense_weights=int8",
                                                                     "attention_weights=nvfp4",
                                                                     "head_weights=fp16"}));
  EXPECT_EQ(model.hidden, 1024);
  EXPECT_EQ(model.expert_intermediate, 512);
  EXPECT_EQ(model.experts, 64);
  EXPECT_EQ(model.topk, 4);
  EXPECT_EQ(model.layers, 10);
  EXPECT_EQ(moe_layers_of(model), (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(model.decoder_layers[0].dense_intermediate, 2048);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_intermediate, 256);
  EXPECT_EQ(model.latent, 256);
  EXPECT_EQ(model.zero_experts, 32);
  EXPECT_FALSE(model.gated);
  EXPECT_FALSE(model.norm_topk);
  EXPECT_EQ(model.scoring, Scoring::kSigmoid);
  EXPECT_EQ(model.routed_scale, 2.5);
  EXPECT_EQ(model.groups, 8);
  EXPECT_EQ(model.topk_groups, 4);
  EXPECT_EQ(model.vocabulary, 1000);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kMxfp4});
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kFp8});
  EXPECT_EQ(model.dense_weights, WeightFormat{Dtype::kInt8});
  EXPECT_EQ(model.head_weights, WeightFormat{Dtype::kFp16});
  EXPECT_EQ(model.mixers.at(0).before.at(0).format, WeightFormat{Dtype::kNvfp4});
  EXPECT_EQ(model.mixers.at(0).before.at(0).k, 1024) << "attention follows the hidden size";
}

TEST(Overrides, WrongOnesAreNamed) {
  const auto complaint = [](const std::vector<std::string>& overrides) {
    try {
      load_model("qwen3-30b-a3b", ModelOverrides(overrides));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_THAT(complaint({"hiden=64"}), AllOf(HasSubstr("--model-override"), HasSubstr("did you mean 'hidden'")));
  EXPECT_THAT(complaint({"hidden"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(complaint({"=4"}), HasSubstr("NAME=VALUE"));
  for (const char* value : {"hidden=", "hidden=0", "hidden=-1", "hidden=4k", "hidden=1.5", "hidden=1000001"}) {
    EXPECT_THAT(complaint({value}), HasSubstr("a whole number from 1 to 1000000")) << value;
  }
  EXPECT_THAT(complaint({"gated=yes"}), HasSubstr("true or false"));
  EXPECT_THAT(complaint({"weights=fp9"}), HasSubstr("a weight format"));
  EXPECT_THAT(complaint({"scoring=sigmoidd"}), HasSubstr("did you mean 'sigmoid'"));
  EXPECT_THAT(complaint({"routed_scale=-1"}), HasSubstr("a number from 0"));
  EXPECT_THAT(complaint({"topk=2", "topk=3"}), HasSubstr("topk once"));
  EXPECT_THAT(complaint({"topk=200"}), HasSubstr("found 200 (topk), expected at most 128 (num_experts)"));
  EXPECT_THAT(complaint({"moe_layers=49"}), HasSubstr("at most 48"));
  EXPECT_THAT(complaint({"groups=3"}), HasSubstr("groups that divide 128 experts"));
}

}  // namespace
}  // namespace moesim
