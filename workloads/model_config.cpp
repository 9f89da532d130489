// What it models: the MoE layers of a config.json as published, and the number format of their weights.
// What it leaves out: attention, embeddings, multi-token-prediction layers.
// Source of key names and defaults: the configuration and modelling classes of Hugging Face Transformers and the
// published config.json files; a default applies only where a file lacks the key.
#include "workloads/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "sim/io/strict_json.h"
#include "workloads/config_errors.h"
#include "workloads/model_files.h"
#include "workloads/quantisation_config.h"

namespace moesim {
namespace {

// Bounds that no published model comes near; beyond them a value is a slip of the pen.
constexpr std::int64_t kMaxWidth = 1'000'000;
constexpr std::int64_t kMaxExperts = 65'536;
constexpr std::int64_t kMaxLayers = 10'000;
constexpr double kMaxRoutedScale = 1e6;

// ---------------------------------------------------------------------------------------------------- families

using Keys = std::vector<std::string>;  // alternatives for one concept, the usual one first

enum class SharedRule {
  kNone,
  kOneGated,  // shared_expert_intermediate_size: one expert of that width behind a sigmoid gate
  kCounted,   // n_shared_experts, each as wide as a routed expert
  kWidth,     // shared_intermediate_size: one expert of that width, no gate
};

enum class Placement {
  kEveryLayer,
  kDenseFirst,  // first_k_dense_replace, then every moe_layer_freq-th; or mlp_layer_types spelt out
  kSparseStep,  // every decoder_sparse_step-th, except mlp_only_layers
};

struct Family {
  std::vector<std::string> model_types;
  Keys experts = {"num_experts"};
  Keys width = {"moe_intermediate_size"};
  SharedRule shared = SharedRule::kNone;
  Placement placement = Placement::kEveryLayer;
  Scoring scoring = Scoring::kSoftmax;
  bool norm_topk = false;
  bool norm_topk_key = true;  // false: the code of the family does not ask norm_topk_prob
  bool gated = true;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {.model_types = {"qwen2_moe"}, .shared = SharedRule::kOneGated, .placement = Placement::kSparseStep},
      {.model_types = {"qwen3_moe"}, .shared = SharedRule::kOneGated, .placement = Placement::kSparseStep},
      {.model_types = {"qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"},
       .shared = SharedRule::kOneGated,
       .placement = Placement::kSparseStep,
       .norm_topk = true},
      {.model_types = {"mixtral"},
       .experts = {"num_local_experts"},
       .width = {"intermediate_size"},
       .norm_topk = true,
       .norm_topk_key = false},
      {.model_types = {"gpt_oss"},  // softmax over the selected k logits: the weights of a token sum to one
       .experts = {"num_local_experts", "num_experts"},
       .width = {"intermediate_size"},
       .norm_topk = true,
       .norm_topk_key = false},
      {.model_types = {"minimax_m2"},
       .experts = {"num_local_experts"},
       .width = {"intermediate_size"},
       .shared = SharedRule::kWidth,
       .scoring = Scoring::kSigmoid,
       .norm_topk = true,
       .norm_topk_key = false},
      {.model_types = {"olmoe"}, .width = {"intermediate_size"}},
      {.model_types = {"deepseek_v2"},
       .experts = {"n_routed_experts"},
       .shared = SharedRule::kCounted,
       .placement = Placement::kDenseFirst},
      {.model_types = {"deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"},
       .experts = {"n_routed_experts"},
       .shared = SharedRule::kCounted,
       .placement = Placement::kDenseFirst,
       .scoring = Scoring::kSigmoid,
       .norm_topk = true},
  };
  return kFamilies;
}

const Keys kTopkKeys = {"num_experts_per_tok", "experts_per_token"};

// Where any family keeps its number of routed experts (or the object that holds it): a config with none of them is
// dense.
const Keys kAnyExpertKeys = {"num_experts",     "num_local_experts", "n_routed_experts",
                             "moe_num_experts", "ffn_config",        "moe"};

std::string key_of(const JsonView& view) { return view.pointer().substr(view.pointer().rfind('/') + 1); }

// ------------------------------------------------------------------------------------------------ small readers

bool is_dense(const JsonView& config) {
  return std::none_of(kAnyExpertKeys.begin(), kAnyExpertKeys.end(),
                      [&](const std::string& key) { return config.has(key); });
}

const Family& family_of(const JsonView& config, const JsonView& type) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    for (const std::string& model_type : family.model_types) {
      if (model_type == type.as_string()) return family;
      known.push_back(model_type);
    }
  }
  std::sort(known.begin(), known.end());
  if (is_dense(config)) {
    refuse(type,
           fmt::format("model_type '{}', a dense model: it has no routed experts (no {} ...)", type.as_string(),
                       fmt::join(kAnyExpertKeys.begin(), kAnyExpertKeys.begin() + 3, ", ")),
           fmt::format("a Mixture-of-Experts model of a known family: {}", fmt::join(known, ", ")));
  }
  refuse(type, fmt::format("model_type '{}'", type.as_string()),
         fmt::format("a known family: {}", fmt::join(known, ", ")));
}

