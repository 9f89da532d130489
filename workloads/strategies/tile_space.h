// Which tile configurations of a strategy a search goes through.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "workloads/strategies/strategy.h"

namespace moesim {

struct ParameterRange {
  std::string name;
  std::vector<std::int64_t> values;  // ascending
};

// The usual space of the strategy's tiles; empty: it has none.
//   grouped_gemm: what benchmark_moe.py of vLLM and SGLang's tuning_fused_moe_triton.py search: 1,920 configurations; of
//   weights with a scale per 128 x 128 those whose K-steps lie within a scale, as SGLang takes them.
//   grouped_gemm_persistent, stream_gemv: around the tiles of the kernels that stand in their files.
std::vector<ParameterRange> tile_space(const Strategy& strategy, WeightFormat weights);

// The tile that the strategy takes by itself, by the names of `tile_space`; empty where its own rules say.
Parameters default_tile(const Strategy& strategy, const MoeLayer& layer);
// The compiler would have to spill what does not fit the registers of the tile's threads, so that nobody runs it.
bool spills(const Strategy& strategy, const Parameters& tile, const MoeLayer& layer, const HardwareModel& hardware);
// Parameters that make no difference for the layer: the plan is the same with any value.
std::set<std::string> idle_parameters(const Strategy& strategy, const Parameters& tile, const MoeLayer& layer);

std::size_t size_of(const std::vector<ParameterRange>& space);
// Of all configurations in order, the last parameter changing fastest.
Parameters configuration(const std::vector<ParameterRange>& space, std::size_t number);

}  // namespace moesim
