// The values of one config.json by concept: several names for one key, paths into nested objects, lists that stand for
// one number, and what the user states instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "workloads/model_overrides.h"

namespace moesim {

// Alternatives for one concept, the usual one first; a dot leads into an object ("ffn_config.moe_num_experts").
using Keys = std::vector<std::string>;

class ConfigReader {
 public:
  // `root`: the file; `config`: the object of the language model in it (the same where nothing is nested).
  ConfigReader(JsonView root, JsonView config, const ModelOverrides& overrides)
      : root_(std::move(root)), config_(std::move(config)), overrides_(overrides) {}

  [[nodiscard]] const JsonView& root() const { return root_; }
  [[nodiscard]] const JsonView& config() const { return config_; }
  [[nodiscard]] const ModelOverrides& overrides() const { return overrides_; }

  [[nodiscard]] bool has(const std::string& key) const { return find({key}).has_value(); }
  // The first that is there and not null.
  [[nodiscard]] std::optional<JsonView> find(const Keys& keys) const;
  // With none there, the error names the usual one.
  [[nodiscard]] JsonView at(const Keys& keys) const;

  // A whole number from 1 on; the override of this name comes first. Where a config repeats itself under two names,
  // both must agree.
  [[nodiscard]] std::int64_t count(const std::string& name, const Keys& keys, std::int64_t max) const;
  [[nodiscard]] std::int64_t count_or_list(const std::string& name, const Keys& keys, std::int64_t max) const;
  // Lists too.
  [[nodiscard]] std::int64_t whole_or(const Keys& keys, std::int64_t absent, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] bool flag_or(const Keys& keys, bool absent) const;

 private:
  using ReadWhole = std::int64_t (*)(const JsonView&, std::int64_t min, std::int64_t max);
  [[nodiscard]] std::int64_t agreed(const std::string& name, const Keys& keys, std::int64_t max, ReadWhole read) const;

  JsonView root_, config_;
  const ModelOverrides& overrides_;
};

// A number, or a list of one number per layer (or of the text model first, then others): all alike, or the first of a
// list of modalities.
std::int64_t whole_or_list(const JsonView& value, std::int64_t min, std::int64_t max);

// "/text_config/hidden_size" -> "hidden_size".
std::string key_of(const JsonView& view);

}  // namespace moesim
