// What the simulator needs to know of a Mixture-of-Experts model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/dtype.h"

namespace moesim {

enum class Scoring { kSoftmax, kSigmoid, kSqrtSoftplus };

// How tensor parallelism divides a matrix over devices.
enum class Split {
  kWhole,    // every device holds all of it
  kRows,     // n divided: heads, the width of an FFN, the vocabulary
  kColumns,  // k divided; the partial sums are added by a collective
};

// `count` matrices of n output rows and k inputs, applied in one launch (more than one: a matrix per head).
struct WeightMatrix {
  std::string name;  // "qkv"
  std::int64_t n = 0, k = 0;
  std::int64_t count = 1;
  Split split = Split::kWhole;  // of a matrix per head: kRows divides `count`
  WeightFormat format;

  [[nodiscard]] std::int64_t parameters() const { return n * k * count; }
};

// What mixes the tokens of a sequence in one decoder layer, in the numbers that cost time and memory at a decode step.
// Softmax attention caches values per token of context; linear attention and state-space layers carry a state of fixed
// size; latent attention caches one compressed vector that all heads share.
struct Mixer {
  std::string name;                   // "full_attention", "sliding_attention", "mla", "gated_delta_net", "mamba2"
  std::vector<WeightMatrix> before;   // in order of launch: from the hidden state to what attention takes
  std::vector<WeightMatrix> after;    // from its result to the hidden state
  std::int64_t cached_values = 0;     // per token of context, all heads
  std::int64_t indexed_values = 0;    // of these, read for every token by a sparse-attention indexer
  std::int64_t cache_heads = 1;       // devices that the cache divides over; beyond them it is copied
  std::int64_t window = 0;            // tokens of context that a query attends to; 0: all of them
  std::int64_t context_flops = 0;     // FLOPs per query token and attended token of context, all heads
  std::int64_t state_values = 0;      // float32 values of state per sequence, read and written at each step
  std::int64_t state_flops = 0;       // FLOPs per query token on the state
  std::int64_t state_heads = 1;       // devices that the state divides over
  std::int64_t small_parameters = 0;  // norms, biases, convolutions: counted, their time neglected
};

// One decoder layer: a mixer, then an FFN: MoE, dense, both side by side (a dense residual), or neither. LongCat's layers,
// which hold two mixers and two dense FFNs each, count as two.
struct DecoderLayer {
  std::optional<std::size_t> mixer;  // index into MoeModel::mixers
  bool moe = false;
  bool hash_routed = false;             // experts by the token's id: no router matrix
  std::int64_t dense_intermediate = 0;  // 0: no dense FFN
  std::int64_t small_parameters = 0;    // norms, router biases
};

struct MoeModel {
  std::string name;                                          // "qwen3.5-397b-a17b-fp8"
  std::string family;                                        // model_type of the config, "qwen3_5_moe"
  std::string source;                                        // where the values were read
  std::string file;                                          // file it was read from
  std::vector<std::pair<std::string, std::string>> origins;  // of each value: key, family's default or override

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

  std::int64_t latent = 0;        // width at which the routed experts work (latent MoE); 0: `hidden`
  std::int64_t zero_experts = 0;  // further picks of the router that load no weights (identity), ids from `experts` on
  bool expert_bias = false;       // a bias per output row of each expert's matrices

  std::vector<Mixer> mixers;                 // distinct ones
  std::vector<DecoderLayer> decoder_layers;  // [layers]
  bool dense_gated = true;                   // dense FFNs have three matrices
  std::int64_t vocabulary = 0;
  bool tied_embeddings = false;       // the LM head is the embedding matrix
  std::int64_t small_parameters = 0;  // final norm and the like

  WeightFormat expert_weights;  // routed experts
  WeightFormat other_weights;   // shared experts; the router is always in 16 bits
  WeightFormat dense_weights;   // dense FFNs
  WeightFormat head_weights;    // embeddings and LM head
};

}  // namespace moesim
