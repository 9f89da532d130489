// One device's shard of a MoE layer at one decode step: what strategies lower.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/dtype.h"
#include "workloads/moe_model.h"
#include "workloads/routed_batch.h"

namespace moesim {

struct MoeLayer {
  std::int64_t hidden = 0;
  std::int64_t latent = 0;          // width at which the routed experts work, where it is not `hidden`; else 0
  std::int64_t intermediate = 0;    // of one routed expert, this shard's
  std::int64_t router_experts = 0;  // experts that the router scores (the whole model's, with zero experts)
  std::int64_t topk = 0;
  std::int64_t tokens = 0;
  bool gated = true;
  std::int64_t shared_intermediate = 0;  // 0: no shared expert; this shard's
  bool shared_gate = false;
  WeightFormat weights;        // routed experts
  WeightFormat other_weights;  // shared experts, projections to the latent width and back
  WeightFormat activations;    // what the projections' inputs are in

  std::vector<std::int64_t> rows;         // picks of each local expert
  std::vector<std::int64_t> token_picks;  // local picks of each token
  std::int64_t picks = 0;                 // sum of rows
  std::int64_t active = 0;                // experts with rows
  std::int64_t devices = 1;               // that share the layer, this one included

  [[nodiscard]] std::int64_t expert_hidden() const { return latent > 0 ? latent : hidden; }
  [[nodiscard]] std::int64_t up_width() const { return gated ? 2 * intermediate : intermediate; }
  [[nodiscard]] Bytes up_bytes() const { return matrix_bytes(weights, up_width(), expert_hidden()); }  // of one
  [[nodiscard]] Bytes down_bytes() const { return matrix_bytes(weights, expert_hidden(), intermediate); }
};

// Tensor parallel: widths divided (rounded up). Expert parallel: experts dealt in contiguous blocks; the device with
// the most active experts (then rows, then the first) is the one described. Picks of zero experts (ids from the
// model's experts on) load nothing and are dropped; latent projections are whole on every device. Throws InputError
// (flags --tp, --ep) when the model cannot be divided so.
MoeLayer shard_layer(const MoeModel& model, const RoutedBatch& batch, WeightFormat activations, std::int64_t tp,
                     std::int64_t ep);

// Activations that the ecosystem's kernels use with these weights when nothing else is stated: fp8 x fp8 for fp8
// weights, int8 x int8, 16 bits otherwise.
WeightFormat default_activations(WeightFormat weights);

}  // namespace moesim
