// Attention, linear attention and state spaces as read from config.json, against counts by hand.
#include "workloads/mixers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/io/input_error.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

using testing::HasSubstr;

// Of a family with attention as asked for; the rest is small and without effect here.
Mixer only_mixer(const MoeModel& model) {
  EXPECT_EQ(model.mixers.size(), 1U);
  return model.mixers.at(0);
}

MoeModel parse(const std::string& type, const std::string& attention) {
  return parse_model(R"({"model_type": ")" + type +
                         R"(", "hidden_size": 64, "num_hidden_layers": 4, "num_experts": 8, "num_experts_per_tok": 2,
      "n_routed_experts": 8, "num_local_experts": 8, "moe_intermediate_size": 24, "intermediate_size": 96,
      "first_k_dense_replace": 0, "vocab_size": 100, )" +
                         attention + "}",
                     "config.json");
}

std::vector<std::string> names(const MoeModel& model) {
  std::vector<std::string> result;
  for (const DecoderLayer& layer : model.decoder_layers) {
    result.push_back(layer.mixer ? model.mixers.at(*layer.mixer).name : "");
  }
  return result;
}

TEST(Mixers, GroupedQueryAttention) {
  const Mixer mixer =
      only_mixer(parse("mixtral", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10)"));
  EXPECT_EQ(mixer.name, "full_attention");
  ASSERT_EQ(mixer.before.size(), 1U);
  EXPECT_EQ(mixer.before[0].n, (4 + 2 + 2) * 10);
  EXPECT_EQ(mixer.before[0].k, 64);
  EXPECT_EQ(mixer.before[0].split, Split::kRows);
  EXPECT_EQ(mixer.after.at(0).n, 64);
  EXPECT_EQ(mixer.after.at(0).k, 40);
  EXPECT_EQ(mixer.after.at(0).split, Split::kColumns);
  EXPECT_EQ(mixer.cached_values, 2 * 2 * 10);
  EXPECT_EQ(mixer.cache_heads, 2);
  EXPECT_EQ(mixer.context_flops, 4 * 2 * (10 + 10));
  EXPECT_EQ(mixer.window, 0);
  EXPECT_EQ(mixer.small_parameters, 0);
  // head_dim and num_key_value_heads follow the heads where they are absent.
  EXPECT_EQ(only_mixer(parse("mixtral", R"("num_attention_heads": 4)")).cached_values, 2 * 64);
}

TEST(Mixers, NormsBiasesAndGates) {
  const std::string heads = R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10)";
  EXPECT_EQ(only_mixer(parse("qwen3_moe", heads)).small_parameters, 2 * 10) << "norms of a head";
  EXPECT_EQ(only_mixer(parse("olmoe", heads)).small_parameters, (4 + 2) * 10) << "norms of all heads";
  EXPECT_EQ(only_mixer(parse("qwen2_moe", heads)).small_parameters, 80) << "biases of Q, K and V";
  EXPECT_EQ(only_mixer(parse("qwen3_moe", heads + R"(, "attention_bias": true)")).small_parameters, 20 + 80);
  EXPECT_EQ(only_mixer(parse("gpt_oss", heads)).small_parameters, 80 + 64 + 4) << "and of the output; sinks";
  EXPECT_EQ(only_mixer(parse("glm4_moe", heads + R"(, "use_qk_norm": false)")).small_parameters, 0);
  EXPECT_EQ(only_mixer(parse("qwen3_moe", heads)).before[0].n, 80);
  EXPECT_EQ(only_mixer(parse("qwen3_moe", heads + R"(, "attn_output_gate": true)")).before[0].n, 120);
  EXPECT_EQ(
      only_mixer(parse("step3p5", heads + R"(, "use_head_wise_attn_gate": true, "moe_layers_enum": "1")")).before[0].n,
      84);
}

