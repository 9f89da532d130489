#include "tests/testkit/step_models.h"

#include "tests/testkit/models.h"

namespace moesim::testkit {
namespace {

constexpr WeightFormat kBf16 = {Dtype::kBf16, 0};
constexpr WeightFormat kFp8 = {Dtype::kFp8Block128, 0};

// Grouped-query attention; `gates` further outputs a query head's width each.
Mixer grouped_query(std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t width,
                    std::int64_t gates, WeightFormat format) {
  Mixer mixer;
  mixer.name = "full_attention";
  mixer.before = {{"qkv", ((1 + gates) * heads + 2 * kv_heads) * width, hidden, 1, Split::kRows, format}};
  mixer.after = {{"o", hidden, heads * width, 1, Split::kColumns, format}};
  mixer.cached_values = 2 * kv_heads * width;
  mixer.cache_heads = kv_heads;
  mixer.context_flops = 4 * heads * width;
  return mixer;
}

Mixer delta_net(std::int64_t hidden, std::int64_t key_heads, std::int64_t value_heads, std::int64_t width,
                WeightFormat format) {
  Mixer mixer;
  mixer.name = "gated_delta_net";
  mixer.before = {{"in_qkvz", 2 * (key_heads + value_heads) * width, hidden, 1, Split::kRows, format},
                  {"in_ba", 2 * value_heads, hidden, 1, Split::kRows, kBf16}};
  mixer.after = {{"out", hidden, value_heads * width, 1, Split::kColumns, format}};
  mixer.state_values = value_heads * width * width;
  mixer.state_flops = 8 * mixer.state_values;
  mixer.state_heads = value_heads;
  return mixer;
}

Mixer latent_attention(WeightFormat format) {
  constexpr std::int64_t kHidden = 7168, kHeads = 128, kQueryRank = 1536, kRank = 512, kRotated = 64, kWidth = 128;
  Mixer mixer;
  mixer.name = "mla";
  mixer.before = {{"qkv_a", kQueryRank + kRank + kRotated, kHidden, 1, Split::kWhole, format},
                  {"q_b", kHeads * (kWidth + kRotated), kQueryRank, 1, Split::kRows, format},
                  {"absorbed_k", kRank, kWidth, kHeads, Split::kRows, kBf16}};
  mixer.after = {{"absorbed_v", kWidth, kRank, kHeads, Split::kRows, kBf16},
                 {"o", kHidden, kHeads * kWidth, 1, Split::kColumns, format}};
  mixer.cached_values = kRank + kRotated;
  mixer.context_flops = 2 * kHeads * (2 * kRank + kRotated);
  return mixer;
}

void add_layers(MoeModel& model, std::int64_t count, const DecoderLayer& layer) {
  model.decoder_layers.insert(model.decoder_layers.end(), static_cast<std::size_t>(count), layer);
  model.layers += count;
  model.moe_layers += layer.moe ? count : 0;
}

}  // namespace

MoeModel tiny_step_model() {
  MoeModel model = tiny_model();
  model.layers = model.moe_layers = 0;
  model.shared_intermediate = 128;
  model.vocabulary = 4096;
  model.mixers = {grouped_query(model.hidden, 8, 4, 64, 0, kBf16), delta_net(model.hidden, 4, 8, 64, kBf16)};
  add_layers(model, 1, {.mixer = 0, .dense_intermediate = 512});
  add_layers(model, 1, {.mixer = 1, .moe = true});
  add_layers(model, 1, {.mixer = 0, .moe = true});
  add_layers(model, 1, {.mixer = 1, .moe = true});
  return model;
}

MoeModel mixtral_model() {
  MoeModel model;
  model.name = model.file = "mixtral-8x7b";
  model.hidden = 4096;
  model.expert_intermediate = 14336;
  model.experts = 8;
  model.topk = 2;
  model.vocabulary = 32000;
  model.mixers = {grouped_query(model.hidden, 32, 8, 128, 0, kBf16)};
  add_layers(model, 32, {.mixer = 0, .moe = true});
  return model;
}

MoeModel deepseek_v3_model() {
  MoeModel model;
  model.name = model.file = "deepseek-v3";
  model.hidden = 7168;
  model.expert_intermediate = model.shared_intermediate = 2048;
  model.experts = 256;
  model.topk = 8;
  model.shared_experts = 1;
  model.vocabulary = 129280;
  model.expert_weights = model.other_weights = model.dense_weights = kFp8;
  model.mixers = {latent_attention(kFp8)};
  add_layers(model, 3, {.mixer = 0, .dense_intermediate = 18432});
  add_layers(model, 58, {.mixer = 0, .moe = true});
  return model;
}

MoeModel qwen35_model() {
  MoeModel model;
  model.name = model.file = "qwen3.5-397b-a17b-fp8";
  model.hidden = 4096;
  model.expert_intermediate = model.shared_intermediate = 1024;
  model.experts = 512;
  model.topk = 10;
  model.shared_experts = 1;
  model.shared_gate = true;
  model.vocabulary = 248320;
  model.expert_weights = model.other_weights = kFp8;
  model.mixers = {delta_net(model.hidden, 16, 64, 128, kFp8), grouped_query(model.hidden, 32, 2, 256, 1, kFp8)};
  for (int block = 0; block < 15; ++block) {
    add_layers(model, 3, {.mixer = 0, .moe = true});
    add_layers(model, 1, {.mixer = 1, .moe = true});
  }
  return model;
}

}  // namespace moesim::testkit
