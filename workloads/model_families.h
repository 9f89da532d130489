// The families of Mixture-of-Experts models that are known: how each writes its config.json, and what holds where the
// file is silent. One entry a family (model_families.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/config_reader.h"
#include "workloads/moe_model.h"

namespace moesim {

enum class SharedRule {
  kNone,
  kOneGated,       // shared_expert_intermediate_size: one expert of that width behind a sigmoid gate
  kCounted,        // n_shared_experts, each as wide as a routed expert unless a key says how wide
  kWidth,          // shared_intermediate_size: one expert of that width, no gate
  kOneLikeRouted,  // one, as wide as a routed expert, without a key
};

enum class Placement {
  kEveryLayer,
  kDenseFirst,  // first_k_dense_replace, then every moe_layer_freq-th; or a list with an entry a layer
  kSparseStep,  // every decoder_sparse_step-th, except mlp_only_layers
  kInterleave,  // every interleave_moe_layer_step-th, or the list moe_layers
  kFrequency,   // every moe_layer_frequency-th
  kStartEnd,    // moe_layer_start_index to moe_layer_end_index, every moe_layer_interval-th
  kPeriod,      // expert_layer_period, expert_layer_offset
  kListed,      // moe_layers_enum "3,4,5"
  kPattern,     // hybrid_override_pattern "MEM*E", or layers_block_type
  kDenseCount,  // num_dense_layers and its like; none where the key is absent
  kAnyKey,      // whichever of these has its key; every layer where none has
};

// A dense FFN in the same layer as the experts.
enum class DenseBeside {
  kNone,
  kDenseWidth,  // as wide as a dense layer's
  kHidden,      // as wide as the hidden state
  kTwice,       // LongCat: two attentions and two dense FFNs a layer, the experts beside the first
};

enum class QkNorm { kNone, kPerHead, kWhole };

struct Family {
  std::vector<std::string> model_types;
  Keys experts = {"num_experts"};
  Keys width = {"moe_intermediate_size"};
  Keys dense_width = {"intermediate_size"};
  Keys layers = {"num_hidden_layers"};
  SharedRule shared = SharedRule::kNone;
  Placement placement = Placement::kEveryLayer;
  DenseBeside dense_beside = DenseBeside::kNone;
  Scoring scoring = Scoring::kSoftmax;
  bool norm_topk = false;
  bool norm_topk_key = true;  // false: the code of the family does not ask
  bool gated = true;
  bool may_be_dense = false;  // members without routed experts exist
  bool router_bias = false;   // a correction per expert
  bool expert_bias = false;
  bool attention = true;  // false: its attention is not known, mixers are left out
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;     // where attention_bias is absent
  bool output_bias = false;  // attention_bias is of the output projection too
  bool output_gate = false;  // where attn_output_gate is absent
  bool attention_sinks = false;
  bool tied_embeddings = false;  // where tie_word_embeddings is absent
  std::int64_t norms = 2;        // of the hidden width, a layer
  bool norm_bias = false;
};

std::span<const Family> families();

// All names of a concept, of any family, the usual one first.
const Keys& expert_keys();
const Keys& topk_keys();
const Keys& hidden_keys();
const Keys& layer_keys();
const Keys& shared_count_keys();

}  // namespace moesim