TEST(Mixers, SlidingWindowsByListPatternAndOwnHeads) {
  const MoeModel oss = parse("gpt_oss", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10,
      "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
      "full_attention"])");
  EXPECT_EQ(names(oss),
            (std::vector<std::string>{"sliding_attention", "full_attention", "sliding_attention", "full_attention"}));
  EXPECT_EQ(oss.mixers.at(0).window, 128);
  EXPECT_EQ(oss.mixers.at(1).window, 0);

  const MoeModel mimo = parse("mimo_v2_flash", R"("num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 12,
      "v_head_dim": 8, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 12,
      "swa_v_head_dim": 8, "sliding_window": 128, "hybrid_layer_pattern": [0, 1, 1, 0], "attention_chunk_size": 128,
      "add_swa_attention_sink_bias": true)");
  EXPECT_EQ(names(mimo)[1], "sliding_attention");
  EXPECT_EQ(mimo.mixers.at(0).cached_values, 12 + 8);
  EXPECT_EQ(mimo.mixers.at(1).cached_values, 2 * (12 + 8));
  EXPECT_EQ(mimo.mixers.at(1).after.at(0).k, 4 * 8) << "values are narrower than keys";
  EXPECT_EQ(mimo.mixers.at(1).small_parameters, 4) << "sinks";
  EXPECT_EQ(mimo.mixers.at(0).small_parameters, 0);

  const MoeModel gemma = parse("gemma4_text", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "global_head_dim": 16, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "sliding_window": 64,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])");
  EXPECT_EQ(gemma.mixers.at(0).before.at(0).n, (4 + 2 + 2) * 8);
  EXPECT_EQ(gemma.mixers.at(1).before.at(0).n, (4 + 1) * 16) << "keys serve as values";
  EXPECT_EQ(gemma.mixers.at(1).cached_values, 2 * 16);

  const MoeModel llama = parse("llama4_text", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "attention_chunk_size": 8192, "interleave_moe_layer_step": 1)");
  EXPECT_EQ(names(llama), (std::vector<std::string>{"chunked_attention", "chunked_attention", "chunked_attention",
                                                    "full_attention"}));
  EXPECT_EQ(llama.mixers.at(0).window, 8192);
}

TEST(Mixers, HeadsMayBeListedByLayer) {
  const MoeModel model = parse("laguna", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "num_attention_heads_per_layer": [4, 6, 6, 4], "sliding_window": 64, "gating": "per-head", "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])");
  EXPECT_EQ(model.mixers.size(), 4U) << "two kinds, each with two numbers of heads";
  EXPECT_EQ(model.mixers.at(0).before.at(0).n, (4 + 2 + 2) * 8 + 4) << "a gate a head";
  EXPECT_EQ(model.mixers.at(1).before.at(0).n, (6 + 2 + 2) * 8 + 6);
  EXPECT_EQ(only_mixer(parse("laguna", R"("num_attention_heads": 4, "head_dim": 8, "gating": true)")).before.at(0).n,
            3 * 32 + 4);
}

