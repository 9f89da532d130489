// config.json -> MoeModel, with the rules of its family.
#pragma once

#include <optional>

#include "workloads/model_overrides.h"
#include "workloads/moe_model.h"

namespace moesim {

class JsonDocument;

// `sidecar`: hf_quant_config.json. Throws InputError.
MoeModel read_model(const JsonDocument& document, const std::optional<JsonDocument>& sidecar,
                    const ModelOverrides& overrides);

// "models/qwen3-30b-a3b.json" -> "qwen3-30b-a3b"; for a plain config.json, the folder it lies in.
std::string name_from_file(const std::string& file);

}  // namespace moesim
