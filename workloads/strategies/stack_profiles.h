// What named serving stacks launch for a MoE layer: a strategy and its parameters, as the stack's defaults choose them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sim/plan/execution_plan.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

// What a stack's rules look at; of one shard.
struct StackInput {
  std::int64_t experts = 0;  // that this device holds
  std::int64_t topk = 0;
  std::int64_t tokens = 0;
  WeightFormat weights;
};

struct StackProfile {
  const char* name;  // "vllm-triton"
  const char* summary;
  const char* strategy;
  LaunchMode launch;
  bool tuned_files;  // looks for a tuned tile of the shape before it applies its rule
  const char* source;
  Parameters (*parameters)(const StackInput& input);
};

std::span<const StackProfile> stack_profiles();
// By the stack's rules for the layer.
Parameters stack_parameters(const StackProfile& stack, const MoeLayer& layer);
const StackProfile* find_stack(const std::string& name);  // nullptr: none of that name

}  // namespace moesim
