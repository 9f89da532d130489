#include "workloads/mixer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "workloads/config_errors.h"
#include "workloads/layer_placement.h"
#include "workloads/model_limits.h"

namespace moesim {
namespace {

using Kinds = std::vector<std::string>;

const std::string kFull = "full_attention";
const std::string kSliding = "sliding_attention";

// layer_types -> our names; what else there is makes attention unknown.
struct LayerType {
  const char* text;
  const char* kind;
};
constexpr std::array kLayerTypes = {
    LayerType{"full_attention", "full_attention"},
    LayerType{"attention", "full_attention"},
    LayerType{"deepseek_sparse_attention", "full_attention"},
    LayerType{"indexed_attention", "indexed_attention"},
    LayerType{"hybrid", "full_attention"},
    LayerType{"hybrid_sliding", "sliding_attention"},
    LayerType{"compressed_sparse_attention", "compressed_sparse_attention"},
    LayerType{"heavily_compressed_attention", "heavily_compressed_attention"},
    LayerType{"sliding_attention", "sliding_attention"},
    LayerType{"chunked_attention", "chunked_attention"},
    LayerType{"linear_attention", "linear_attention"},
    LayerType{"mamba", "mamba2"},
    LayerType{"conv", "conv"},
};

Kinds by_rule(std::int64_t layers, const std::function<std::string(std::int64_t)>& kind_of) {
  Kinds kinds;
  for (std::int64_t layer = 0; layer < layers; ++layer) kinds.push_back(kind_of(layer));
  return kinds;
}

// Lists may go on past the last layer, for those of multi-token prediction.
JsonView entry_of(const JsonView& list, std::int64_t layer, std::int64_t layers) {
  if (static_cast<std::int64_t>(list.size()) < layers) {
    refuse(list, fmt::format("{} entries", list.size()), fmt::format("one for each of {} layers", layers));
  }
  return list.at(static_cast<std::size_t>(layer));
}

// What the kind is in numbers: attention with an indexer of blocks or of tokens, tokens to a compressed entry.
std::string resolved(const ConfigReader& reader, const std::string& kind) {
  if (kind == "indexed_attention") return reader.has("index_block_size") ? "block_sparse_attention" : kFull;
  const std::int64_t usual = kind == "compressed_sparse_attention"    ? 4
                             : kind == "heavily_compressed_attention" ? 128
                                                                      : 0;
  if (usual == 0) return kind;
  return fmt::format("compressed_{}", reader.whole_or({"compress_rates." + kind}, usual, 1, kMaxWidth));
}

Kinds from_layer_types(const ConfigReader& reader, const JsonView& list, std::int64_t layers) {
  Kinds kinds;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string text = entry_of(list, layer, layers).as_string();
    const auto* const known =
        std::find_if(kLayerTypes.begin(), kLayerTypes.end(), [&](const LayerType& t) { return text == t.text; });
    if (known == kLayerTypes.end()) return {};
    kinds.push_back(resolved(reader, known->kind));
  }
  return kinds;
}

Kinds from_ones(const JsonView& list, std::int64_t layers, const std::string& zero, const std::string& one) {
  return by_rule(layers,
                 [&](std::int64_t layer) { return entry_of(list, layer, layers).as_int(0, 1) == 1 ? one : zero; });
}

Kinds from_pattern(const std::string& pattern, std::int64_t layers) {
  return by_rule(layers, [&](std::int64_t layer) -> std::string {
    const char block = pattern[std::min(static_cast<std::size_t>(layer), pattern.size() - 1)];
    return block == 'M' ? "mamba2" : block == '*' ? kFull : "";
  });
}

Kinds from_ratios(const JsonView& list, std::int64_t layers) {
  return by_rule(layers, [&](std::int64_t layer) {
    const std::int64_t ratio = entry_of(list, layer, layers).as_int(0, kMaxWidth);
    return ratio == 0 ? kSliding : fmt::format("compressed_{}", ratio);
  });
}

// Layers that a list names, counted from `first`.
Kinds from_names(const JsonView& list, std::int64_t layers, std::int64_t first, const std::string& named,
                 const std::string& others) {
  Kinds kinds(static_cast<std::size_t>(layers), others);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int64_t layer = list.at(i).as_int(first, kMaxLayers) - first;
    if (layer < layers) kinds[static_cast<std::size_t>(layer)] = named;
  }
  return kinds;
}

