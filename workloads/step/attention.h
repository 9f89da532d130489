// What a mixer does between its matrices at a decode step.
//
// Models, over the KV cache: flash decoding. A CTA streams its share of one sequence's and head's cache in blocks of
// tokens through on-chip buffers; the context is split until the CTAs fill the device twice; a second kernel adds the
// parts up. Equations for a block of t tokens with v cached values each, of which r query rows make use:
//   bytes        t x v x bytes a value
//   rows r       FLOPs a token and attended token / (2 v): queries that share a head; the matrix pipe is given 16 or,
//                where asynchronous instructions exist and r is as large, their number of rows
//   matrix pipe  2 x rows issued x t x v
//   vector pipe  kScoreWork a score (r x t), conversion of values narrower than 16 bits
//   serial       both products' dependent matrix steps, three on-chip exchanges (scores, maximum and sum), a barrier
// A chunk of a prompt: tiles of up to 128 query rows (all queries that share a head, of neighbouring tokens), each over the
// context up to its last token (causal: a tile computes its last blocks whole); tiles of a sequence find in the cache what
// another has streamed. Decodes and chunks share one kernel, longest tiles first, split in proportion to their blocks. Of
// a sparse attention every query token streams the tokens that it picked. Latent attention keeps its absorbed form,
// which engines leave for long prompts: too slow there.
// Over a recurrent state: CTAs that hold a piece of it in registers, read once and written once; a chunk's tokens one after
// another, where kernels for long prompts work on blocks of them: too slow there.
// A sparse-attention indexer streams its values of all tokens in the same way before it, and a top-k follows.
// Leaves out: pages of the cache, tensor-parallel devices beyond the heads dividing the
// context, the convolution in front of a recurrent state (a helper kernel stands for its launch).
// Source: the structure of FlashAttention 2 and 3 (split KV), FlashInfer and FlashMLA decode kernels, of the recurrent
// kernels of flash-linear-attention.
// Compared, without a fit, with what others published; too fast everywhere. FlashMLA on H800 (its announcement: up to 3000
// GB/s, 580 TFLOP/s): 2995 GB/s and 676 TFLOP/s with the H100's file. TileOPs on an H200 at 1.5 GHz (pull requests 2136, 2084,
// 2132): 121 us for 135 (32 sequences of 4096 tokens, 8 heads), 5.5 for 6.9 (one of 1024, 4 heads), 68 for 117 (one of
// 262,144 in 8 bits). Chunks of prompts were compared with nothing.
#pragma once

#include "workloads/step/step_chain.h"

namespace moesim {

void add_context_attention(StepChain& chain, const Mixer& mixer);
void add_state_update(StepChain& chain, const Mixer& mixer);

}  // namespace moesim
