// A decode step as one plan: what an optimised engine launches, kernel after kernel.
//
// Launches, in order (those of a mixer's or FFN's missing parts are left out):
//   step     embed; all_reduce (tp); the layers; norm; LM head; gather_logits (tp); sample (two kernels)
//   layer    add_norm; the mixer; all_reduce (tp); add_norm; the FFN; all_reduce (tp)
//   mixer    its matrices `before`, one launch each, behind a norm where one works on another's result (not per head);
//            rotate_and_store (norms of queries and keys, rotation, the new token into the cache) or convolve (in front
//            of a recurrent state); index, index_topk; attention, attention_sum; state_update, gated_norm; quantise
//            where the next product takes 8 bits or fewer; its matrices `after`
//   dense    dense_up, activation, dense_down
//   MoE      dispatch (ep); what the strategy launches for the whole layer; exchange_back (ep)
// Quantisation of a product's inputs is part of the norm or activation before it.
// Source: the launches of vLLM's and SGLang's decode graphs as published descriptions and profiles show them (fused
// qkv, fused add + norm, fused rotation and cache write, split-KV attention with its own reduction): assumed, no
// engine's trace was compared. Dense products are tiles split over K (strategies/blocks.h).
// Routing: MoE layer l of sample s has draw s x MoE layers + l of its own; sample 0 of the first MoE layer is the one that a
// run of one layer sees.
// With ep devices attention sees this device's sequences; the MoE layer, router and shared experts included, all of them, as
// a run of one layer does.
// Leaves out: the host, overlap of kernels beyond what the launch mode gives, speculative tokens.
#pragma once

#include "workloads/step/step_chain.h"

namespace moesim {

StepPlanOrInfeasible lower_step(const DecodeStep& step, const HardwareModel& hardware, const StrategyChoice& choice,
                                const PredictOptions& options);

}  // namespace moesim
