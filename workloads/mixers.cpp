// What it models: the matrices of each mixer as a decode step launches them, what it caches and its FLOPs.
// Grouped-query attention: caches K and V of each KV head. Latent attention (DeepSeek-V2): the up-projections of K and V
// are applied to query and result (absorbed), so that the cache holds one compressed vector a token, shared by all heads.
// Delta rules and state spaces: a matrix of state a head, decayed, updated and read once a token.
// What it leaves out: rotary embeddings, softmax, convolutions' time; of DeepSeek-V4's compressed layers the local window
// beside the compressed entries; the FLOPs of indexers.
// Source: the papers named at each kind, and the models' public code.
#include "workloads/mixers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "sim/units/integer.h"
#include "workloads/mixer_kinds.h"
#include "workloads/model_limits.h"

namespace moesim {
namespace {

constexpr std::int64_t kKeyAndValue = 2;
constexpr std::int64_t kMultiplyAdd = 2;

WeightMatrix matrix(std::string name, std::int64_t n, std::int64_t k, Split split, std::int64_t count = 1) {
  WeightMatrix result;
  result.name = std::move(name);
  result.n = n;
  result.k = k;
  result.count = count;
  result.split = split;
  return result;
}

struct Heads {
  std::int64_t query = 0, kv = 0;
  std::int64_t key_width = 0, value_width = 0;
  bool value_is_key = false;  // one projection for both
};

class MixerBuilder {
 public:
  MixerBuilder(const ConfigReader& reader, const Family& family, std::int64_t hidden)
      : reader_(reader), family_(family), hidden_(hidden) {}

  // `layer`: the first of its kind.
  [[nodiscard]] Mixer build(const std::string& kind, std::int64_t layer) const {
    if (kind == "linear_attention" && has("linear_num_value_heads")) return gated_delta_net();
    if (kind == "linear_attention" && (has("linear_attn_config") || has("linear_num_heads"))) return kimi_delta();
    if (kind == "linear_attention" && (has("mamba_num_heads") || has("mamba_n_heads"))) return mamba2();
    if (kind == "linear_attention") return lightning();
    if (kind == "lightning_attention") return lightning();
    if (kind == "kimi_delta_attention") return kimi_delta();
    if (kind == "mamba") return mamba1();
    if (kind == "mamba2") return has("mamba_dt_rank") ? mamba1() : mamba2();
    if (kind == "conv") return short_convolution();
    if (kind.starts_with("compressed_")) return compressed(ratio_of(kind));
    if (kind == "sliding_attention" && has("o_lora_rank")) return compressed(0);
    if (has("kv_lora_rank")) return latent(kind == "shared_index");
    return grouped(kind, layer);
  }

  // Laguna lists the heads of each layer; 0: no list.
  [[nodiscard]] std::int64_t listed_heads(std::int64_t layer) const {
    const std::optional<JsonView> list = reader_.find({"num_attention_heads_per_layer"});
    if (!list || !list->is_array() || layer >= static_cast<std::int64_t>(list->size())) return 0;
    return list->at(static_cast<std::size_t>(layer)).as_int(1, kMaxHeads);
  }

 private:
  [[nodiscard]] bool has(const std::string& key) const { return reader_.has(key); }
  [[nodiscard]] std::int64_t width(const Keys& keys) const { return reader_.at(keys).as_int(1, kMaxWidth); }
  [[nodiscard]] std::int64_t width_or(const Keys& keys, std::int64_t absent) const {
    return reader_.whole_or(keys, absent, 1, kMaxWidth);
  }
  static std::int64_t ratio_of(const std::string& kind) {
    std::int64_t ratio = 1;
    const std::size_t begin = kind.rfind('_') + 1;
    std::from_chars(kind.data() + begin, kind.data() + kind.size(), ratio);
    return std::max<std::int64_t>(1, ratio);
  }

