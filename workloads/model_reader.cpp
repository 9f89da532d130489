#include "workloads/model_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "workloads/apply_overrides.h"
#include "workloads/config_errors.h"
#include "workloads/family_choice.h"
#include "workloads/layer_placement.h"
#include "workloads/mixers.h"
#include "workloads/model_limits.h"
#include "workloads/quantisation_config.h"

namespace moesim {
namespace {

const Keys kScoringKeys = {"scoring_func",
                           "score_function",
                           "score_func",
                           "moe_router_activation",
                           "moe_router_activation_func",
                           "router_score_function",
                           "expert_selection_fn",
                           "gate_activation"};
const Keys kNormKeys = {"norm_topk_prob", "moe_renormalize", "norm_expert_weight", "route_norm"};
const Keys kScaleKeys = {"routed_scaling_factor",     "router_scaling_factor", "moe_router_scaling_factor",
                         "moe_routed_scaling_factor", "route_scale",           "moe.routed_scale"};
const Keys kGroupKeys = {"n_group", "num_expert_group", "moe.num_expert_groups"};
const Keys kTopkGroupKeys = {"topk_group", "moe.num_expert_groups_per_tok"};
const Keys kLatentKeys = {"moe_latent_size", "routed_expert_hidden_size"};
const Keys kSharedWidthKeys = {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size",
                               "share_expert_dim", "shared_intermediate_size"};

// The family's names; where it has none of them, those of the others.
Keys or_any(const ConfigReader& reader, const Keys& own, const Keys& any) {
  if (reader.find(own)) return own;
  Keys keys = own;
  keys.insert(keys.end(), any.begin(), any.end());
  return keys;
}

// The first name that is there, alone: further ones have another meaning beside it.
Keys first_found(const ConfigReader& reader, const Keys& keys) {
  for (const std::string& key : keys) {
    if (reader.has(key)) return {key};
  }
  return keys;
}

Scoring read_scoring(const ConfigReader& reader, Scoring absent) {
  const std::optional<JsonView> found = reader.find(kScoringKeys);
  if (!found) return absent;
  const std::string name = found->as_string();
  if (name != "softmax" && name != "sigmoid" && name != "sqrtsoftplus") {
    found->fail("softmax, sigmoid or sqrtsoftplus", nearest_name(name, {"softmax", "sigmoid", "sqrtsoftplus"}));
  }
  return scoring_of(name);
}

bool read_norm(const ConfigReader& reader, const Family& family) {
  // DBRX: the exponent of the norm by which a token's weights are divided; null leaves them.
  if (reader.find({"ffn_config.moe_num_experts"})) return reader.has("ffn_config.moe_normalize_expert_weights");
  return family.norm_topk_key ? reader.flag_or(kNormKeys, family.norm_topk) : family.norm_topk;
}

void read_shared(const ConfigReader& reader, SharedRule rule, MoeModel& model) {
  switch (rule) {
    case SharedRule::kNone:
      break;
    case SharedRule::kOneGated:
      model.shared_intermediate = reader.whole_or({"shared_expert_intermediate_size"}, 0, 0, kMaxWidth);
      model.shared_experts = model.shared_intermediate > 0 ? 1 : 0;
      model.shared_gate = model.shared_experts > 0;
      break;
    case SharedRule::kCounted: {
      const std::int64_t width = reader.whole_or(kSharedWidthKeys, 0, 0, kMaxWidth);
      model.shared_experts = reader.whole_or(shared_count_keys(), width > 0 ? 1 : 0, 0, kMaxExperts);
      model.shared_intermediate = model.shared_experts * (width > 0 ? width : model.expert_intermediate);
      break;
    }
    case SharedRule::kWidth:
      model.shared_intermediate = reader.whole_or({"shared_intermediate_size"}, 0, 0, kMaxWidth);
      model.shared_experts = model.shared_intermediate > 0 ? 1 : 0;
      break;
    case SharedRule::kOneLikeRouted:
      model.shared_experts = 1;
      model.shared_intermediate = model.expert_intermediate;
      break;
  }
}

void read_groups(const ConfigReader& reader, MoeModel& model) {
  // "greedy" is a plain top-k: n_group is there and not used (DeepSeek-V2-Lite).
  const std::optional<JsonView> method = reader.find({"topk_method"});
  if (method && method->as_string() == "greedy") return;
  const std::optional<JsonView> groups = reader.find(kGroupKeys);
  if (!groups || !reader.flag_or({"use_grouped_topk"}, true)) return;
  model.groups = groups->as_int(1, model.experts);
  if (model.experts % model.groups != 0) groups->fail(fmt::format("a divisor of {} experts", model.experts));
  model.topk_groups = reader.whole_or(kTopkGroupKeys, model.groups, 1, model.groups);
}

// -------------------------------------------------------------------------------------------------------- layers

std::int64_t read_layer_count(const ConfigReader& reader, const Family& family) {
  if (const auto stated = reader.overrides().whole("layers")) return *stated;
  const Keys keys = or_any(reader, family.layers, layer_keys());
  const std::string pattern = block_pattern(reader);
  if (!reader.find(keys) && !pattern.empty()) return static_cast<std::int64_t>(pattern.size());
  return reader.at(keys).as_int(1, kMaxLayers);
}

std::int64_t read_dense_width(const ConfigReader& reader, const Family& family) {
  if (const auto stated = reader.overrides().whole("dense_intermediate")) return *stated;
  return reader.whole_or(family.dense_width, 0, 0, kMaxWidth);
}

std::int64_t width_beside(const Family& family, std::int64_t hidden, std::int64_t dense) {
  switch (family.dense_beside) {
    case DenseBeside::kNone:
      return 0;
    case DenseBeside::kHidden:
      return hidden;
    case DenseBeside::kDenseWidth:
    case DenseBeside::kTwice:
      return dense;
  }
  return 0;
}

// DeepSeek-V4's hyper-connections: `streams` residuals, mixed before and after attention and FFN.
std::int64_t hyper_connections(const ConfigReader& reader, std::int64_t hidden) {
  const std::int64_t streams = reader.whole_or({"hc_mult"}, 0, 0, kMaxHeads);
  if (streams == 0) return 0;
  constexpr std::int64_t kBlocks = 2, kScales = 3;
  const std::int64_t mixes = (2 + streams) * streams;
  return kBlocks * (mixes * streams * hidden + mixes + kScales);
}

void read_layers(const ConfigReader& reader, const Family& family, MoeModel& model) {
  const std::int64_t count = read_layer_count(reader, family);
  std::vector<bool> moe;
  if (const auto stated = reader.overrides().whole("moe_layers")) {  // the last ones
    if (*stated > count) {
      throw InputError({"--model-override", "", fmt::format("'moe_layers={}'", *stated),
                        fmt::format("at most {}, the layers", count), ""});
    }
    for (std::int64_t layer = 0; layer < count; ++layer) moe.push_back(layer >= count - *stated);
  } else {
    moe = read_placement(reader, family.placement, count);
  }
  const std::int64_t dense = read_dense_width(reader, family);
  const std::int64_t beside = width_beside(family, model.hidden, dense);
  const std::vector<bool> hashed = read_hash_routing(reader, count);
  const std::string pattern = family.placement == Placement::kPattern ? block_pattern(reader) : "";
  const std::int64_t small =
      family.norms * model.hidden * (family.norm_bias ? 2 : 1) + hyper_connections(reader, model.hidden);
  for (std::int64_t i = 0; i < count; ++i) {
    DecoderLayer layer;
    layer.moe = moe[static_cast<std::size_t>(i)];
    layer.hash_routed = layer.moe && hashed[static_cast<std::size_t>(i)];
    layer.dense_intermediate = layer.moe ? beside : dense;
    const bool in_pattern = i < static_cast<std::int64_t>(pattern.size());
    if (in_pattern && pattern[static_cast<std::size_t>(i)] != '-') layer.dense_intermediate = 0;
    layer.small_parameters = small;
    if (layer.moe && family.router_bias && !layer.hash_routed) {
      layer.small_parameters += model.experts + model.zero_experts;
    }
    model.decoder_layers.push_back(layer);
    if (family.dense_beside != DenseBeside::kTwice) continue;
    DecoderLayer second;
    second.dense_intermediate = dense;
    second.small_parameters = small;
    model.decoder_layers.push_back(second);
  }
  model.layers = static_cast<std::int64_t>(model.decoder_layers.size());
  model.moe_layers = std::count(moe.begin(), moe.end(), true);
}

// -------------------------------------------------------------------------------------------------------- checks

// Counts of parameters are sums of 64-bit integers.
void check_size(const ConfigReader& reader, const MoeModel& model) {
  constexpr double kMostParameters = 1e17;
  const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
  double parameters = as_double(model.vocabulary) * as_double(model.hidden);
  for (const DecoderLayer& layer : model.decoder_layers) {
    double width = as_double(layer.dense_intermediate);
    if (layer.moe)
      width += as_double(model.experts) * as_double(model.expert_intermediate) + as_double(model.shared_intermediate);
    parameters += 3 * as_double(std::max(model.hidden, model.latent)) * width;
    if (!layer.mixer) continue;
    for (const WeightMatrix& matrix : model.mixers[*layer.mixer].before) parameters += as_double(matrix.parameters());
    for (const WeightMatrix& matrix : model.mixers[*layer.mixer].after) parameters += as_double(matrix.parameters());
  }
  if (parameters > kMostParameters) {
    refuse(reader.config(), fmt::format("{:.1e} parameters", parameters),
           fmt::format("at most {:.0e}", kMostParameters));
  }
}

void check_topk(const ConfigReader& reader, const Keys& expert_names, const MoeModel& model) {
  const auto named = [&](const char* name, const Keys& keys) {
    const std::optional<JsonView> view = reader.overrides().text(name) ? std::nullopt : reader.find(keys);
    return view ? key_of(*view) : std::string(name);
  };
  const JsonView place = reader.find(topk_keys()).value_or(reader.config());
  const std::int64_t choices = model.experts + model.zero_experts;
  if (model.topk > choices) {
    refuse(place, fmt::format("{} ({})", model.topk, named("topk", topk_keys())),
           fmt::format("at most {} ({})", choices, named("experts", expert_names)));
  }
  if (model.experts % model.groups != 0 || model.topk_groups > model.groups) {
    throw InputError({"--model-override", "", fmt::format("{} of {} groups", model.topk_groups, model.groups),
                      fmt::format("groups that divide {} experts, and no more topk_groups than groups", model.experts),
                      ""});
  }
  const std::int64_t allowed = model.experts / model.groups * model.topk_groups;
  if (model.groups > 1 && model.topk > allowed) {
    refuse(place, fmt::format("{} (top-k)", model.topk),
           fmt::format("at most {} (experts in {} of {} groups)", allowed, model.topk_groups, model.groups));
  }
}

// ------------------------------------------------------------------------------------------------------- origins

// Where each value is from, for the record: an override, a key (perhaps with a value that was only recalled), or what
// holds in the family where the config is silent.
class Origins {
 public:
  Origins(const ConfigReader& reader, std::vector<std::string> recalled, MoeModel& model)
      : reader_(reader), recalled_(std::move(recalled)), model_(model) {}

