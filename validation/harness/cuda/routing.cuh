// Models, shards and routed batches that the harness measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels.cuh"

namespace harness {

struct Model {
  std::string name;
  int hidden, intermediate, experts, topk;
};
const std::vector<Model>& models();

// [repeats][tokens][topk]; `kind`: uniform | zipf:S | same. Same seed, same picks.
std::vector<std::int16_t> draw_picks(const Model& model, const std::string& kind, int repeats, int tokens,
                                     std::uint64_t seed);

// The device side of one repeat; `release` frees it.
Routing make_routing(const std::int16_t* picks, int tokens, int topk, std::uint64_t seed);
void release(Routing& routing);

}  // namespace harness
