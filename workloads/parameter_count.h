// How many parameters a model has, part by part: a check of what was read against published totals.
#pragma once

#include <cstdint>

#include "workloads/moe_model.h"

namespace moesim {

struct ParameterCount {
  std::int64_t embeddings = 0;
  std::int64_t head = 0;  // 0: tied to the embeddings
  std::int64_t mixers = 0;
  std::int64_t dense = 0;
  std::int64_t routers = 0;
  std::int64_t routed_experts = 0;
  std::int64_t shared_experts = 0;  // and their gates
  std::int64_t latent = 0;          // projections to the routed experts' width and back
  std::int64_t small = 0;           // norms, biases, convolutions

  [[nodiscard]] std::int64_t total() const {
    return embeddings + head + mixers + dense + routers + routed_experts + shared_experts + latent + small;
  }
};

// Without multi-token-prediction layers, vision and audio parts. Mixers are counted where the config describes them.
ParameterCount total_parameters(const MoeModel& model);

// Of these, what one token uses: of the routed experts its top-k (with zero experts the share that is expected when all
// are picked alike). Embeddings in whole, as most model cards count them.
ParameterCount active_parameters(const MoeModel& model);

}  // namespace moesim
