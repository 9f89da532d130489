// What it models: a Mixture-of-Experts model of a config.json as published: its layers, what mixes tokens in each, and
// the number formats of its weights.
// What it leaves out: vision and audio parts, multi-token-prediction layers.
#include "workloads/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "sim/io/content_hash.h"
#include "sim/io/strict_json.h"
#include "workloads/model_files.h"
#include "workloads/model_reader.h"

namespace moesim {
namespace {

// NVIDIA's checkpoints keep the quantisation beside config.json, as hf_quant_config.json (or
// PREFIX_hf_quant_config.json beside PREFIX_config.json).
std::optional<std::string> find_sidecar(const std::string& config_path) {
  constexpr std::string_view kEnd = "config.json";
  if (!config_path.ends_with(kEnd)) return std::nullopt;
  std::string sidecar = config_path.substr(0, config_path.size() - kEnd.size()) + "hf_quant_config.json";
  return std::filesystem::exists(sidecar) ? std::optional(std::move(sidecar)) : std::nullopt;
}

std::optional<JsonDocument> read_sidecar(const std::string& config_path) {
  const std::optional<std::string> sidecar = find_sidecar(config_path);
  if (!sidecar) return std::nullopt;
  return JsonDocument::read_file(*sidecar, JsonDialect::kPython);
}

bool is_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".json"); }

const EmbeddedFile& find_model(const std::string& name) {
  for (const EmbeddedFile& file : model_files()) {
    if (name_from_file(std::string(file.name)) == name) return file;
  }
  const std::vector<std::string> names = model_names();
  throw InputError({.file = "",
                    .where = "",
                    .found = fmt::format("model '{}'", name),
                    .expected = fmt::format("a path to a config.json or one of {}", fmt::join(names, ", ")),
                    .nearest = nearest_name(name, names)});
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : model_files()) names.push_back(name_from_file(std::string(file.name)));
  std::sort(names.begin(), names.end());
  return names;
}

MoeModel load_model(const std::string& name_or_path, const ModelOverrides& overrides) {
  if (is_path(name_or_path)) {
    return read_model(JsonDocument::read_file(name_or_path, JsonDialect::kPython), read_sidecar(name_or_path),
                      overrides);
  }
  const EmbeddedFile& file = find_model(name_or_path);
  return parse_model(std::string(file.text), fmt::format("models/{}", file.name), overrides);
}

std::string model_hash(const std::string& name_or_path) {
  if (!is_path(name_or_path)) return content_hash(find_model(name_or_path).text);
  constexpr std::int64_t kMostBytes = 1 << 26;  // as the JSON reader has it
  std::string text = read_text_file(name_or_path, kMostBytes);
  if (const auto sidecar = find_sidecar(name_or_path)) text += '\0' + read_text_file(*sidecar, kMostBytes);
  return content_hash(text);
}

MoeModel parse_model(const std::string& text, const std::string& file_name, const ModelOverrides& overrides) {
  return read_model(JsonDocument::parse(text, file_name, JsonDialect::kPython), std::nullopt, overrides);
}

}  // namespace moesim
