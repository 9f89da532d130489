// What mixes the tokens in each decoder layer (attention, linear attention, state space), from the keys of a
// config.json.
#pragma once

#include <cstdint>

#include "workloads/model_families.h"
#include "workloads/moe_model.h"

namespace moesim {

// Fills model.mixers and the mixer of each of model.decoder_layers, which are there already. A config that does not say
// how its attention is shaped (no number of heads, a kind of layer that is not known) leaves all of them out: its MoE
// layers can be simulated all the same. The matrices' formats are the caller's to set.
void read_mixers(const ConfigReader& reader, const Family& family, MoeModel& model);

}  // namespace moesim
