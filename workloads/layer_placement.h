// Which layers of a model have routed experts, from the keys of its config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/model_families.h"

namespace moesim {

// [layers]: true where a layer has routed experts. Throws InputError: a list of another length, no MoE layer at all.
std::vector<bool> read_placement(const ConfigReader& reader, Placement placement, std::int64_t layers);

// [layers]: true where a token's id picks its experts, in place of a router.
std::vector<bool> read_hash_routing(const ConfigReader& reader, std::int64_t layers);

// A hybrid's layers, one block each: 'M' state space, '*' attention, '-' dense FFN, 'E' routed experts. Empty where the
// config has no such pattern.
std::string block_pattern(const ConfigReader& reader);

}  // namespace moesim
