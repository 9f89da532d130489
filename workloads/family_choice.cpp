#include "workloads/family_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "workloads/config_errors.h"

namespace moesim {
namespace {

// Mistral's params.json has no model_type; its hidden size is "dim" and its experts stand in "moe".
constexpr const char* kNativeType = "params.json";

const Family* find_family(const std::string& type) {
  for (const Family& family : families()) {
    for (const std::string& known : family.model_types) {
      if (known == type) return &family;
    }
  }
  return nullptr;
}

std::vector<std::string> known_types() {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.insert(known.end(), family.model_types.begin(), family.model_types.end());
  }
  std::sort(known.begin(), known.end());
  return known;
}

std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

// "DeepseekV4ForCausalLM" -> deepseek_v4: some files have a model_type of their own beside a known architecture.
const Family* family_of_architecture(const ConfigReader& reader) {
  for (const JsonView& view : {reader.config(), reader.root()}) {
    if (!view.has("architectures") || !view.at("architectures").is_array()) continue;
    const JsonView list = view.at("architectures");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string name = squeezed(list.at(i).as_string());
      for (const Family& family : families()) {
        for (const std::string& type : family.model_types) {
          if (name == squeezed(type) + "forcausallm" || name == squeezed(type) + "forconditionalgeneration") {
            return &family;
          }
        }
      }
    }
  }
  return nullptr;
}

// No number of experts, or none but zero.
bool is_dense(const ConfigReader& reader) {
  return std::all_of(expert_keys().begin(), expert_keys().end(), [&](const std::string& key) {
    const std::optional<JsonView> found = reader.find({key});
    return !found || (found->is_number() && found->as_double(-1e300, 1e300) == 0);
  });
}

std::optional<JsonView> type_view(const ConfigReader& reader) {
  for (const JsonView& view : {reader.config(), reader.root()}) {
    if (view.has("model_type")) return view.at("model_type");
  }
  return std::nullopt;
}

[[noreturn]] void refuse_dense(const ConfigReader& reader, const std::string& type) {
  const Keys& keys = expert_keys();
  refuse(type_view(reader).value_or(reader.config()),
         fmt::format("model_type '{}', a dense model: it has no routed experts (no {} ...)", type,
                     fmt::join(keys.begin(), keys.begin() + 3, ", ")),
         fmt::format("a Mixture-of-Experts model of a known family: {}", fmt::join(known_types(), ", ")));
}

// Of a family that is not known: any name of any family. intermediate_size is left out: it is the experts' width in some
// families and the dense layers' in others.
const Family& unknown_family() {
  static const Family kFamily = {
      .model_types = {},
      .experts = expert_keys(),
      .width = {"moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size", "expert_hidden_dim",
                "moe_ffn_hidden_size", "ffn_config.ffn_hidden_size", "moe.expert_hidden_dim"},
      .dense_width = {"dense_intermediate_size", "intermediate_size_mlp", "prefix_dense_intermediate_size",
                      "ffn_hidden_size", "intermediate_size"},
      .shared = SharedRule::kCounted,
      .placement = Placement::kAnyKey};
  return kFamily;
}

struct Needed {
  const char* name;  // of the override
  const Keys* keys;
};

// What an unknown family's file says of the values that a layer needs, and which of them it lacks.
struct Inventory {
  std::vector<std::string> found, missing;
};
Inventory take_stock(const ConfigReader& reader) {
  const Family& any = unknown_family();
  const Needed needed[] = {{"hidden", &hidden_keys()},
                           {"intermediate", &any.width},
                           {"experts", &any.experts},
                           {"topk", &topk_keys()},
                           {"layers", &layer_keys()}};
  Inventory inventory;
  for (const Needed& value : needed) {
    const std::optional<JsonView> view = reader.find(*value.keys);
    if (view) inventory.found.push_back(fmt::format("{} in {}", value.name, key_of(*view)));
    if (!view && !reader.overrides().text(value.name)) inventory.missing.emplace_back(value.name);
  }
  return inventory;
}

[[noreturn]] void refuse_unknown(const ConfigReader& reader, const std::string& type) {
  const Inventory inventory = take_stock(reader);
  const std::string found =
      inventory.found.empty() ? "nothing known" : fmt::format("{}", fmt::join(inventory.found, ", "));
  const std::string missing = inventory.missing.empty() ? "which family's defaults hold"
                                                        : fmt::format("{}", fmt::join(inventory.missing, ", "));
  const std::vector<std::string> known = known_types();
  refuse(
      type_view(reader).value_or(reader.config()),
      fmt::format("model_type '{}', of no known family (found: {}; missing: {})", type, found, missing),
      fmt::format("a known family: {}; or --model-override NAME=VALUE for what is missing, or family=NAME to read it "
                  "as one of these",
                  fmt::join(known, ", ")),
      nearest_name(type, known));
}

const Family& stated_family(const std::string& name) {
  if (const Family* family = find_family(name)) return *family;
  const std::vector<std::string> known = known_types();
  throw InputError({"--model-override", "", fmt::format("'family={}'", name),
                    fmt::format("a known family: {}", fmt::join(known, ", ")), nearest_name(name, known)});
}

std::string type_of(const ConfigReader& reader) {
  if (const std::optional<JsonView> type = type_view(reader)) return type->as_string();
  if (reader.has("dim") && reader.has("n_layers")) return kNativeType;
  return reader.root().at("model_type").as_string();
}

const Family* known_family(const ConfigReader& reader) {
  if (const Family* family = find_family(type_of(reader))) return family;
  if (reader.root().has("model_type")) {
    if (const Family* family = find_family(reader.root().at("model_type").as_string())) return family;
  }
  return family_of_architecture(reader);
}

}  // namespace

JsonView language_config(const JsonView& root) {
  JsonView view = root;
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const char* key : {"thinker_config", "text_config", "llm_config", "language_config"}) {
      if (!view.has(key)) continue;
      view = view.at(key);
      deeper = true;
      break;
    }
  }
  return view;
}

std::string family_name(const ConfigReader& reader) {
  return reader.root().has("model_type") ? reader.root().at("model_type").as_string() : type_of(reader);
}

const Family& choose_family(const ConfigReader& reader) {
  if (const std::optional<std::string> stated = reader.overrides().text("family")) return stated_family(*stated);
  const std::string type = type_of(reader);
  const bool dense = is_dense(reader) && !reader.overrides().whole("experts");
  if (const Family* family = known_family(reader)) {
    if (dense && family->may_be_dense) refuse_dense(reader, type);
    return *family;
  }
  if (dense) refuse_dense(reader, type);
  if (reader.overrides().empty() || !take_stock(reader).missing.empty()) refuse_unknown(reader, type);
  return unknown_family();
}

}  // namespace moesim
