// Work items that stream weight rows straight to registers: what stream_gemv and fused_stream_gemv share.
#pragma once

#include <cstdint>

#include "workloads/strategies/blocks.h"

namespace moesim {

struct GemvShape {
  std::int64_t block_n, block_k, warps, stages;
  LaunchShape launch;
};

// An item that streams `rows` weight rows of K `k`, `picks` times one after another.
ItemClass gemv_item(const Device& device, WeightFormat format, const GemvShape& shape, std::int64_t rows,
                    std::int64_t k, std::int64_t picks, double bytes_of_pick, double written);

}  // namespace moesim
