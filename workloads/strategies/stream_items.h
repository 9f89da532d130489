// Work items that stream weight rows straight to registers: what stream_gemv and fused_stream_gemv share.
#pragma once

#include <cstdint>

#include "workloads/strategies/blocks.h"

namespace moesim {

// Of a warp of the Triton kernels compiled for sm_90a: clocks before the K loop, besides the lookup of the pick's expert, and
// after it, by the code's own stall counts and scoreboards (one CTA a unit takes 1,024 of them for both and a round trip
// to the cache, 1,016 so); instructions of a step (beside products and conversions) and, where a CTA walks its token's
// picks, around each pick's K loop; how often a step's inputs are handed to other lanes through on-chip memory (fp8: to the
// order of 16-byte loads of weights). None of them has a load that runs ahead of its step.
struct GemvCode {
  double before, step, after, pick, exchanges;
};
inline constexpr GemvCode kUpCode = {136, 188, 493, 0, 0}, kDownCode = {261, 113, 430, 47, 0};  // 16-bit weights
inline constexpr GemvCode kUpConvertCode = {162, 82, 347, 0, 8}, kDownConvertCode = {123, 55, 228, 0, 4};

struct GemvShape {
  std::int64_t block_n, block_k, warps;
  LaunchShape launch;
  GemvCode code;
};

// An item that streams `rows` weight rows of K `k`, `picks` times one after another; a share `from_memory` of them is read for
// the first time.
ItemClass gemv_item(const Device& device, WeightFormat format, const GemvShape& shape, std::int64_t rows,
                    std::int64_t k, std::int64_t picks, double bytes_of_pick, double from_memory, double written);

// Share of the bytes that comes from memory where each item walks its token's picks. Items of all tokens on the same rows start
// together and take their n-th picks at about the same time: what an item wants, another has read, if the same expert was its
// n-th pick too or one of so few before that the cache still holds what all items have read since. Picks are taken to lie
// anywhere in their tokens' lists: of r tokens with an expert none has it in m places of k, but one in the next, with
// probability (1 - m / k)^r - (1 - (m + 1) / k)^r.
double first_share_of_walks(const Device& device, const MoeLayer& layer, const GemvShape& shape, double bytes_of_pick);

}  // namespace moesim