// The first of `keys` that is there; where a config repeats itself under two names, both must agree. With none there,
// the error names the usual one.
JsonView find_count(const JsonView& config, const Keys& keys, std::int64_t max) {
  std::optional<JsonView> found;
  for (const std::string& key : keys) {
    if (!config.has(key)) continue;
    const JsonView value = config.at(key);
    if (found && found->as_int(1, max) != value.as_int(1, max)) {
      value.fail(fmt::format("{}, as {} says", found->as_int(1, max), key_of(*found)));
    }
    if (!found) found = value;
  }
  return found ? *found : config.at(keys.front());
}

std::int64_t count(const JsonView& config, const Keys& keys, std::int64_t max) {
  return find_count(config, keys, max).as_int(1, max);
}

std::int64_t int_or(const JsonView& config, const std::string& key, std::int64_t absent, std::int64_t min,
                    std::int64_t max) {
  return config.has(key) ? config.at(key).as_int(min, max) : absent;
}

Scoring read_scoring(const JsonView& config, Scoring absent) {
  if (!config.has("scoring_func")) return absent;
  const std::string name = config.at("scoring_func").as_string();
  if (name == "softmax") return Scoring::kSoftmax;
  if (name == "sigmoid") return Scoring::kSigmoid;
  if (name == "sqrtsoftplus") return Scoring::kSqrtSoftplus;
  config.at("scoring_func")
      .fail("softmax, sigmoid or sqrtsoftplus", nearest_name(name, {"softmax", "sigmoid", "sqrtsoftplus"}));
}

// -------------------------------------------------------------------------------------------------- MoE layers

std::int64_t layers_listed(const JsonView& list, std::int64_t layers) {
  if (list.size() != static_cast<std::size_t>(layers)) {
    refuse(list, fmt::format("{} entries", list.size()), fmt::format("one for each of {} layers", layers));
  }
  std::int64_t moe_layers = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list.at(i).is_string()) {
      moe_layers += list.at(i).as_int(0, 1);
    } else if (list.at(i).as_string() == "sparse") {
      ++moe_layers;
    } else if (list.at(i).as_string() != "dense") {
      list.at(i).fail("dense or sparse");
    }
  }
  return moe_layers;
}

std::int64_t layers_after_dense(const JsonView& config, std::int64_t layers) {
  if (config.has("mlp_layer_types")) return layers_listed(config.at("mlp_layer_types"), layers);
  if (config.has("moe_layer_freq") && config.at("moe_layer_freq").is_array()) {
    return layers_listed(config.at("moe_layer_freq"), layers);
  }
  const std::int64_t dense = config.at("first_k_dense_replace").as_int(0, layers);
  const std::int64_t step = int_or(config, "moe_layer_freq", 1, 1, layers);
  std::int64_t moe_layers = 0;
  for (std::int64_t layer = dense; layer < layers; ++layer) moe_layers += layer % step == 0 ? 1 : 0;
  return moe_layers;
}

