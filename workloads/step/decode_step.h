// One device's share of a decode step: every sequence produces one token; or of a step of continuous batching, in which
// some sequences work on a chunk of their prompt.
#pragma once

#include <algorithm>
#include <compare>
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

// Alike sequences of a step.
struct StepSequences {
  std::int64_t count = 1;
  std::int64_t tokens = 1;   // new ones of each: 1 where it decodes, more of a chunk of its prompt
  std::int64_t context = 1;  // that the last of them sees, itself included
  auto operator<=>(const StepSequences&) const = default;
};

// tp devices share each matrix, ep devices each have experts and sequences of their own: tp x ep in all.
struct DecodeStep {
  const MoeModel& model;
  StepOptions options;
  std::int64_t sequences = 1;  // of all devices
  std::int64_t tp = 1, ep = 1;
  WeightFormat activations;          // of the routed experts' products
  std::vector<MoeLayer> moe_layers;  // sharded, those of layers() in order
  // Of all devices, `sequences` in all; empty: all decode, with the context of the options.
  std::vector<StepSequences> mixed = {};

  [[nodiscard]] std::int64_t layers() const {
    const auto all = static_cast<std::int64_t>(model.decoder_layers.size());
    return std::min(all, options.layers.value_or(all));
  }
  // Of this device.
  [[nodiscard]] std::vector<StepSequences> local_sequences() const;
  [[nodiscard]] std::int64_t tokens() const;   // that go through the layers
  [[nodiscard]] std::int64_t sampled() const;  // that go through the head: the last one of each sequence
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