  [[nodiscard]] Heads heads_of(const std::string& kind) const {
    const std::int64_t query = reader_.whole_or(query_keys(), 1, 1, kMaxHeads);
    const std::int64_t head = width_or({"head_dim", "attention_head_dim"}, std::max<std::int64_t>(1, hidden_ / query));
    Heads h;
    h.query = query;
    h.kv = reader_.whole_or({"num_key_value_heads", "num_attention_groups", "attn_config.kv_n_heads", "n_kv_heads"},
                            query, 1, kMaxHeads);
    h.key_width = head;
    h.value_width = width_or({"v_head_dim"}, head);
    if (kind == "sliding_attention") {
      h.query = width_or(
          {"swa_num_attention_heads", "attention_other_setting.num_attention_heads", "num_sliding_attention_heads"},
          h.query);
      h.kv = width_or({"swa_num_key_value_heads", "attention_other_setting.num_attention_groups"}, h.kv);
      h.key_width = width_or({"swa_head_dim", "attention_other_setting.head_dim"}, h.key_width);
      h.value_width = width_or({"swa_v_head_dim", "attention_other_setting.head_dim"}, h.value_width);
    } else if (has("global_head_dim")) {  // Gemma-4: full layers have fewer and wider heads
      h.kv = width_or({"num_global_key_value_heads"}, h.kv);
      h.key_width = h.value_width = width_or({"global_head_dim"}, head);
      h.value_is_key = reader_.flag_or({"attention_k_eq_v"}, false);
    }
    return h;
  }

  static const Keys& query_keys() {
    static const Keys kKeys = {"num_attention_heads", "n_heads", "n_head"};
    return kKeys;
  }

  [[nodiscard]] std::int64_t norm_parameters(const Heads& h) const {
    if (!reader_.flag_or({"use_qk_norm", "qk_norm"}, family_.qk_norm != QkNorm::kNone)) return 0;
    switch (family_.qk_norm) {
      case QkNorm::kNone:
        return 0;
      case QkNorm::kPerHead:
        return 2 * h.key_width;
      case QkNorm::kWhole:
        return (h.query + h.kv) * h.key_width;
    }
    return 0;
  }

  // Grouped-query attention (arXiv 2305.13245), over all of the context or a part of it.
  [[nodiscard]] Mixer grouped(const std::string& kind, std::int64_t layer) const {
    Heads h = heads_of(kind);
    if (const std::int64_t listed = listed_heads(layer); listed > 0) h.query = listed;
    Mixer mixer;
    mixer.name = kind;
    const std::int64_t query_width = h.query * h.key_width;
    const std::int64_t result_width = h.query * h.value_width;
    const std::int64_t kv_width = h.kv * (h.key_width + (h.value_is_key ? 0 : h.value_width));
    std::int64_t gate = 0;  // of the result
    if (reader_.flag_or({"attn_output_gate", "attention_output_gate", "use_gqa_gate"}, family_.output_gate))
      gate = result_width;
    if (reader_.flag_or({"use_head_wise_attn_gate"}, false)) gate = h.query;
    if (const std::optional<JsonView> gating = reader_.find({"gating"})) {  // Laguna: true, false or "per-head"
      const bool per_head = gating->is_string() && gating->as_string() == "per-head";
      gate = per_head || gating->as_bool() ? h.query : 0;
    }
    const std::int64_t shared_query = reader_.whole_or({"share_q_dim"}, 0, 0, kMaxWidth);
    if (shared_query > 0) {  // Step-3: queries from a narrow vector
      mixer.before = {matrix("qkv", shared_query + kv_width, hidden_, Split::kWhole),
                      matrix("q_b", query_width, shared_query, Split::kRows)};
    } else {
      mixer.before = {matrix("qkv", query_width + kv_width + gate, hidden_, Split::kRows)};
    }
    mixer.after = {matrix("o", hidden_, result_width, Split::kColumns)};
    mixer.cached_values = h.kv * (h.key_width + h.value_width);
    mixer.cache_heads = h.kv;
    mixer.context_flops = kMultiplyAdd * h.query * (h.key_width + h.value_width);
    if (kind == "sliding_attention") mixer.window = width_or({"sliding_window", "sliding_window_size"}, 0);
    if (kind == "chunked_attention") mixer.window = width_or({"attention_chunk_size"}, 0);
    if (kind == "block_sparse_attention") add_block_index(mixer);
    mixer.small_parameters = norm_parameters(h);
    if (reader_.flag_or({"attention_bias", "qkv_bias", "use_qkv_bias"}, family_.qkv_bias)) {
      mixer.small_parameters += query_width + kv_width + (family_.output_bias ? hidden_ : 0);
    }
    const bool sinks = kind == "sliding_attention" ? reader_.flag_or({"add_swa_attention_sink_bias"}, false)
                                                   : reader_.flag_or({"add_full_attention_sink_bias"}, false);
    if (sinks || family_.attention_sinks) mixer.small_parameters += h.query;
    return mixer;
  }

