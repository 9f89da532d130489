// What it models: the MoE layers of a config.json as published, and the number format of their weights.
// What it leaves out: attention, embeddings, multi-token-prediction layers; a sidecar hf_quant_config.json is not read.
// Source of key names and defaults: the configuration and modelling classes of Hugging Face Transformers and the
// published config.json files; a default applies only where a file lacks the key.
#include "workloads/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "sim/io/strict_json.h"
#include "workloads/model_files.h"

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

// ------------------------------------------------------------------------------------------------------ errors

[[noreturn]] void refuse(const JsonView& view, std::string found, std::string expected, std::string nearest = "") {
  throw InputError({.file = view.file(),
                    .where = view.pointer(),
                    .found = std::move(found),
                    .expected = std::move(expected),
                    .nearest = std::move(nearest)});
}

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

// ------------------------------------------------------------------------------------------------ quantisation

WeightFormat read_dtype(const JsonView& root, const JsonView& config) {
  for (const JsonView& view : {config, root}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (!view.has(key)) continue;
      const std::string name = view.at(key).as_string();
      if (name == "bfloat16") return {Dtype::kBf16};
      if (name == "float16") return {Dtype::kFp16};
      if (name == "float32") return {Dtype::kFp32};
      view.at(key).fail("bfloat16, float16 or float32", nearest_name(name, {"bfloat16", "float16", "float32"}));
    }
  }
  return {Dtype::kBf16};
}

WeightFormat block_format(const JsonView& block) {
  std::vector<std::int64_t> sides;
  for (std::size_t i = 0; i < block.size(); ++i) sides.push_back(block.at(i).as_int(1, kMaxWidth));
  if (sides != std::vector<std::int64_t>{128, 128}) {
    refuse(block, fmt::format("blocks of [{}] weights to a scale", fmt::join(sides, ", ")),
           "[128, 128], the only fp8 block size that is modelled");
  }
  return {Dtype::kFp8Block128};
}

WeightFormat int4_format(const JsonView& group_size) {
  const std::int64_t group = group_size.as_int(-1, kMaxWidth);
  if (group != 32 && group != 64 && group != 128) {
    group_size.fail("32, 64 or 128, the 4-bit group sizes that are modelled");
  }
  return {Dtype::kInt4, group};
}

WeightFormat read_fp8(const JsonView& quantisation) {
  return quantisation.has("weight_block_size") ? block_format(quantisation.at("weight_block_size"))
                                               : WeightFormat{Dtype::kFp8};
}

WeightFormat read_mxfp4(const JsonView&) { return {Dtype::kMxfp4}; }

WeightFormat read_modelopt(const JsonView& quantisation) {
  const JsonView algorithm = quantisation.at("quant_algo");
  if (algorithm.as_string() == "NVFP4") return {Dtype::kNvfp4};
  if (algorithm.as_string() == "FP8") return {Dtype::kFp8};
  algorithm.fail("NVFP4 or FP8: other ModelOpt formats are not modelled");
}

// 8-bit GPTQ keeps a scale per group, int8 one per output row: at a group of 128 its bytes come out 1.5 % low.
WeightFormat read_gptq(const JsonView& quantisation) {
  const JsonView bits = quantisation.at("bits");
  if (bits.as_int(1, 16) == 4) return int4_format(quantisation.at("group_size"));
  if (bits.as_int(1, 16) == 8) return {Dtype::kInt8};
  bits.fail("4 or 8: other widths are not modelled");
}

WeightFormat read_awq(const JsonView& quantisation) {
  if (quantisation.at("bits").as_int(1, 16) != 4) quantisation.at("bits").fail("4: other widths are not modelled");
  return int4_format(quantisation.at("group_size"));
}

WeightFormat read_compressed_group(const JsonView& format, const JsonView& weights) {
  const std::string name = format.as_string();
  if (name == "mxfp4-pack-quantized") return {Dtype::kMxfp4};
  if (name == "nvfp4-pack-quantized") return {Dtype::kNvfp4};
  const std::int64_t bits = weights.at("num_bits").as_int(1, 16);
  const std::string strategy = weights.at("strategy").as_string();
  if (name == "pack-quantized" && bits == 4) return int4_format(weights.at("group_size"));
  const bool integer = name == "pack-quantized" || name == "int-quantized";
  if (integer && bits == 8 && strategy == "channel") return {Dtype::kInt8};
  if (name == "float-quantized" && bits == 8 && strategy == "tensor") return {Dtype::kFp8};
  if (name == "float-quantized" && bits == 8 && strategy == "block") return block_format(weights.at("block_structure"));
  refuse(format, fmt::format("compressed-tensors '{}' of {} bits, one scale per {}", name, bits, strategy),
         "pack-quantized of 4 bits (per group) or 8 (per channel), int-quantized of 8 (per channel), float-quantized "
         "of 8 (per tensor or block), mxfp4-pack-quantized or nvfp4-pack-quantized");
}