std::int64_t layers_by_step(const JsonView& config, std::int64_t layers) {
  const std::int64_t step = int_or(config, "decoder_sparse_step", 1, 1, kMaxLayers);
  std::vector<bool> dense(static_cast<std::size_t>(layers), false);
  if (config.has("mlp_only_layers")) {
    const JsonView list = config.at("mlp_only_layers");
    for (std::size_t i = 0; i < list.size(); ++i) {
      dense[static_cast<std::size_t>(list.at(i).as_int(0, layers - 1))] = true;
    }
  }
  std::int64_t moe_layers = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    moe_layers += (layer + 1) % step == 0 && !dense[static_cast<std::size_t>(layer)] ? 1 : 0;
  }
  return moe_layers;
}

std::int64_t read_moe_layers(const JsonView& config, Placement placement, std::int64_t layers) {
  std::int64_t moe_layers = layers;
  switch (placement) {
    case Placement::kEveryLayer:
      break;
    case Placement::kDenseFirst:
      moe_layers = layers_after_dense(config, layers);
      break;
    case Placement::kSparseStep:
      moe_layers = layers_by_step(config, layers);
      break;
  }
  if (moe_layers == 0)
    refuse(config, fmt::format("{} dense layers and no MoE layer", layers), "at least one MoE layer");
  return moe_layers;
}

void read_shared(const JsonView& config, SharedRule rule, MoeModel& model) {
  switch (rule) {
    case SharedRule::kNone:
      break;
    case SharedRule::kOneGated:
      model.shared_intermediate = int_or(config, "shared_expert_intermediate_size", 0, 0, kMaxWidth);
      model.shared_experts = model.shared_intermediate > 0 ? 1 : 0;
      model.shared_gate = model.shared_experts > 0;
      break;
    case SharedRule::kCounted:
      model.shared_experts = int_or(config, "n_shared_experts", 0, 0, kMaxExperts);
      model.shared_intermediate = model.shared_experts * model.expert_intermediate;
      break;
    case SharedRule::kWidth:
      model.shared_intermediate = int_or(config, "shared_intermediate_size", 0, 0, kMaxWidth);
      model.shared_experts = model.shared_intermediate > 0 ? 1 : 0;
      break;
  }
}

void read_groups(const JsonView& config, MoeModel& model) {
  // "greedy" is a plain top-k: n_group is there and not used (DeepSeek-V2-Lite).
  if (config.has("topk_method") && config.at("topk_method").as_string() == "greedy") return;
  model.groups = int_or(config, "n_group", 1, 1, model.experts);
  if (model.experts % model.groups != 0) {
    config.at("n_group").fail(fmt::format("a divisor of {} experts", model.experts));
  }
  model.topk_groups = int_or(config, "topk_group", model.groups, 1, model.groups);
  const std::int64_t allowed = model.experts / model.groups * model.topk_groups;
  if (model.topk > allowed) {
    refuse(find_count(config, kTopkKeys, kMaxExperts), fmt::format("{} (top-k)", model.topk),
           fmt::format("at most {} (experts in {} of {} groups)", allowed, model.topk_groups, model.groups));
  }
}

// ----------------------------------------------------------------------------------------------------- a model

// "models/qwen3-30b-a3b.json" -> "qwen3-30b-a3b"; for a plain config.json, the folder it lies in.
std::string name_from_file(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.parent_path().filename().string();
  return path.stem() == "config" && !folder.empty() ? folder : path.stem().string();
}