  // MiniMax-M3: blocks of tokens chosen by a few narrow heads.
  void add_block_index(Mixer& mixer) const {
    const std::int64_t index = width({"sparse_attention_config.sparse_index_dim", "index_head_dim"});
    const std::int64_t heads = width({"sparse_attention_config.sparse_num_index_heads", "index_n_heads"});
    mixer.before.push_back(matrix("index", (heads + 1) * index, hidden_, Split::kWhole));
    mixer.cached_values += index;
    mixer.indexed_values = index;
    mixer.window = width({"sparse_attention_config.sparse_topk_blocks", "index_topk_blocks"}) *
                   width({"sparse_attention_config.sparse_block_size", "index_block_size"});
  }

  // Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), with DeepSeek-V3.2's indexer where the config has one.
  [[nodiscard]] Mixer latent(bool shared_index) const {
    const std::int64_t heads = reader_.at(query_keys()).as_int(1, kMaxHeads);
    const std::int64_t kv_rank = width({"kv_lora_rank"});
    const std::int64_t nope = width({"qk_nope_head_dim"});
    const std::int64_t rope = reader_.whole_or({"qk_rope_head_dim"}, 0, 0, kMaxWidth);
    const std::int64_t value = width({"v_head_dim"});
    const std::int64_t query_rank = reader_.whole_or({"q_lora_rank"}, 0, 0, kMaxWidth);
    Mixer mixer;
    mixer.name = "mla";
    mixer.small_parameters = query_rank + kv_rank;
    if (query_rank > 0) {
      mixer.before = {matrix("q_a", query_rank, hidden_, Split::kWhole),
                      matrix("q_b", heads * (nope + rope), query_rank, Split::kRows)};
    } else {
      mixer.before = {matrix("q", heads * (nope + rope), hidden_, Split::kRows)};
    }
    mixer.before.push_back(matrix("kv_a", kv_rank + rope, hidden_, Split::kWhole));
    mixer.before.push_back(matrix("k_up", kv_rank, nope, Split::kRows, heads));
    mixer.after = {matrix("v_up", value, kv_rank, Split::kRows, heads)};
    if (reader_.flag_or({"mla_use_output_gate", "gated_mla"}, false)) {
      mixer.before.push_back(matrix("gate", heads * value, hidden_, Split::kRows));
    }
    mixer.after.push_back(matrix("o", hidden_, heads * value, Split::kColumns));
    mixer.cached_values = kv_rank + rope;
    mixer.context_flops = kMultiplyAdd * heads * (2 * kv_rank + rope);
    if (has("index_topk")) add_index(mixer, query_rank, shared_index);
    return mixer;
  }

  void add_index(Mixer& mixer, std::int64_t query_rank, bool shared_index) const {
    mixer.name = shared_index ? "mla_shared_index" : "mla_sparse";
    mixer.window = width({"index_topk"});
    if (shared_index) return;
    const std::int64_t heads = width({"index_n_heads"});
    const std::int64_t index = width({"index_head_dim"});
    mixer.before.push_back(matrix("index_q", heads * index, query_rank > 0 ? query_rank : hidden_, Split::kWhole));
    mixer.before.push_back(matrix("index_k", index + heads, hidden_, Split::kWhole));
    mixer.cached_values += index;
    mixer.indexed_values = index;
    mixer.small_parameters += 2 * index;
  }

  // DeepSeek-V4: one KV head; layers keep one entry for each `ratio` tokens (0: the last tokens only), of which an indexer
  // chooses where the ratio is small. Counts are per token of context.
  [[nodiscard]] Mixer compressed(std::int64_t ratio) const {
    const std::int64_t heads = reader_.at(query_keys()).as_int(1, kMaxHeads);
    const std::int64_t head = width({"head_dim"});
    const std::int64_t query_rank = width({"q_lora_rank"});
    const std::int64_t out_rank = width({"o_lora_rank"});
    const std::int64_t groups = width({"o_groups"});
    Mixer mixer;
    mixer.before = {matrix("q_a", query_rank, hidden_, Split::kWhole),
                    matrix("q_b", heads * head, query_rank, Split::kRows),
                    matrix("kv_a", head, hidden_, Split::kWhole)};
    mixer.after = {matrix("o_a", out_rank, heads * head / groups, Split::kRows, groups),
                   matrix("o", hidden_, groups * out_rank, Split::kColumns)};
    mixer.small_parameters = query_rank + head + heads;
    mixer.cached_values = head;
    mixer.context_flops = kMultiplyAdd * heads * kKeyAndValue * head;
    if (ratio == 0) {
      mixer.name = "sliding_attention";
      mixer.window = width({"sliding_window"});
      return mixer;
    }
    mixer.name = fmt::format("compressed_{}", ratio);
    mixer.cached_values = std::max<std::int64_t>(1, head / ratio);
    mixer.context_flops = std::max<std::int64_t>(1, mixer.context_flops / ratio);
    add_compressor(mixer, "compressor", head, ratio);
    if (ratio == kIndexedRatio && has("index_topk")) {
      const std::int64_t index_heads = width({"index_n_heads"});
      const std::int64_t index = width({"index_head_dim"});
      mixer.before.push_back(matrix("index_q", index_heads * index, query_rank, Split::kWhole));
      mixer.before.push_back(matrix("index_weights", index_heads, hidden_, Split::kWhole));
      add_compressor(mixer, "index_compressor", index, ratio);
      mixer.indexed_values = std::max<std::int64_t>(1, index / ratio);
      mixer.cached_values += mixer.indexed_values;
      mixer.window = width({"index_topk"}) * ratio;
    }
    return mixer;
  }

