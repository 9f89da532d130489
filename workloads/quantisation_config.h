// Number formats of a model's weights, from the quantisation object of a config.json or of its sidecar.
#pragma once

#include <optional>

#include "sim/io/strict_json.h"
#include "workloads/moe_model.h"

namespace moesim {

// Sets expert_weights and other_weights; model.layers and model.shared_experts are read already. `root`: the file,
// `config`: the object of the language model in it (the same where nothing is nested). The router stays in 16 bits in
// every published checkpoint; the shared experts are quantised with the routed ones unless an exclusion names them.
// Exclusions of layers past the last (multi-token prediction) do not count. Throws InputError: an unknown method, a
// block or group size that is not modelled, mixed precision.
void read_weight_formats(const JsonView& root, const JsonView& config, const std::optional<JsonView>& quantisation,
                         MoeModel& model);

}  // namespace moesim