  void note(const char* name, const Keys& keys) {
    std::string origin = fmt::format("rule of {}", model_.family);
    if (const std::optional<JsonView> found = reader_.find(keys)) {
      origin = key_of(*found);
      if (std::find(recalled_.begin(), recalled_.end(), origin) != recalled_.end()) origin += ", recalled";
    }
    if (reader_.overrides().text(name)) origin = "--model-override";
    model_.origins.emplace_back(name, std::move(origin));
  }

 private:
  const ConfigReader& reader_;
  std::vector<std::string> recalled_;
  MoeModel& model_;
};

void note_origins(const ConfigReader& reader, const Family& family, std::vector<std::string> recalled,
                  MoeModel& model) {
  Origins origins(reader, std::move(recalled), model);
  Keys shared = shared_count_keys();
  shared.insert(shared.end(), kSharedWidthKeys.begin(), kSharedWidthKeys.end());
  origins.note("hidden", hidden_keys());
  origins.note("intermediate", family.width);
  origins.note("experts", or_any(reader, family.experts, expert_keys()));
  origins.note("topk", topk_keys());
  origins.note("shared_intermediate", shared);
  origins.note("layers", or_any(reader, family.layers, layer_keys()));
  origins.note("moe_layers",
               {"mlp_layer_types", "moe_layer_freq", "first_k_dense_replace", "moe_layers_enum", "moe_layers",
                "interleave_moe_layer_step", "moe_layer_frequency", "decoder_sparse_step", "moe_layer_start_index",
                "expert_layer_period", "hybrid_override_pattern", "layers_block_type", "num_dense_layers"});
  origins.note("dense_intermediate", family.dense_width);
  origins.note("latent", kLatentKeys);
  origins.note("zero_experts", {"zero_expert_num"});
  origins.note("scoring", kScoringKeys);
  origins.note("norm_topk", family.norm_topk_key ? kNormKeys : Keys{});
  origins.note("routed_scale", kScaleKeys);
  origins.note("groups", kGroupKeys);
  origins.note("vocabulary", {"vocab_size"});
  origins.note("attention", {"num_attention_heads", "n_heads"});
}

struct OwnObject {
  std::string name, source;
  std::vector<std::string> recalled;
};

OwnObject read_own(const JsonView& own) {
  own.only_keys({"name", "source", "recalled"});
  OwnObject result{own.at("name").as_string(), own.at("source").as_string(), {}};
  if (!own.has("recalled")) return result;
  const JsonView list = own.at("recalled");
  for (std::size_t i = 0; i < list.size(); ++i) result.recalled.push_back(list.at(i).as_string());
  return result;
}

std::optional<JsonView> find_quantisation(const JsonView& root, const JsonView& config,
                                          const std::optional<JsonDocument>& sidecar) {
  for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
    for (const JsonView& view : {root, config}) {
      if (view.has(key)) return view.at(key);
    }
  }
  return sidecar ? std::optional(sidecar->root().at("quantization")) : std::nullopt;
}

bool read_tied(const ConfigReader& reader, bool absent) {
  const bool nested = reader.flag_or({"tie_word_embeddings"}, absent);
  const JsonView& root = reader.root();
  const bool outer_only = root.has("tie_word_embeddings") && !reader.has("tie_word_embeddings");
  return outer_only ? root.at("tie_word_embeddings").as_bool() : nested;
}

}  // namespace

