#include "workloads/sessions/batcher.h"

#include <algorithm>

namespace moesim {

std::vector<BatchPiece> next_batch(const std::vector<ActiveTurn>& active, const BatchLimits& limits) {
  std::vector<BatchPiece> pieces;
  std::int64_t tokens = limits.tokens;
  for (const bool prompt : {false, true}) {
    for (std::size_t i = 0; i < active.size(); ++i) {
      if (tokens == 0 || static_cast<std::int64_t>(pieces.size()) == limits.sequences) return pieces;
      if ((active[i].prompt_left > 0) != prompt) continue;
      const std::int64_t taken = prompt ? std::min(active[i].prompt_left, tokens) : 1;
      pieces.push_back({i, taken, prompt});
      tokens -= taken;
    }
  }
  return pieces;
}

}  // namespace moesim
