// Hugging Face config.json -> MoeModel. A family is one table entry (model_families.cpp).
#pragma once

#include <string>
#include <vector>

#include "workloads/model_overrides.h"
#include "workloads/moe_model.h"

namespace moesim {

// Names of the models that come with moesim (workloads/models/*.json, each a config.json as published with a "moesim"
// object beside it that holds name, source and the keys whose values were only recalled), sorted.
std::vector<std::string> model_names();

// A name, or a path to a config.json as published (a path holds '/' or ends in .json). Throws InputError: unknown name
// (with the nearest), unknown family (with what was found and what is missing), a dense model, missing or impossible
// values.
MoeModel load_model(const std::string& name_or_path, const ModelOverrides& overrides = {});
// 16 hex digits of what load_model() would read.
std::string model_hash(const std::string& name_or_path);
MoeModel parse_model(const std::string& text, const std::string& file_name, const ModelOverrides& overrides = {});

}  // namespace moesim
