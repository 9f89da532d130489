// A product of a step's rows with one weight matrix that all of them share.
//
// Models, where the device has asynchronous matrix instructions: weights on the row side, bulk copies into a deep ring, as
// expert_loop has them; K split over a cluster of up to 4 CTAs from 40 K-steps on while the tiles are fewer than the
// units, as cuBLAS 13 does; not split with fp8 scaled in blocks, as in DeepGEMM.
// Elsewhere: tiles of 16 to 128 rows x 64 columns with asynchronous copies, K split over up to 8 CTAs until two tiles
// stand on each unit. One row is the smallest tile's.
// Leaves out: a library's choice of tile by shape, multicast.
// Compared: DeepGEMM on H800, fp8 in blocks, 16 to 128 rows, ten matrices (alibaba/InferSim f2293dab6d), with the device
// file of the H100 SXM and without a fit: 20 % median error, 64 % at worst, 9 % too fast on average.
#pragma once

#include "workloads/strategies/tiles.h"

namespace moesim {

struct DenseKernel {
  Kernel kernel;
  LaunchShape shape;
};

// `weights` is the region of the matrix.
DenseKernel dense_kernel(const Device& device, const Product& product, std::int64_t rows, RegionId weights);

}  // namespace moesim
