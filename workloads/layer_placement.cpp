#include "workloads/layer_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "workloads/config_errors.h"
#include "workloads/model_limits.h"

namespace moesim {
namespace {

constexpr const char* kHashRouted = "hash_moe";

using LayerRule = std::function<bool(std::int64_t)>;

std::vector<bool> by_rule(std::int64_t layers, const LayerRule& is_moe) {
  std::vector<bool> result;
  for (std::int64_t layer = 0; layer < layers; ++layer) result.push_back(is_moe(layer));
  return result;
}

// 0/1 or dense/sparse, one a layer.
std::vector<bool> from_list(const ConfigReader& reader, const JsonView& list, std::int64_t layers) {
  const bool shortened = reader.overrides().whole("layers").has_value();
  const auto entries = static_cast<std::int64_t>(list.size());
  if (entries < layers || (entries > layers && !shortened)) {
    refuse(list, fmt::format("{} entries", entries), fmt::format("one for each of {} layers", layers));
  }
  return by_rule(layers, [&](std::int64_t layer) {
    const JsonView entry = list.at(static_cast<std::size_t>(layer));
    if (!entry.is_string()) return entry.as_int(0, 1) == 1;
    const std::string kind = entry.as_string();
    if (kind == "dense" || kind == "mlp") return false;
    if (kind != "sparse" && kind != "moe" && kind != kHashRouted) entry.fail("dense or sparse");
    return true;
  });
}

// The layers that a list names.
std::vector<bool> named(const JsonView& list, std::int64_t layers) {
  std::vector<bool> result(static_cast<std::size_t>(layers), false);
  for (std::size_t i = 0; i < list.size(); ++i) {
    result[static_cast<std::size_t>(list.at(i).as_int(0, layers - 1))] = true;
  }
  return result;
}

bool has_entries(const ConfigReader& reader, const char* key) {
  const std::optional<JsonView> list = reader.find({key});
  return list && list->is_array() && list->size() > 0;
}

// "3,4,5".
std::vector<bool> from_text(const JsonView& text, std::int64_t layers) {
  const std::string list = text.as_string();
  std::vector<bool> result(static_cast<std::size_t>(layers), false);
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::int64_t layer = -1;
    const auto [rest, error] = std::from_chars(list.data() + begin, list.data() + end, layer);
    if (error != std::errc() || rest != list.data() + end || layer < 0 || layer >= layers) {
      text.fail(fmt::format("layers from 0 to {}, separated by commas", layers - 1));
    }
    result[static_cast<std::size_t>(layer)] = true;
    begin = end + 1;
  }
  return result;
}

std::vector<bool> after_dense(const ConfigReader& reader, std::int64_t layers) {
  const std::int64_t dense = reader.at({"first_k_dense_replace"}).as_int(0, kMaxLayers);
  const std::int64_t step = reader.whole_or({"moe_layer_freq"}, 1, 1, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) { return layer >= dense && layer % step == 0; });
}

std::vector<bool> by_sparse_step(const ConfigReader& reader, std::int64_t layers) {
  const std::int64_t step = reader.whole_or({"decoder_sparse_step"}, 1, 1, kMaxLayers);
  const std::optional<JsonView> list = reader.find({"mlp_only_layers"});
  const std::vector<bool> dense = list ? named(*list, layers) : std::vector<bool>(static_cast<std::size_t>(layers));
  return by_rule(
      layers, [&](std::int64_t layer) { return (layer + 1) % step == 0 && !dense[static_cast<std::size_t>(layer)]; });
}

std::vector<bool> every(const ConfigReader& reader, const char* key, std::int64_t layers) {
  const std::int64_t step = reader.whole_or({key}, 1, 1, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) { return (layer + 1) % step == 0; });
}

std::vector<bool> from_start_to_end(const ConfigReader& reader, std::int64_t layers) {
  constexpr std::int64_t kLast = -1;
  const std::int64_t start = reader.whole_or({"moe_layer_start_index"}, 0, 0, kMaxLayers);
  const std::int64_t end = reader.whole_or({"moe_layer_end_index"}, kLast, kLast, kMaxLayers);
  const std::int64_t interval = reader.whole_or({"moe_layer_interval"}, 1, 1, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) {
    return layer >= start && (end == kLast || layer <= end) && (layer + 1) % interval == 0;
  });
}

// Jamba's class has period 2, offset 1 where the keys are absent.
std::vector<bool> by_period(const ConfigReader& reader, std::int64_t layers) {
  const std::int64_t period = reader.whole_or({"expert_layer_period"}, 2, 1, kMaxLayers);
  const std::int64_t offset = reader.whole_or({"expert_layer_offset"}, 1, 0, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) { return layer >= offset && (layer - offset) % period == 0; });
}

const Keys kDenseCountKeys = {"first_k_dense_replace", "num_dense_layers", "n_dense_first_layers",
                              "moe_layer_num_skipped", "dense_mlp_idx",    "moe.first_k_dense_replace"};

std::vector<bool> after_count(const ConfigReader& reader, std::int64_t layers) {
  const std::int64_t dense = reader.whole_or(kDenseCountKeys, 0, 0, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) { return layer >= dense; });
}

