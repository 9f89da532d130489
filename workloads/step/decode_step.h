// One device's share of a decode step: every sequence produces one token.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/units/integer.h"
#include "workloads/moe_layer.h"
#include "workloads/moe_model.h"

namespace moesim {

struct StepOptions {
  std::int64_t context = 4096;              // tokens of context of each sequence
  WeightFormat cache{Dtype::kBf16, 0};      // of the KV cache
  std::optional<std::int64_t> layers = {};  // decoder layers, from the first on; nullopt: all
};

// tp devices share each matrix, ep devices each have experts and sequences of their own: tp x ep in all.
struct DecodeStep {
  const MoeModel& model;
  StepOptions options;
  std::int64_t sequences = 1;  // of all devices
  std::int64_t tp = 1, ep = 1;
  WeightFormat activations;          // of the routed experts' products
  std::vector<MoeLayer> moe_layers;  // sharded, those of layers() in order

  [[nodiscard]] std::int64_t layers() const {
    const auto all = static_cast<std::int64_t>(model.decoder_layers.size());
    return std::min(all, options.layers.value_or(all));
  }
  [[nodiscard]] std::int64_t tokens() const { return divide_up(sequences, ep); }  // of this device
};

// A matrix as one of tp devices holds it.
WeightMatrix local_matrix(WeightMatrix matrix, std::int64_t tp);
Bytes bytes_of(const WeightMatrix& matrix);

// The matrices of a dense FFN as one of tp devices holds them: up (with the gate), down.
std::vector<WeightMatrix> dense_matrices(const MoeModel& model, const DecoderLayer& layer, std::int64_t tp);
WeightMatrix head_matrix(const MoeModel& model, std::int64_t tp);

// What a mixer's cache and state come to on one of tp devices.
struct LocalCache {
  std::int64_t heads = 0;        // of the cache, one after another in memory
  double head_values = 0;        // attended to, of one token and head
  double indexed_values = 0;     // of one token, read by the indexer
  std::int64_t stored = 0;       // tokens of context that the cache holds of each sequence
  std::int64_t attended = 0;     // of these, by a query
  std::int64_t state_heads = 0;  // as many pieces of state
  double state_bytes = 0;        // of one of them

  [[nodiscard]] double token_values() const { return static_cast<double>(heads) * head_values + indexed_values; }
};
LocalCache local_cache(const Mixer& mixer, std::int64_t context, std::int64_t tp);

}  // namespace moesim