// Llama-4: layers without rotary embedding see all tokens, the others their chunk; every fourth where no list says.
Kinds chunked(const ConfigReader& reader, std::int64_t layers) {
  const std::optional<JsonView> list = reader.find({"no_rope_layers"});
  if (list && list->is_array() && list->size() > 0) return from_ones(*list, layers, kFull, "chunked_attention");
  const std::int64_t interval = reader.whole_or({"no_rope_layer_interval"}, 4, 1, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) -> std::string {
    return (layer + 1) % interval == 0 ? kFull : "chunked_attention";
  });
}

// Some layers take the tokens that the indexer of an earlier one chose: a list says which, or (GLM-5.2) all but every
// index_topk_freq-th after the first ones.
Kinds with_shared_index(const ConfigReader& reader, Kinds kinds) {
  const std::optional<JsonView> list = reader.find({"indexer_types"});
  const std::int64_t every = reader.whole_or({"index_topk_freq"}, 1, 1, kMaxLayers);
  const std::int64_t offset = reader.whole_or({"index_skip_topk_offset"}, 1, 0, kMaxLayers);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool listed = list && list->is_array() && i < list->size();
    const bool shared =
        listed ? list->at(i).as_string() == "shared" : std::max<std::int64_t>(layer - offset + 1, 0) % every != 0;
    if (shared && kinds[i] == kFull) kinds[i] = "shared_index";
  }
  return kinds;
}

Kinds from_keys(const ConfigReader& reader, std::int64_t layers) {
  const auto list_of = [&](const char* key) {
    std::optional<JsonView> found = reader.find({key});
    return found && found->is_array() && found->size() > 0 ? found : std::nullopt;
  };
  if (const std::string pattern = block_pattern(reader); !pattern.empty()) return from_pattern(pattern, layers);
  if (const auto list = list_of("compress_ratios")) return from_ratios(*list, layers);
  if (const auto list = list_of("layer_types")) return from_layer_types(reader, *list, layers);
  // Kimi counts layers from one.
  if (const auto list = list_of("linear_attn_config.kda_layers")) {
    return from_names(*list, layers, 1, "kimi_delta_attention", kFull);
  }
  if (const auto list = list_of("gqa_layers")) return from_names(*list, layers, 0, kFull, "kimi_delta_attention");
  if (const auto list = list_of("local_layer_ids")) return from_names(*list, layers, 0, kSliding, kFull);
  if (const auto list = list_of("hybrid_layer_pattern")) return from_ones(*list, layers, kFull, kSliding);
  if (const auto list = list_of("attn_type_list")) return from_ones(*list, layers, "lightning_attention", kFull);
  if (const auto list = list_of("sparse_attention_config.sparse_attention_freq")) {
    return from_ones(*list, layers, kFull, "block_sparse_attention");
  }
  if (reader.has("linear_num_value_heads")) {
    const std::int64_t interval = reader.whole_or({"full_attention_interval"}, 4, 1, kMaxLayers);
    return by_rule(layers, [&](std::int64_t layer) -> std::string {
      return (layer + 1) % interval == 0 ? kFull : "linear_attention";
    });
  }
  if (reader.has("attn_layer_period")) {
    const std::int64_t period = reader.whole_or({"attn_layer_period"}, 1, 1, kMaxLayers);
    const std::int64_t offset = reader.whole_or({"attn_layer_offset"}, 0, 0, kMaxLayers);
    return by_rule(layers, [&](std::int64_t layer) -> std::string {
      return layer >= offset && (layer - offset) % period == 0 ? kFull : "mamba";
    });
  }
  if (reader.has("attention_chunk_size") && !reader.has("hybrid_layer_pattern")) return chunked(reader, layers);
  return Kinds(static_cast<std::size_t>(layers), kFull);
}

}  // namespace

std::vector<std::string> mixer_kinds(const ConfigReader& reader, std::int64_t layers) {
  Kinds kinds = from_keys(reader, layers);
  return reader.has("index_topk") ? with_shared_index(reader, std::move(kinds)) : kinds;
}

}  // namespace moesim