MoeModel read_model(const JsonDocument& document, const std::optional<JsonDocument>& sidecar) {
  const JsonView root = document.root();
  if (!root.is_object()) root.fail("an object, a Hugging Face config.json");
  // Models with vision or audio parts keep the language model's values one level down.
  const JsonView config = root.has("text_config") ? root.at("text_config") : root;
  const JsonView type = config.has("model_type") ? config.at("model_type") : root.at("model_type");
  const Family& family = family_of(config, type);

  MoeModel model;
  model.name = name_from_file(document.name());
  model.family = root.has("model_type") ? root.at("model_type").as_string() : type.as_string();
  model.source = "config.json as published";
  model.file = document.name();
  if (root.has("moesim")) {
    const JsonView own = root.at("moesim");
    own.only_keys({"name", "source"});
    model.name = own.at("name").as_string();
    model.source = own.at("source").as_string();
  }

  model.hidden = count(config, {"hidden_size"}, kMaxWidth);
  model.expert_intermediate = count(config, family.width, kMaxWidth);
  const JsonView experts = find_count(config, family.experts, kMaxExperts);
  const JsonView topk = find_count(config, kTopkKeys, kMaxExperts);
  model.experts = experts.as_int(1, kMaxExperts);
  model.topk = topk.as_int(1, kMaxExperts);
  if (model.topk > model.experts) {
    refuse(topk, fmt::format("{} ({})", model.topk, key_of(topk)),
           fmt::format("at most {} ({})", model.experts, key_of(experts)));
  }
  model.gated = family.gated;
  read_shared(config, family.shared, model);
  model.layers = count(config, {"num_hidden_layers"}, kMaxLayers);
  model.moe_layers = read_moe_layers(config, family.placement, model.layers);

  model.scoring = read_scoring(config, family.scoring);
  const bool ask = family.norm_topk_key && config.has("norm_topk_prob");
  model.norm_topk = ask ? config.at("norm_topk_prob").as_bool() : family.norm_topk;
  if (config.has("routed_scaling_factor")) {
    model.routed_scale = config.at("routed_scaling_factor").as_double(0, kMaxRoutedScale);
  }
  read_groups(config, model);
  std::optional<JsonView> quantisation;
  if (root.has("quantization_config")) {
    quantisation = root.at("quantization_config");
  } else if (config.has("quantization_config")) {
    quantisation = config.at("quantization_config");
  } else if (sidecar) {
    quantisation = sidecar->root().at("quantization");
  }
  read_weight_formats(root, config, quantisation, model);
  return model;
}

// NVIDIA's checkpoints keep the quantisation beside config.json, as hf_quant_config.json (or
// PREFIX_hf_quant_config.json beside PREFIX_config.json).
std::optional<JsonDocument> read_sidecar(const std::string& config_path) {
  constexpr std::string_view kEnd = "config.json";
  if (!config_path.ends_with(kEnd)) return std::nullopt;
  const std::string sidecar = config_path.substr(0, config_path.size() - kEnd.size()) + "hf_quant_config.json";
  if (!std::filesystem::exists(sidecar)) return std::nullopt;
  return JsonDocument::read_file(sidecar);
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : model_files()) names.push_back(name_from_file(std::string(file.name)));
  std::sort(names.begin(), names.end());
  return names;
}

MoeModel load_model(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) {
    return read_model(JsonDocument::read_file(name_or_path), read_sidecar(name_or_path));
  }
  for (const EmbeddedFile& file : model_files()) {
    if (name_from_file(std::string(file.name)) != name_or_path) continue;
    return parse_model(std::string(file.text), fmt::format("models/{}", file.name));
  }
  const std::vector<std::string> names = model_names();
  throw InputError({.file = "",
                    .where = "",
                    .found = fmt::format("model '{}'", name_or_path),
                    .expected = fmt::format("a path to a config.json or one of {}", fmt::join(names, ", ")),
                    .nearest = nearest_name(name_or_path, names)});
}

MoeModel parse_model(const std::string& text, const std::string& file_name) {
  return read_model(JsonDocument::parse(text, file_name), std::nullopt);
}

}  // namespace moesim
