// What the simulator needs to know of a Mixture-of-Experts model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/dtype.h"

namespace moesim {

enum class Scoring { kSoftmax, kSigmoid, kSqrtSoftplus };

struct MoeModel {
  std::string name;    // "qwen3.5-397b-a17b-fp8"
  std::string family;  // model_type of the config, "qwen3_5_moe"
  std::string source;  // where the values were read
  std::string file;    // file it was read from

  std::int64_t hidden = 0;               // H
  std::int64_t expert_intermediate = 0;  // I of one routed expert
  std::int64_t experts = 0;              // routed experts E
  std::int64_t topk = 0;                 // k
  bool gated = true;                     // gate + up + down (three matrices); false: up + down
  std::int64_t shared_experts = 0;       // always-on experts of a layer, as one FFN of width shared_intermediate
  std::int64_t shared_intermediate = 0;  // total width of the shared experts
  bool shared_gate = false;              // sigmoid gate on the shared expert (Qwen2-MoE lineage)
  std::int64_t layers = 0;
  std::int64_t moe_layers = 0;

  Scoring scoring = Scoring::kSoftmax;
  bool norm_topk = false;  // routing weights renormalised over the selected k
  double routed_scale = 1.0;
  std::int64_t groups = 1;  // group-limited routing: experts in groups, of which topk_groups may be used
  std::int64_t topk_groups = 1;

  WeightFormat expert_weights;  // routed experts
  WeightFormat other_weights;   // shared experts; the router is always in 16 bits
};

}  // namespace moesim