std::vector<bool> from_pattern(const ConfigReader& reader, std::int64_t layers) {
  const std::string pattern = block_pattern(reader);
  if (pattern.empty()) return after_count(reader, layers);
  return by_rule(layers, [&](std::int64_t layer) {
    return layer < static_cast<std::int64_t>(pattern.size()) && pattern[static_cast<std::size_t>(layer)] == 'E';
  });
}

// Of a family that is not known: the rule whose key is there.
std::vector<bool> by_any_key(const ConfigReader& reader, std::int64_t layers) {
  const auto has = [&](const char* key) { return reader.has(key); };
  if (!block_pattern(reader).empty()) return from_pattern(reader, layers);
  if (has("moe_layers_enum")) return from_text(reader.at({"moe_layers_enum"}), layers);
  if (has_entries(reader, "moe_layers")) return named(reader.at({"moe_layers"}), layers);
  if (has("interleave_moe_layer_step")) return every(reader, "interleave_moe_layer_step", layers);
  if (has("moe_layer_start_index")) return from_start_to_end(reader, layers);
  if (has("expert_layer_period")) return by_period(reader, layers);
  if (has("moe_layer_frequency")) return every(reader, "moe_layer_frequency", layers);
  if (has("decoder_sparse_step") || has("mlp_only_layers")) return by_sparse_step(reader, layers);
  if (has("first_k_dense_replace")) return after_dense(reader, layers);
  return after_count(reader, layers);
}

std::vector<bool> placed(const ConfigReader& reader, Placement placement, std::int64_t layers) {
  switch (placement) {
    case Placement::kEveryLayer:
      return std::vector<bool>(static_cast<std::size_t>(layers), true);
    case Placement::kDenseFirst:
      return after_dense(reader, layers);
    case Placement::kSparseStep:
      return by_sparse_step(reader, layers);
    case Placement::kInterleave:
      return has_entries(reader, "moe_layers") ? named(reader.at({"moe_layers"}), layers)
                                               : every(reader, "interleave_moe_layer_step", layers);
    case Placement::kFrequency:
      return every(reader, "moe_layer_frequency", layers);
    case Placement::kStartEnd:
      return from_start_to_end(reader, layers);
    case Placement::kPeriod:
      return by_period(reader, layers);
    case Placement::kListed:
      return reader.has("moe_layers_enum") ? from_text(reader.at({"moe_layers_enum"}), layers)
                                           : after_count(reader, layers);
    case Placement::kPattern:
      return from_pattern(reader, layers);
    case Placement::kDenseCount:
      return after_count(reader, layers);
    case Placement::kAnyKey:
      return by_any_key(reader, layers);
  }
  return {};
}

// A list with an entry a layer, which comes before any rule.
std::optional<JsonView> layer_list(const ConfigReader& reader) {
  for (const char* key : {"mlp_layer_types", "moe_layer_freq"}) {
    const std::optional<JsonView> found = reader.find({key});
    if (found && found->is_array()) return found;
  }
  return std::nullopt;
}

}  // namespace

std::string block_pattern(const ConfigReader& reader) {
  static const std::map<std::string, char> kBlocks = {{"mamba", 'M'},     {"linear_attention", 'M'},
                                                      {"attention", '*'}, {"full_attention", '*'},
                                                      {"mlp", '-'},       {"moe", 'E'}};
  if (const std::optional<JsonView> text = reader.find({"hybrid_override_pattern"}); text && text->is_string()) {
    const std::string pattern = text->as_string();
    if (pattern.find_first_not_of("M*-E") != std::string::npos) text->fail("a pattern of M, *, - and E");
    return pattern;
  }
  const std::optional<JsonView> list = reader.find({"layers_block_type"});
  if (!list) return "";
  std::string pattern;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string kind = list->at(i).as_string();
    const auto known = kBlocks.find(kind);
    if (known == kBlocks.end()) {
      list->at(i).fail("mamba, attention, mlp or moe", nearest_name(kind, {"mamba", "attention"}));
    }
    pattern += known->second;
  }
  return pattern;
}

std::vector<bool> read_hash_routing(const ConfigReader& reader, std::int64_t layers) {
  if (const std::optional<JsonView> list = reader.find({"mlp_layer_types"}); list && list->is_array()) {
    return by_rule(layers, [&](std::int64_t layer) {
      const auto i = static_cast<std::size_t>(layer);
      return i < list->size() && list->at(i).is_string() && list->at(i).as_string() == kHashRouted;
    });
  }
  const std::int64_t count = reader.whole_or({"num_hash_layers"}, 0, 0, kMaxLayers);
  return by_rule(layers, [&](std::int64_t layer) { return layer < count; });
}

std::vector<bool> read_placement(const ConfigReader& reader, Placement placement, std::int64_t layers) {
  const std::optional<JsonView> list = layer_list(reader);
  std::vector<bool> moe = list ? from_list(reader, *list, layers) : placed(reader, placement, layers);
  if (std::find(moe.begin(), moe.end(), true) == moe.end()) {
    refuse(reader.config(), fmt::format("{} dense layers and no MoE layer", layers), "at least one MoE layer");
  }
  return moe;
}

}  // namespace moesim