TEST(Mixers, LayersMayBeNamedByNumber) {
  EXPECT_EQ(
      names(parse("inkling_text", R"("num_attention_heads": 4, "head_dim": 8, "swa_num_key_value_heads": 2,
      "sliding_window_size": 64, "local_layer_ids": [0, 1, 3])")),
      (std::vector<std::string>{"sliding_attention", "sliding_attention", "full_attention", "sliding_attention"}));
  EXPECT_EQ(names(parse("solar_open2", R"("num_attention_heads": 4, "head_dim": 8, "gqa_layers": [3],
      "linear_attn_config": {"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4})")),
            (std::vector<std::string>{"kimi_delta_attention", "kimi_delta_attention", "kimi_delta_attention",
                                      "full_attention"}));
}

TEST(Mixers, LatentAttentionAbsorbsItsUpProjections) {
  const std::string keys = R"("num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 32,
      "qk_nope_head_dim": 12, "qk_rope_head_dim": 6, "v_head_dim": 10, )";
  const Mixer mixer = only_mixer(parse("deepseek_v3", keys + R"("q_lora_rank": 20)"));
  EXPECT_EQ(mixer.name, "mla");
  std::int64_t parameters = 0;
  for (const WeightMatrix& matrix : mixer.before) parameters += matrix.parameters();
  for (const WeightMatrix& matrix : mixer.after) parameters += matrix.parameters();
  // q_a, q_b, kv_a, kv_b (keys and values of four heads), o.
  EXPECT_EQ(parameters, 20 * 64 + 4 * 18 * 20 + (32 + 6) * 64 + 32 * 4 * (12 + 10) + 64 * 4 * 10);
  EXPECT_EQ(mixer.before.back().count, 4) << "a matrix a head";
  EXPECT_EQ(mixer.cached_values, 32 + 6);
  EXPECT_EQ(mixer.cache_heads, 1);
  EXPECT_EQ(mixer.context_flops, 2 * 4 * (32 + 6 + 32));
  EXPECT_EQ(mixer.small_parameters, 20 + 32);

  const Mixer lite = only_mixer(parse("deepseek_v2", keys + R"("q_lora_rank": null)"));
  EXPECT_EQ(lite.before.at(0).name, "q");
  EXPECT_EQ(lite.before.at(0).k, 64);

  const Mixer sparse = only_mixer(parse("deepseek_v32", keys + R"("q_lora_rank": 20, "index_n_heads": 3,
      "index_head_dim": 5, "index_topk": 2048)"));
  EXPECT_EQ(sparse.name, "mla_sparse");
  EXPECT_EQ(sparse.window, 2048);
  EXPECT_EQ(sparse.indexed_values, 5);
  EXPECT_EQ(sparse.cached_values, 32 + 6 + 5);

  const MoeModel shared = parse("glm_moe_dsa", keys + R"("q_lora_rank": 20, "index_n_heads": 3, "index_head_dim": 5,
      "index_topk": 2048, "indexer_types": ["full", "shared", "shared", "full"])");
  EXPECT_EQ(names(shared)[1], "mla_shared_index");
  EXPECT_EQ(shared.mixers.at(1).indexed_values, 0);
  EXPECT_EQ(shared.mixers.at(1).window, 2048);
  const MoeModel by_step = parse("glm_moe_dsa", keys + R"("q_lora_rank": 20, "index_n_heads": 3, "index_head_dim": 5,
      "index_topk": 2048, "index_topk_freq": 2, "index_skip_topk_offset": 2)");
  EXPECT_EQ(names(by_step), (std::vector<std::string>{"mla_sparse", "mla_sparse", "mla_shared_index", "mla_sparse"}));
}

TEST(Mixers, GatedDeltaNetThreeOfFour) {
  const MoeModel model = parse("qwen3_next", R"("num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
      "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6,
      "linear_conv_kernel_dim": 4, "full_attention_interval": 4)");
  EXPECT_EQ(names(model),
            (std::vector<std::string>{"gated_delta_net", "gated_delta_net", "gated_delta_net", "full_attention"}));
  const Mixer& linear = model.mixers.at(0);
  EXPECT_EQ(linear.before.at(0).n, 2 * 2 * 8 + 2 * 4 * 6 + 2 * 4) << "Q, K, V, gate; two numbers a head";
  EXPECT_EQ(linear.state_values, 4 * 8 * 6);
  EXPECT_EQ(linear.state_heads, 4);
  EXPECT_EQ(linear.state_flops, 7 * 4 * 8 * 6);
  EXPECT_EQ(linear.cached_values, 0);
  EXPECT_EQ(linear.small_parameters, (2 * 2 * 8 + 4 * 6) * 4 + 2 * 4 + 6);
  EXPECT_EQ(model.mixers.at(1).before.at(0).n, (4 + 1 + 1 + 4) * 16) << "with the output's gate";
}

TEST(Mixers, LightningKimiDeltaAndStateSpaces) {
  const MoeModel minimax = parse("minimax_m1", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "attn_type_list": [0, 0, 0, 1])");
  EXPECT_EQ(names(minimax)[0], "lightning_attention");
  EXPECT_EQ(minimax.mixers.at(0).state_values, 4 * 8 * 8);
  EXPECT_EQ(minimax.mixers.at(0).before.at(0).n, 4 * 4 * 8);

  const std::string kimi = R"("num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
      "qk_rope_head_dim": 6, "v_head_dim": 10, "linear_attn_config": {"num_heads": 4, "head_dim": 8,
      "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3], "full_attn_layers": [4])";
  const MoeModel linear = parse("kimi_linear", kimi + "}");
  EXPECT_EQ(names(linear),
            (std::vector<std::string>{"kimi_delta_attention", "kimi_delta_attention", "kimi_delta_attention", "mla"}));
  EXPECT_EQ(linear.mixers.at(0).state_values, 4 * 8 * 8);
  EXPECT_EQ(linear.mixers.at(0).before.at(1).n, 2 * 8) << "low ranks of decay and gate";
  const MoeModel k3 = parse("kimi_linear", kimi + R"(, "use_full_rank_gate": true}, "mla_use_output_gate": true)");
  EXPECT_EQ(k3.mixers.at(0).before.at(0).n, 3 * 32 + 4 + 32);
  EXPECT_EQ(k3.mixers.at(0).before.at(1).n, 8);

  // GLM-5.3-Flash names layers by kind; its lists of layers count from zero.
  const MoeModel glm = parse("glm5_next", R"("num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
      "qk_rope_head_dim": 0, "v_head_dim": 10, "head_dim": 0, "linear_attn_config": {"num_heads": 4, "head_dim": 8,
      "short_conv_kernel_size": 4, "kda_layers": [0, 1, 2]}, "layer_types": ["linear_attention", "linear_attention",
      "linear_attention", "deepseek_sparse_attention"])");
  EXPECT_EQ(names(glm), names(linear));
  EXPECT_EQ(glm.mixers.at(1).cached_values, 32);

  const MoeModel jamba = parse("jamba", R"("num_attention_heads": 4, "num_key_value_heads": 2, "attn_layer_period": 4,
      "attn_layer_offset": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 8)");
  EXPECT_EQ(names(jamba), (std::vector<std::string>{"mamba", "mamba", "full_attention", "mamba"}));
  EXPECT_EQ(jamba.mixers.at(0).state_values, 128 * 16);

  const MoeModel nemotron = parse("nemotron_h", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "hybrid_override_pattern": "MEM*", "mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2,
      "conv_kernel": 4)");
  EXPECT_EQ(names(nemotron), (std::vector<std::string>{"mamba2", "", "mamba2", "full_attention"}));
  EXPECT_EQ(nemotron.mixers.at(0).before.at(0).n, 2 * 32 + 2 * 2 * 16 + 4);
  EXPECT_EQ(nemotron.mixers.at(0).state_values, 4 * 8 * 16);
}

TEST(Mixers, DeepseekV4KeepsOneEntryForSeveralTokens) {
  const MoeModel model = parse("deepseek_v4", R"("num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 512,
      "q_lora_rank": 20, "o_lora_rank": 16, "o_groups": 2, "index_n_heads": 3, "index_head_dim": 128,
      "index_topk": 512, "sliding_window": 128, "compress_ratios": [0, 4, 128, 4, 0])");
  EXPECT_EQ(names(model),
            (std::vector<std::string>{"sliding_attention", "compressed_4", "compressed_128", "compressed_4"}));
  EXPECT_EQ(model.mixers.at(0).window, 128);
  EXPECT_EQ(model.mixers.at(0).cached_values, 512);
  EXPECT_EQ(model.mixers.at(1).indexed_values, 128 / 4);
  EXPECT_EQ(model.mixers.at(1).cached_values, 512 / 4 + 128 / 4);
  EXPECT_EQ(model.mixers.at(1).window, 512 * 4) << "in tokens";
  EXPECT_EQ(model.mixers.at(2).cached_values, 512 / 128);
  EXPECT_EQ(model.mixers.at(2).window, 0);
}

TEST(Mixers, MinimaxM3IndexesBlocks) {
  const MoeModel model = parse("minimax_m3", R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "sparse_attention_config": {"sparse_index_dim": 16, "sparse_num_index_heads": 2, "sparse_topk_blocks": 3,
      "sparse_block_size": 32, "sparse_attention_freq": [0, 1, 1, 1]})");
  EXPECT_EQ(names(model)[0], "full_attention");
  EXPECT_EQ(model.mixers.at(1).name, "block_sparse_attention");
  EXPECT_EQ(model.mixers.at(1).window, 96);
  EXPECT_EQ(model.mixers.at(1).indexed_values, 16);
}

// Transformers 5 writes kinds of layers in words of its own, and flat keys.
TEST(Mixers, SpellingsOfTransformers5) {
  const MoeModel v4 = parse("deepseek_v4", R"("num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 512,
      "q_lora_rank": 20, "o_lora_rank": 16, "o_groups": 2, "index_n_heads": 3, "index_head_dim": 128,
      "index_topk": 512, "sliding_window": 128, "compress_rates": {"compressed_sparse_attention": 4,
      "heavily_compressed_attention": 64}, "layer_types": ["sliding_attention", "compressed_sparse_attention",
      "heavily_compressed_attention", "compressed_sparse_attention"], "mlp_layer_types": ["hash_moe", "moe", "moe",
      "moe"])");
  EXPECT_EQ(names(v4),
            (std::vector<std::string>{"sliding_attention", "compressed_4", "compressed_64", "compressed_4"}));
  EXPECT_TRUE(v4.decoder_layers[0].hash_routed);
  EXPECT_FALSE(v4.decoder_layers[1].hash_routed);
  EXPECT_EQ(v4.moe_layers, 4);
  const MoeModel kimi = parse("kimi_linear", R"("num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
      "qk_rope_head_dim": 6, "v_head_dim": 10, "linear_num_heads": 4, "linear_head_dim": 8, "linear_conv_kernel_dim": 4,
      "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"])");
  EXPECT_EQ(names(kimi)[0], "kimi_delta_attention");
  EXPECT_EQ(names(kimi)[3], "mla");
  EXPECT_EQ(names(parse("deepseek_v32", R"("num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
      "qk_rope_head_dim": 6, "v_head_dim": 10, "q_lora_rank": 20, "index_n_heads": 3, "index_head_dim": 5,
      "index_topk": 2048, "layer_types": ["indexed_attention", "indexed_attention", "indexed_attention",
      "indexed_attention"])"))[0],
            "mla_sparse");
  EXPECT_EQ(names(parse("granitemoehybrid", R"("num_attention_heads": 4, "mamba_n_heads": 4, "mamba_d_head": 8,
      "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_d_conv": 4, "layer_types": ["linear_attention",
      "full_attention", "linear_attention", "linear_attention"])"))[0],
            "mamba2");
  EXPECT_EQ(names(parse("minimax_m3_vl_text", R"("num_attention_heads": 4, "head_dim": 8, "index_block_size": 32,
      "index_head_dim": 16, "index_n_heads": 2, "index_topk_blocks": 3, "layer_types": ["full_attention",
      "indexed_attention", "indexed_attention", "indexed_attention"])"))[1],
            "block_sparse_attention");
}

// The MoE layer can be simulated all the same.
TEST(Mixers, AreLeftOutWhereTheConfigDoesNotDescribeThem) {
  EXPECT_TRUE(parse("mixtral", R"("x": 1)").mixers.empty());
  EXPECT_TRUE(parse("qwen3_moe", R"("num_attention_heads": 4, "layer_types": ["full_attention", "quantum", "quantum",
      "quantum"])")
                  .mixers.empty());
  EXPECT_TRUE(parse("bailing_hybrid", R"("num_attention_heads": 4)").mixers.empty());
}

TEST(Mixers, WrongValuesAreNamed) {
  const auto complaint = [](const std::string& type, const std::string& attention) {
    try {
      parse(type, attention);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_THAT(complaint("mixtral", R"("num_attention_heads": -1)"), HasSubstr("/num_attention_heads"));
  EXPECT_THAT(complaint("mixtral", R"("num_attention_heads": 4, "head_dim": "8")"), HasSubstr("/head_dim"));
  EXPECT_THAT(complaint("deepseek_v3", R"("num_attention_heads": 4, "kv_lora_rank": 8)"),
              HasSubstr("qk_nope_head_dim"));
  EXPECT_THAT(complaint("gpt_oss", R"("num_attention_heads": 4, "layer_types": ["full_attention"])"),
              HasSubstr("one for each of 4 layers"));
  EXPECT_THAT(complaint("mimo_v2_flash", R"("num_attention_heads": 4, "hybrid_layer_pattern": [0, 1, 2, 0])"),
              HasSubstr("/hybrid_layer_pattern/2"));
}

// Formats of the matrices, by the lists of what is left out.
WeightFormat format_of(const Mixer& mixer, const std::string& name) {
  for (const std::vector<WeightMatrix>* side : {&mixer.before, &mixer.after}) {
    for (const WeightMatrix& matrix : *side) {
      if (matrix.name == name) return matrix.format;
    }
  }
  ADD_FAILURE() << "no matrix " << name;
  return {};
}

TEST(PartFormats, ExclusionsByPart) {
  const std::string mla = R"("num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 12,
      "qk_rope_head_dim": 6, "v_head_dim": 10, "q_lora_rank": 20, "n_shared_experts": 1, "quantization_config": )";
  const WeightFormat nvfp4{Dtype::kNvfp4}, bf16{Dtype::kBf16};
  const MoeModel all = parse("deepseek_v3", mla + R"({"quant_algo": "NVFP4"})");
  EXPECT_EQ(format_of(all.mixers[0], "q_a"), nvfp4);
  EXPECT_EQ(all.dense_weights, nvfp4);
  EXPECT_EQ(all.head_weights, bf16) << "never quantised";

  const MoeModel some = parse("deepseek_v3", mla + R"({"quant_algo": "NVFP4", "exclude_modules": ["lm_head",
      "model.layers.0.self_attn.kv_a_proj_with_mqa", "model.layers.1.self_attn.kv_a_proj_with_mqa",
      "model.layers.0.self_attn.kv_b_proj", "model.layers.1.self_attn.kv_b_proj",
      "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.gate"]})");
  EXPECT_EQ(format_of(some.mixers[0], "kv_a"), bf16) << "in two of four layers";
  EXPECT_EQ(format_of(some.mixers[0], "k_up"), bf16);
  EXPECT_EQ(format_of(some.mixers[0], "o"), nvfp4) << "in one of four";
  EXPECT_EQ(format_of(some.mixers[0], "q_b"), nvfp4);
  EXPECT_EQ(some.other_weights, nvfp4);

  const MoeModel none = parse("deepseek_v3", mla + R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"g": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}, "ignore": ["lm_head",
      "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]})");
  EXPECT_EQ(none.expert_weights, (WeightFormat{Dtype::kInt4, 32}));
  EXPECT_EQ(none.other_weights, bf16);
  EXPECT_EQ(none.dense_weights, bf16);
  for (const char* name : {"q_a", "q_b", "kv_a", "k_up", "v_up", "o"}) EXPECT_EQ(format_of(none.mixers[0], name), bf16);

  const MoeModel whole = parse("deepseek_v3", mla + R"({"quant_algo": "NVFP4", "exclude_modules": ["model.layers.0*",
      "model.layers.1.*", "model.layers.4.mlp.experts*"]})");
  EXPECT_EQ(format_of(whole.mixers[0], "o"), bf16) << "two whole layers of four";
  EXPECT_EQ(whole.expert_weights, nvfp4) << "layer 4 of 4 is a prediction layer";
}

TEST(PartFormats, MixedPrecisionByModule) {
  const MoeModel model = parse("deepseek_v4", R"("n_shared_experts": 1, "expert_dtype": "fp4", "quantization_config":
      {"quant_method": "fp8", "weight_block_size": [128, 128], "quant_algo": "MIXED_PRECISION",
       "ignore": ["*.attn.*", "*.ffn.shared_experts.*"],
       "quantized_layers": {"layers.0.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16},
                            "layers.1.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}}})");
  EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kNvfp4});
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kFp8Block128});
  const MoeModel plain =
      parse("qwen3_moe", R"("num_attention_heads": 4, "quantization_config": {"quant_method": "modelopt",
      "quant_algo": "MIXED_PRECISION", "quantized_layers": {
      "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
      "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}})");
  EXPECT_EQ(plain.expert_weights, WeightFormat{Dtype::kNvfp4});
  EXPECT_EQ(plain.dense_weights, WeightFormat{Dtype::kBf16});
  EXPECT_EQ(format_of(plain.mixers[0], "qkv"), WeightFormat{Dtype::kFp8});
  EXPECT_EQ(format_of(plain.mixers[0], "o"), WeightFormat{Dtype::kBf16});
}

