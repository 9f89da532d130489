#include "workloads/quantisation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "workloads/config_errors.h"
#include "workloads/model_limits.h"
#include "workloads/quantisation_method.h"

namespace moesim {
namespace {

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

// A module's name or a pattern of names, as exclusion lists and quantized_layers hold them.
struct Module {
  JsonView place;
  std::string name;
};

std::vector<Module> exclusions(const JsonView& quantisation) {
  std::vector<Module> result;
  for (const char* key :
       {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers", "llm_int8_skip_modules"}) {
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

// Without what regular expressions and globs put around a name.
std::string plain(std::string pattern) {
  std::erase(pattern, '\\');
  while (!pattern.empty() && (pattern.back() == '$' || pattern.back() == '*')) pattern.pop_back();
  if (pattern.ends_with('.')) pattern.pop_back();
  return pattern;
}

// "model.layers.78.mlp" -> 78, and what follows the number; patterns over all layers have none.
struct LayerOf {
  std::optional<std::int64_t> layer;
  std::string rest;
};
LayerOf layer_of(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  const std::string module = plain(name);
  const std::size_t at = module.find(kLayers);
  LayerOf result{std::nullopt, module};
  if (at == std::string::npos) return result;
  std::size_t i = at + kLayers.size();
  for (; i < module.size() && module[i] >= '0' && module[i] <= '9'; ++i) {
    if (result.layer > kMaxLayers) break;
    result.layer = result.layer.value_or(0) * 10 + (module[i] - '0');
  }
  result.rest = module.substr(i);
  return result;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool contains_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) { return contains(text, part); });
}

// "mlp.shared_experts", "*.shared_expert.*"; the one-column shared_expert_gate is no expert.
bool names_shared_experts(const std::string& module) {
  for (const std::string_view name : {"shared_expert", "share_expert", "shared_mlp"}) {
    const std::size_t at = module.find(name);
    if (at != std::string::npos && module.compare(at + name.size(), 5, "_gate") != 0) return true;
  }
  return false;
}

bool names_routed_experts(const std::string& module) {
  return contains(module, "experts") && !names_shared_experts(module);
}

// "model.layers.0*", "model.layers.1.*": all of a layer.
bool names_whole_layer(const LayerOf& module) { return module.layer && module.rest.empty(); }

// Not a router, a norm or a bias, which have no say in the matrices' format.
bool names_a_detail(const std::string& module) {
  // Qwen3-Next's in_proj_ba has two columns a head.
  return contains_any(module, {"norm", "bias", "router", "_gate", "in_proj_a", "in_proj_b"}) ||
         module.ends_with("gate") || module.ends_with("gate.weight");
}

bool names_dense_ffn(const LayerOf& module) {
  if (names_whole_layer(module)) return true;
  if (contains(module.rest, "expert") || names_a_detail(module.rest)) return false;
  return contains_any(module.rest, {"mlp", "feed_forward", "ffn", "ffns"});
}

// The published names of a mixer's matrices.
const std::vector<const char*>& projections(const std::string& matrix) {
  static const std::map<std::string, std::vector<const char*>> kNames = {
      {"qkv", {"q_proj", "k_proj", "v_proj", "qkv_proj"}},
      {"q", {"q_proj"}},
      {"q_a", {"q_a_proj", "wq_a"}},
      {"q_b", {"q_b_proj", "wq_b", "wq."}},
      {"kv_a", {"kv_a_proj", "wkv"}},
      {"k_up", {"kv_b_proj"}},
      {"v_up", {"kv_b_proj"}},
      {"o", {"o_proj", "wo_b"}},
      {"o_a", {"wo_a"}},
      {"in", {"in_proj"}},
      {"out", {"out_proj"}},
      {"index_q", {"indexer"}},
      {"index_k", {"indexer"}},
      {"index", {"index"}},
  };
  static const std::vector<const char*> kNone;
  const auto found = kNames.find(matrix);
  return found == kNames.end() ? kNone : found->second;
}

bool names_attention(const std::string& module) {
  return contains_any(module, {"self_attn", "linear_attn", "attn", "attention", "mixer", "mamba"}) &&
         !contains(module, "expert");
}

// A module of attention names one projection, or all.
bool names_mixer_matrix(const LayerOf& module, const std::string& matrix) {
  if (names_whole_layer(module)) return true;
  if (!names_attention(module.rest) || names_a_detail(module.rest)) return false;
  const std::vector<const char*>& own = projections(matrix);
  if (std::any_of(own.begin(), own.end(), [&](const char* name) { return contains(module.rest, name); })) return true;
  return !contains_any(module.rest, {"_proj", "wq", "wkv", "wo_", "index", "conv", "compressor"});
}

// Which layers a list of modules names for one part.
class Named {
 public:
  void add(std::optional<std::int64_t> layer) {
    if (layer) {
      layers_.insert(*layer);
    } else {
      all_ = true;
    }
  }
  // Half of `layers` or more.
  [[nodiscard]] bool most_of(std::int64_t layers) const {
    return all_ || (layers > 0 && 2 * static_cast<std::int64_t>(layers_.size()) >= layers);
  }
  [[nodiscard]] bool any() const { return all_ || !layers_.empty(); }

 private:
  bool all_ = false;
  std::set<std::int64_t> layers_;
};

template <class Predicate>
Named named_by(const std::vector<Module>& modules, const MoeModel& model, Predicate names) {
  Named result;
  for (const Module& module : modules) {
    const LayerOf place = layer_of(module.name);
    if (place.layer.value_or(0) < model.layers && names(place)) result.add(place.layer);
  }
  return result;
}

std::int64_t count_layers(const MoeModel& model, bool (*counts)(const DecoderLayer&)) {
  return std::count_if(model.decoder_layers.begin(), model.decoder_layers.end(), counts);
}

std::int64_t dense_layers(const MoeModel& model) {
  return count_layers(model, [](const DecoderLayer& layer) { return layer.dense_intermediate > 0; });
}

std::int64_t layers_with_mixer(const MoeModel& model) {
  return count_layers(model, [](const DecoderLayer& layer) { return layer.mixer.has_value(); });
}

void set_all(MoeModel& model, WeightFormat format) {
  model.expert_weights = model.other_weights = model.dense_weights = model.head_weights = format;
  for (Mixer& mixer : model.mixers) {
    for (WeightMatrix& matrix : mixer.before) matrix.format = format;
    for (WeightMatrix& matrix : mixer.after) matrix.format = format;
  }
}

template <class SetFormat>
void for_each_matrix(MoeModel& model, SetFormat set) {
  for (Mixer& mixer : model.mixers) {
    for (WeightMatrix& matrix : mixer.before) set(matrix);
    for (WeightMatrix& matrix : mixer.after) set(matrix);
  }
}

// All that the method covers, but for what the lists exclude.
void apply_method(const QuantisationMethod& method, const std::vector<Module>& excluded, MoeModel& model) {
  for (const Module& module : excluded) {
    if (layer_of(module.name).layer.value_or(0) < model.layers && names_routed_experts(module.name)) {
      refuse(module.place, fmt::format("'{}' left out of the quantisation", module.name),
             "all routed experts quantised alike: mixed precision among them is not modelled");
    }
  }
  model.expert_weights = method.format;
  const Named shared =
      named_by(excluded, model, [](const LayerOf& module) { return names_shared_experts(module.rest); });
  if (model.shared_experts > 0 && !shared.any()) model.other_weights = method.format;
  if (method.experts_only) return;
  if (!named_by(excluded, model, names_dense_ffn).most_of(dense_layers(model))) model.dense_weights = method.format;
  const std::int64_t mixed = layers_with_mixer(model);
  for_each_matrix(model, [&](WeightMatrix& matrix) {
    const Named named =
        named_by(excluded, model, [&](const LayerOf& module) { return names_mixer_matrix(module, matrix.name); });
    if (!named.most_of(mixed)) matrix.format = method.format;
  });
}

// "re:.*ffn.*(gate|up|down)_proj": all FFNs, experts or not.
bool names_every_ffn(const LayerOf& module) { return !module.layer && names_dense_ffn(module); }

// The format that most of a part's modules have; nothing where none is named.
template <class Predicate>
std::optional<WeightFormat> format_in(const std::vector<ModuleFormat>& modules, const MoeModel& model,
                                      Predicate names) {
  std::map<std::string, std::pair<WeightFormat, int>> found;
  for (const ModuleFormat& module : modules) {
    const LayerOf place = layer_of(module.module);
    if (place.layer.value_or(0) >= model.layers || !names(place)) continue;
    ++found.try_emplace(format_name(module.format), module.format, 0).first->second.second;
  }
  const auto most = std::max_element(found.begin(), found.end(),
                                     [](const auto& a, const auto& b) { return a.second.second < b.second.second; });
  return most == found.end() ? std::nullopt : std::optional(most->second.first);
}

void apply_mixed(const QuantisationMethod& method, MoeModel& model) {
  const auto routed = [](const LayerOf& module) {
    return names_routed_experts(module.rest) || names_every_ffn(module);
  };
  const auto shared = [](const LayerOf& module) {
    return names_shared_experts(module.rest) || names_every_ffn(module);
  };
  model.expert_weights = format_in(method.modules, model, routed).value_or(method.format);
  model.other_weights = format_in(method.modules, model, shared).value_or(method.format);
  model.dense_weights = format_in(method.modules, model, names_dense_ffn).value_or(method.format);
  for_each_matrix(model, [&](WeightMatrix& matrix) {
    const auto names = [&](const LayerOf& module) { return names_mixer_matrix(module, matrix.name); };
    matrix.format = format_in(method.modules, model, names).value_or(method.format);
  });
}

}  // namespace

void read_weight_formats(const JsonView& root, const JsonView& config, const std::optional<JsonView>& quantisation,
                         MoeModel& model) {
  const WeightFormat unquantised = read_dtype(root, config);
  set_all(model, unquantised);
  QuantisationMethod method;
  if (quantisation) {
    method = read_quantisation_method(*quantisation, unquantised);
    if (method.modules.empty()) {
      apply_method(method, exclusions(*quantisation), model);
    } else {
      apply_mixed(method, model);
    }
  }
  // DeepSeek-V4: experts in 4 bits, a scale per 32, whatever the rest is in.
  for (const JsonView& view : {config, root}) {
    if (!view.has("expert_dtype") || !method.modules.empty()) continue;
    if (view.at("expert_dtype").as_string() != "fp4") view.at("expert_dtype").fail("fp4");
    model.expert_weights = {Dtype::kMxfp4};
  }
}

}  // namespace moesim