  // Values and gates; small ratios blend neighbouring groups of tokens and have two of each.
  void add_compressor(Mixer& mixer, const char* name, std::int64_t entry, std::int64_t ratio) const {
    const std::int64_t overlap = ratio == kIndexedRatio ? 2 : 1;
    mixer.before.push_back(matrix(name, 2 * overlap * entry, hidden_, Split::kWhole));
    mixer.small_parameters += entry + ratio * overlap * entry;
  }
  static constexpr std::int64_t kIndexedRatio = 4;

  // Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next.
  [[nodiscard]] Mixer gated_delta_net() const {
    const std::int64_t key_heads = width({"linear_num_key_heads"});
    const std::int64_t heads = width({"linear_num_value_heads"});
    const std::int64_t key = width({"linear_key_head_dim"});
    const std::int64_t value = width({"linear_value_head_dim"});
    const std::int64_t kernel = width({"linear_conv_kernel_dim"});
    Mixer mixer;
    mixer.name = "gated_delta_net";
    mixer.before = {matrix("in", 2 * key_heads * key + 2 * heads * value + 2 * heads, hidden_, Split::kRows)};
    mixer.after = {matrix("out", hidden_, heads * value, Split::kColumns)};
    set_state(mixer, heads, key * value, kDeltaFlops);
    mixer.small_parameters = (2 * key_heads * key + heads * value) * kernel + 2 * heads + value;
    return mixer;
  }

  // Kimi Delta Attention (arXiv 2510.26692): a decay for each channel, from a low rank.
  [[nodiscard]] Mixer kimi_delta() const {
    const std::int64_t heads = width({"linear_attn_config.num_heads", "linear_num_heads"});
    const std::int64_t head = width({"linear_attn_config.head_dim", "linear_head_dim"});
    const std::int64_t kernel = width({"linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"});
    const std::int64_t inner = heads * head;
    const bool full_gate = reader_.flag_or({"linear_attn_config.use_full_rank_gate"}, false);
    Mixer mixer;
    mixer.name = "kimi_delta_attention";
    mixer.before = {matrix("qkv", 3 * inner + heads + (full_gate ? inner : 0), hidden_, Split::kRows),
                    matrix("low_rank_a", full_gate ? head : 2 * head, hidden_, Split::kWhole),
                    matrix("low_rank_b", inner, head, Split::kRows, full_gate ? 1 : 2)};
    mixer.after = {matrix("o", hidden_, inner, Split::kColumns)};
    set_state(mixer, heads, head * head, kDeltaFlops);
    mixer.small_parameters = 3 * inner * kernel + heads + inner + head;
    return mixer;
  }

  // Lightning attention (arXiv 2401.04658) as in MiniMax-01.
  [[nodiscard]] Mixer lightning() const {
    const std::int64_t heads = reader_.at(query_keys()).as_int(1, kMaxHeads);
    const std::int64_t head = width_or({"head_dim"}, std::max<std::int64_t>(1, hidden_ / heads));
    const std::int64_t inner = heads * head;
    Mixer mixer;
    mixer.name = "lightning_attention";
    mixer.before = {matrix("qkv", 4 * inner, hidden_, Split::kRows)};  // and the output's gate
    mixer.after = {matrix("o", hidden_, inner, Split::kColumns)};
    set_state(mixer, heads, head * head, kLinearFlops);
    mixer.small_parameters = inner;
    return mixer;
  }