TEST(PartFormats, GroupsOfModulesByPattern) {
  const MoeModel model = parse("deepseek_v4", R"("n_shared_experts": 1, "num_attention_heads": 4, "head_dim": 16,
      "q_lora_rank": 20, "o_lora_rank": 16, "o_groups": 2, "sliding_window": 128, "compress_ratios": [0, 0, 0, 0],
      "expert_dtype": "fp4", "quantization_config": {"quant_method": "compressed-tensors", "format": "mixed-precision",
      "config_groups": {
        "group_0": {"format": "float-quantized", "targets": ["re:.*attn.*(fused_wqa_wkv|wq_b|wo_a|wo_b)$"],
                    "weights": {"num_bits": 8, "strategy": "block", "block_structure": [128, 128]}},
        "group_1": {"format": "nvfp4-pack-quantized", "targets": ["re:.*ffn.*(gate|up|down)_proj$"],
                    "weights": {"num_bits": 4, "strategy": "tensor_group", "group_size": 16}}}})");
  EXPECT_EQ(model.expert_weights, WeightFormat{Dtype::kNvfp4});
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kNvfp4});
  EXPECT_EQ(format_of(model.mixers[0], "q_b"), WeightFormat{Dtype::kFp8Block128});
  EXPECT_EQ(format_of(model.mixers[0], "o"), WeightFormat{Dtype::kFp8Block128});
}

