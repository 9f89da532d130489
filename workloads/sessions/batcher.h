// Continuous batching with chunked prefill: what the next step works on.
//
// Rule (Sarathi-Serve, arXiv 2403.02310; the scheduler of vLLM V1): first every sequence that decodes, one token each,
// then prompts in order of arrival, each as much of its rest as the step's token budget leaves; at most so many
// sequences a step. So decodes are never held up by prompts but through the length of the step.
// Leaves out: preemption, priorities, prompts that find their beginning in the cache of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moesim {

struct BatchLimits {
  std::int64_t tokens = 2048;    // of a step
  std::int64_t sequences = 256;  // of a step
};

// A turn that the server works on, in order of arrival.
struct ActiveTurn {
  std::size_t turn = 0;          // whose; opaque here
  std::int64_t prompt_left = 0;  // tokens
  std::int64_t output_left = 0;  // tokens
  std::int64_t context = 0;      // tokens in the cache
};

// What one step does for an active turn.
struct BatchPiece {
  std::size_t active = 0;  // index
  std::int64_t tokens = 1;
  bool prompt = false;  // of the prompt; else it decodes

  bool operator==(const BatchPiece&) const = default;
};

std::vector<BatchPiece> next_batch(const std::vector<ActiveTurn>& active, const BatchLimits& limits);

}  // namespace moesim
