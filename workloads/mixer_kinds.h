// Which kind of mixer each layer has: a config says so in a list, by a period, or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/model_families.h"

namespace moesim {

// [layers]; "" is a layer without one. "full_attention", "sliding_attention", "chunked_attention", "block_sparse_attention",
// "linear_attention", "lightning_attention", "kimi_delta_attention", "mamba", "mamba2", "conv", "compressed_N" (N tokens to
// a cached entry), "shared_index" (full attention with the choice of tokens of the layer before). Empty: not known.
std::vector<std::string> mixer_kinds(const ConfigReader& reader, std::int64_t layers);

}  // namespace moesim