TEST(PartFormats, PatternsOfRegularExpressions) {
  const MoeModel model = parse("laguna", R"("num_attention_heads": 4, "mlp_layer_types": ["dense", "sparse", "sparse",
      "sparse"], "shared_expert_intermediate_size": 40, "quantization_config": {"quant_method": "compressed-tensors",
      "format": "float-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
      "weights": {"num_bits": 8, "strategy": "block", "block_structure": [128, 128]}}}, "ignore": ["lm_head",
      "re:.*\\.self_attn\\.q_proj$", "re:.*\\.self_attn\\.o_proj$", "re:.*\\.mlp\\.gate$"]})");
  EXPECT_EQ(format_of(model.mixers[0], "qkv"), WeightFormat{Dtype::kBf16});
  EXPECT_EQ(format_of(model.mixers[0], "o"), WeightFormat{Dtype::kBf16});
  EXPECT_EQ(model.dense_weights, WeightFormat{Dtype::kFp8Block128}) << "the gate is the router";
  EXPECT_EQ(model.other_weights, WeightFormat{Dtype::kFp8Block128});
  const MoeModel dense = parse("laguna", R"("num_attention_heads": 4, "mlp_layer_types": ["dense", "sparse", "sparse",
      "sparse"], "shared_expert_intermediate_size": 40, "quantization_config": {"quant_method": "fp8",
      "ignore": ["model.layers.0.mlp.gate_proj", "re:.*\\.mlp\\.shared_expert\\.gate_proj$"]})");
  EXPECT_EQ(dense.dense_weights, WeightFormat{Dtype::kBf16}) << "its only dense layer";
  EXPECT_EQ(dense.other_weights, WeightFormat{Dtype::kBf16});
}

TEST(PartFormats, ExpertsAloneInFourBits) {
  const std::string fp8 = R"("n_shared_experts": 1, "quantization_config": {"quant_method": "fp8",
      "weight_block_size": [128, 128]})";
  const MoeModel v4 = parse("deepseek_v4", R"("expert_dtype": "fp4", )" + fp8);
  EXPECT_EQ(v4.expert_weights, WeightFormat{Dtype::kMxfp4});
  EXPECT_EQ(v4.other_weights, WeightFormat{Dtype::kFp8Block128});
  EXPECT_EQ(parse("deepseek_v4", fp8).expert_weights, WeightFormat{Dtype::kFp8Block128});
  const MoeModel oss =
      parse("gpt_oss", R"("num_attention_heads": 4, "quantization_config": {"quant_method": "mxfp4"})");
  EXPECT_EQ(oss.expert_weights, WeightFormat{Dtype::kMxfp4});
  EXPECT_EQ(format_of(oss.mixers[0], "qkv"), WeightFormat{Dtype::kBf16});
  EXPECT_EQ(oss.dense_weights, WeightFormat{Dtype::kBf16});
}

}  // namespace
}  // namespace moesim