  // Mamba-2 (arXiv 2405.21060).
  [[nodiscard]] Mixer mamba2() const {
    const std::int64_t heads = width({"mamba_num_heads", "mamba_n_heads"});
    const std::int64_t head = width({"mamba_head_dim", "mamba_d_head"});
    const std::int64_t state = width({"ssm_state_size", "mamba_d_state"});
    const std::int64_t groups = width({"n_groups", "mamba_n_groups"});
    const std::int64_t kernel = width({"conv_kernel", "mamba_d_conv"});
    const std::int64_t inner = heads * head;
    const std::int64_t mixed = inner + 2 * groups * state;
    Mixer mixer;
    mixer.name = "mamba2";
    mixer.before = {matrix("in", inner + mixed + heads, hidden_, Split::kRows)};
    mixer.after = {matrix("out", hidden_, inner, Split::kColumns)};
    set_state(mixer, heads, head * state, kLinearFlops);
    mixer.small_parameters = mixed * (kernel + 1) + 3 * heads + inner;
    return mixer;
  }

  // Mamba (arXiv 2312.00752) as in Jamba, with norms of step and of both state projections.
  [[nodiscard]] Mixer mamba1() const {
    const std::int64_t inner = hidden_ * width_or({"mamba_expand"}, 2);
    const std::int64_t state = width_or({"mamba_d_state"}, 16);
    const std::int64_t kernel = width_or({"mamba_d_conv"}, 4);
    const std::optional<JsonView> stated = reader_.find({"mamba_dt_rank"});  // a number, or "auto"
    constexpr std::int64_t kHiddenPerRank = 16;
    const std::int64_t rank =
        stated && stated->is_number() ? stated->as_int(1, kMaxWidth) : divide_up(hidden_, kHiddenPerRank);
    Mixer mixer;
    mixer.name = "mamba";
    mixer.before = {matrix("in", 2 * inner, hidden_, Split::kRows),
                    matrix("x", rank + 2 * state, inner, Split::kColumns), matrix("dt", inner, rank, Split::kRows)};
    mixer.after = {matrix("out", hidden_, inner, Split::kColumns)};
    set_state(mixer, inner, state, kLinearFlops);
    mixer.small_parameters = inner * (kernel + 1) + inner + inner * state + inner + rank + 2 * state;
    return mixer;
  }

  // LFM2: a gated convolution over a few tokens.
  [[nodiscard]] Mixer short_convolution() const {
    const std::int64_t kernel = width_or({"conv_L_cache"}, 3);
    Mixer mixer;
    mixer.name = "conv";
    mixer.before = {matrix("in", 3 * hidden_, hidden_, Split::kRows)};
    mixer.after = {matrix("out", hidden_, hidden_, Split::kColumns)};
    set_state(mixer, hidden_, kernel, kMultiplyAdd);
    mixer.small_parameters = hidden_ * kernel;
    return mixer;
  }

  // Per value of state: a decay (1), an update (2), a read (2); the delta rule reads it once more before (2).
  static constexpr std::int64_t kLinearFlops = 5;
  static constexpr std::int64_t kDeltaFlops = 7;
  static void set_state(Mixer& mixer, std::int64_t heads, std::int64_t values, std::int64_t flops) {
    mixer.state_heads = heads;
    mixer.state_values = heads * values;
    mixer.state_flops = heads * values * flops;
  }

  const ConfigReader& reader_;
  const Family& family_;
  std::int64_t hidden_;
};

}  // namespace

void read_mixers(const ConfigReader& reader, const Family& family, MoeModel& model) {
  const std::optional<JsonView> heads = reader.find({"num_attention_heads", "n_heads", "n_head"});
  if (!family.attention || !heads) return;
  if (heads->as_int(0, kMaxHeads) == 0) return;
  const std::vector<std::string> kinds = mixer_kinds(reader, static_cast<std::int64_t>(model.decoder_layers.size()));
  const MixerBuilder builder(reader, family, model.hidden);
  std::map<std::pair<std::string, std::int64_t>, std::size_t> built;  // by kind and listed heads
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    if (kinds[layer].empty()) continue;
    const auto number = static_cast<std::int64_t>(layer);
    const auto [known, fresh] = built.try_emplace({kinds[layer], builder.listed_heads(number)}, model.mixers.size());
    if (fresh) model.mixers.push_back(builder.build(kinds[layer], number));
    model.decoder_layers[layer].mixer = known->second;
  }
}

}  // namespace moesim
