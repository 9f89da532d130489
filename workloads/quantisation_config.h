// Number formats of the parts of a model, from the quantisation object of a config.json or of its sidecar.
#pragma once

#include <optional>

#include "sim/io/strict_json.h"
#include "workloads/moe_model.h"

namespace moesim {

// Sets the format of each part and of each mixer's matrices; the rest of the model is read already. `root`: the file,
// `config`: the object of the language model in it (the same where nothing is nested). Left in 16 bits: router,
// embeddings and head in every published checkpoint, and what an exclusion names: the shared experts where any does, the
// dense FFNs and a mixer's matrix where half of their layers are named. Exclusions of layers past the last
// (multi-token prediction) do not count. Throws InputError: an unknown method, a block or group size that is not
// modelled, routed experts that differ from each other.
void read_weight_formats(const JsonView& root, const JsonView& config, const std::optional<JsonView>& quantisation,
                         MoeModel& model);

}  // namespace moesim
