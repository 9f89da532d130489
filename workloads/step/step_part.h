// What of a decode step a kernel is for: a step's time is broken down by it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "sim/units/quantity.h"

namespace moesim {

enum class StepPart : std::size_t {
  kAttention,      // products of the mixers: their weights
  kContext,        // attention over the KV cache, recurrent states
  kRouting,        // router, top-k, grouping
  kExperts,        // routed experts, with what stands around their products
  kSharedExperts,  //
  kDense,          // dense FFNs
  kHead,           // LM head
  kCollectives,    // all-reduce, dispatch, combine, all-gather
  kOther,          // embedding, norms, rotations, sampling
  kCount
};
inline constexpr std::size_t kStepPartCount = static_cast<std::size_t>(StepPart::kCount);

using PartTimes = std::array<Duration, kStepPartCount>;

std::string_view step_part_name(StepPart part);  // "attention weights"
std::string_view step_part_key(StepPart part);   // "attention_weights"

// Routing, routed and shared experts.
Duration moe_time(const PartTimes& parts);

}  // namespace moesim
