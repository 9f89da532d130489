// Work items that stream weight rows straight to registers: what stream_gemv and fused_stream_gemv share.
#pragma once

#include <cstdint>

#include "workloads/strategies/blocks.h"

namespace moesim {

// Instructions of a warp before the K loop, in a step (beside products and conversions), after it, and where a CTA walks its
// token's picks, around each pick's K loop; and how often a step's inputs are handed to other lanes through on-chip memory
// (fp8: to the order of 16-byte loads of weights): the Triton kernels compiled for sm_90a. None of them has a load that runs
// ahead of its step.
struct GemvCode {
  double before, step, after, pick, exchanges;
};
inline constexpr GemvCode kUpCode = {136, 188, 207, 0, 0}, kDownCode = {78, 113, 144, 47, 0};  // 16-bit weights
inline constexpr GemvCode kUpConvertCode = {145, 82, 135, 0, 8}, kDownConvertCode = {89, 55, 73, 0, 4};

struct GemvShape {
  std::int64_t block_n, block_k, warps;
  LaunchShape launch;
  GemvCode code;
};

// An item that streams `rows` weight rows of K `k`, `picks` times one after another; a share `from_memory` of them is read for
// the first time.
ItemClass gemv_item(const Device& device, WeightFormat format, const GemvShape& shape, std::int64_t rows,
                    std::int64_t k, std::int64_t picks, double bytes_of_pick, double from_memory, double written);

}  // namespace moesim