std::string name_from_file(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.parent_path().filename().string();
  return path.stem() == "config" && !folder.empty() ? folder : path.stem().string();
}

MoeModel read_model(const JsonDocument& document, const std::optional<JsonDocument>& sidecar,
                    const ModelOverrides& overrides) {
  const JsonView root = document.root();
  if (!root.is_object()) root.fail("an object, a Hugging Face config.json");
  const ConfigReader reader(root, language_config(root), overrides);
  const Family& family = choose_family(reader);

  MoeModel model;
  model.name = name_from_file(document.name());
  model.family = family_name(reader);
  model.source = "config.json as published";
  model.file = document.name();
  std::vector<std::string> recalled;
  if (root.has("moesim")) {
    const OwnObject own = read_own(root.at("moesim"));
    model.name = own.name;
    model.source = own.source;
    recalled = own.recalled;
  }

  const Keys expert_names = or_any(reader, family.experts, expert_keys());
  model.hidden = reader.count("hidden", or_any(reader, {"hidden_size"}, hidden_keys()), kMaxWidth);
  model.expert_intermediate = reader.count_or_list("intermediate", first_found(reader, family.width), kMaxWidth);
  model.experts = reader.count_or_list("experts", expert_names, kMaxExperts);
  model.topk = reader.count_or_list("topk", topk_keys(), kMaxExperts);
  model.zero_experts =
      overrides.whole("zero_experts").value_or(reader.whole_or({"zero_expert_num"}, 0, 0, kMaxExperts));
  model.gated = model.dense_gated = family.gated;
  model.expert_bias = family.expert_bias;
  model.latent = reader.whole_or(kLatentKeys, 0, 0, kMaxWidth);
  read_shared(reader, family.shared, model);
  read_layers(reader, family, model);

  model.scoring = read_scoring(reader, family.scoring);
  model.norm_topk = read_norm(reader, family);
  if (const auto scale = reader.find(kScaleKeys)) model.routed_scale = scale->as_double(0, kMaxRoutedScale);
  read_groups(reader, model);
  model.vocabulary = reader.whole_or({"vocab_size"}, 0, 0, kMaxVocabulary);
  model.tied_embeddings = read_tied(reader, family.tied_embeddings);
  model.small_parameters = model.hidden * (family.norm_bias ? 2 : 1);
  if (reader.flag_or({"lm_head_bias"}, false)) model.small_parameters += model.vocabulary;
  read_mixers(reader, family, model);
  read_weight_formats(root, reader.config(), find_quantisation(root, reader.config(), sidecar), model);
  apply_overrides(overrides, model);
  check_topk(reader, expert_names, model);
  check_size(reader, model);
  note_origins(reader, family, std::move(recalled), model);
  return model;
}

}  // namespace moesim