WeightFormat read_compressed_tensors(const JsonView& quantisation) {
  const JsonView groups = quantisation.at("config_groups");
  std::optional<WeightFormat> result;
  for (const std::string& key : groups.keys()) {
    const JsonView group = groups.at(key);
    const WeightFormat format =
        read_compressed_group((group.has("format") ? group : quantisation).at("format"), group.at("weights"));
    if (result && *result != format) {
      refuse(group, fmt::format("{} beside {}", format_name(format), format_name(*result)),
             "one weight format: mixed precision is not modelled");
    }
    result = format;
  }
  if (!result) refuse(groups, "no group", "at least one group of quantised layers");
  return *result;
}

struct Method {
  const char* name;
  WeightFormat (*read)(const JsonView&);
};
constexpr Method kMethods[] = {
    {"fp8", read_fp8},           {"mxfp4", read_mxfp4},
    {"modelopt", read_modelopt}, {"compressed-tensors", read_compressed_tensors},
    {"gptq", read_gptq},         {"awq", read_awq},
};

WeightFormat read_method(const JsonView& quantisation) {
  if (quantisation.has("quant_algo") && quantisation.at("quant_algo").as_string() == "MIXED_PRECISION") {
    quantisation.at("quant_algo").fail("one weight format: mixed precision is not modelled");
  }
  // Early ModelOpt exports name the algorithm only.
  if (!quantisation.has("quant_method") && quantisation.has("quant_algo")) return read_modelopt(quantisation);
  const JsonView method = quantisation.at("quant_method");
  std::vector<std::string> names;
  for (const Method& known : kMethods) {
    if (method.as_string() == known.name) return known.read(quantisation);
    names.emplace_back(known.name);
  }
  method.fail(fmt::format("a quantisation that is modelled: {}", fmt::join(names, ", ")),
              nearest_name(method.as_string(), names));
}

struct Exclusion {
  JsonView place;
  std::string module;  // name or pattern
};

std::vector<Exclusion> exclusions(const JsonView& quantisation) {
  std::vector<Exclusion> result;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
    if (!quantisation.has(key)) continue;
    const JsonView list = quantisation.at(key);
    for (std::size_t i = 0; i < list.size(); ++i) result.push_back({list.at(i), list.at(i).as_string()});
  }
  if (quantisation.has("dynamic")) {  // GPTQModel: a key that begins with "-:" is a pattern of modules left alone
    const JsonView rules = quantisation.at("dynamic");
    for (const std::string& key : rules.keys()) {
      if (key.starts_with("-:")) result.push_back({rules.at(key), key});
    }
  }
  return result;
}

// "model.layers.78.mlp" -> 78; patterns over all layers have none.
std::optional<std::int64_t> layer_of(const std::string& module) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = module.find(kLayers);
  std::optional<std::int64_t> layer;
  for (std::size_t i = at + kLayers.size(); at != std::string::npos && i < module.size(); ++i) {
    if (module[i] < '0' || module[i] > '9' || layer > kMaxLayers) break;
    layer = layer.value_or(0) * 10 + (module[i] - '0');
  }
  return layer;
}

// "mlp.shared_experts", "*.shared_expert.*"; the one-column shared_expert_gate is no expert.
bool names_shared_experts(const std::string& module) {
  constexpr std::string_view kShared = "shared_expert";
  const std::size_t at = module.find(kShared);
  return at != std::string::npos && module.compare(at + kShared.size(), 5, "_gate") != 0;
}

bool names_routed_experts(const std::string& module) {
  const std::size_t at = module.find("experts");
  return at != std::string::npos && !names_shared_experts(module);
}

// The router stays in 16 bits in every published checkpoint; the shared experts are quantised with the routed ones
// unless an exclusion names them. Exclusions of layers past the last (multi-token prediction) do not count.
void read_weight_formats(const JsonView& root, const JsonView& config, MoeModel& model) {
  model.expert_weights = model.other_weights = read_dtype(root, config);
  const JsonView& holder = root.has("quantization_config") ? root : config;
  if (!holder.has("quantization_config")) return;
  const JsonView quantisation = holder.at("quantization_config");
  model.expert_weights = read_method(quantisation);
  bool shared_excluded = false;
  for (const auto& [place, module] : exclusions(quantisation)) {
    if (layer_of(module).value_or(0) >= model.layers) continue;
    if (names_routed_experts(module)) {
      refuse(place, fmt::format("'{}' left out of the quantisation", module),
             "all routed experts quantised alike: mixed precision is not modelled");
    }
    shared_excluded = shared_excluded || names_shared_experts(module);
  }
  if (model.shared_experts > 0 && !shared_excluded) model.other_weights = model.expert_weights;
}

// ----------------------------------------------------------------------------------------------------- a model

// "models/qwen3-30b-a3b.json" -> "qwen3-30b-a3b"; for a plain config.json, the folder it lies in.
std::string name_from_file(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.parent_path().filename().string();
  return path.stem() == "config" && !folder.empty() ? folder : path.stem().string();
}

MoeModel read_model(const JsonDocument& document) {
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
  read_weight_formats(root, config, model);
  return model;
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
    return read_model(JsonDocument::read_file(name_or_path));
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
  return read_model(JsonDocument::parse(text, file_name));
}

}  // namespace moesim
