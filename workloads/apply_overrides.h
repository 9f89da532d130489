// What the user states of a model in place of its config.
#pragma once

#include "workloads/model_overrides.h"
#include "workloads/moe_model.h"

namespace moesim {

// Sets what is stated, but for what shapes the layers (hidden, intermediate, experts, topk, zero_experts, layers,
// moe_layers, dense_intermediate), which the reader asks for itself.
void apply_overrides(const ModelOverrides& stated, MoeModel& model);

// "softmax", "sigmoid" or "sqrtsoftplus"; nothing else.
Scoring scoring_of(const std::string& name);

}  // namespace moesim
