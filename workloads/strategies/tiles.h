// Matrix products in tiles: what one work item of a GEMM does.
//
// Models: a CTA computes block_m rows x block_n columns over K in steps of block_k. Equations:
//   bytes       weights block_n x K (payload and scales), useful rows of activations (from the cache)
//   in flight   `buffers` steps
//   issue       bytes of a step / (warps x bytes that a warp can issue as asynchronous copies); none for bulk copies
//   serial      (block_k x element bytes / 32) dependent matrix steps + one on-chip load + one barrier; without warps of
//               their own for each, an item's products (if warp-level or scaled in blocks), conversions and scaling add up,
//               and beside asynchronous products scaled in blocks the code of the next step's copies
//   copies      by the warps that multiply: one after the other, or while asynchronous products run; a step's first operands
//               are read back before its first product, but in Triton's kernels in the step before; plain CUDA (warp_level)
//               computes each copy's address anew in every step: 14 instructions each, one after another
//   Triton      a byte of weights costs the memory 1 + (43 / bytes of a row in a step)^2.5; copies are issued by 4 warps at
//               most; a step's last byte follows its first by the step's bytes / the load port; the last round of loads and steps is whole, though
//               fewer steps are in it
//   clock       all of an item at clock.matrix, if the device has one
//   matrix pipe 2 x issued rows x block_n x block_k / rate; the synchronous path reaches hw matrix.sync_fraction of the
//   peak; fp8 operands of it are converted to 16 bits where asynchronous instructions exist (Hopper, Blackwell sm100)
//   code        the instructions before the first copy and after the loop, one after another; not where a warp is there for
//               the copies alone
//   neighbours  with bulk copies, tiles side by side along a row block read its rows at the same time: these pass a port once
//               for all of them behind it (tiles that warps copy are not seen to gain)
//   results     valid rows x block_n x 2 bytes at 32 a clock; they reach memory while a slot's next item begins
//   on chip     a step's bytes pass a unit's on-chip memory (128 B a clock) as they are copied in and as products read them:
//               warp-level ones weights once for each row of warps, inputs once for each column of them; asynchronous ones
//               for each 64 (matrix.async_rows) rows these and all columns, at 0.99 of the rate. Alone on a unit, tiles of
//               64 x 64 to 128 x 256 and K-steps of 64 and 128 took that and 30 to 70 ns a step (H200, Triton 3.6)
// Leaves out: bank conflicts, instructions of the loop that are neither copies nor products.
// Sources: published descriptions of Triton fused MoE (vLLM, SGLang), CUTLASS grouped GEMM, mma and wgmma timing (Hopper
// microbenchmarks).
#pragma once

#include <cstdint>
#include <string>

#include "sim/engine/pipe.h"
#include "workloads/strategies/blocks.h"

namespace moesim {

// Asynchronous products (wgmma_rate of the CUDA harness, H200): share of on-chip memory's rate, or of the matrix pipe's peak,
// that they reach, and clocks from the last instruction to the end of the wait for it.
inline constexpr double kAsyncProductShare = 0.99, kAsyncProductLatency = 56;

inline constexpr std::int64_t kMostRegisters = 255;  // a thread

struct TileShape {
  std::int64_t block_m = 16;
  std::int64_t block_n = 64;
  std::int64_t block_k = 128;
  std::int64_t warps = 4;
  std::int64_t buffers = 3;  // K-steps in flight
  std::int64_t held = 0;     // buffers beyond these
  bool bulk_copies = false;  // TMA: no per-warp issue limit
  bool triton = false;       // copies, and their short pieces of rows, as Triton compiles them
  bool swap_ab = false;      // weights on the row side; rows are issued in eights
  bool warp_level = false;   // mma.sync at any row count, in plain CUDA
  std::int64_t group_m = 1;  // row blocks that take turns: an N block of each, then the next
  std::int64_t cluster = 1;  // CTAs, one above the other, that share a tile of weights: each loads a part of it for all
};

struct Product {
  std::string name, stage;
  std::int64_t n = 0, k = 0;  // weight matrix [n, k]
  WeightFormat weights, activations;
  bool rows_in_order = false;  // of an expert, in its input: a CTA looks up where they begin, and not each
};

// Bytes of on-chip memory that the tile's buffers take. As Triton compiles a pipeline of num_stages, one less is in flight;
// asynchronous products keep reading one while the next is waited for (`held`), warp-level ones have copied it to registers.
std::int64_t tile_shared_bytes(const TileShape& tile, WeightFormat weights, WeightFormat activations);
// Registers a thread: 48 and two for each accumulator that it holds (measured: 64 at 16 x 64 on 4 warps, 180 at 128 x
// 128 on 8).
std::int64_t tile_registers(const TileShape& tile, std::int64_t warp_size);
// The same of a tile kernel as Triton compiles it: a base, its accumulators and the addresses of its copies. Not above 255
// only if they fit: beyond, the compiler spills.
std::int64_t triton_registers(const Device& device, const Product& product, const TileShape& tile);
// Asynchronous instructions multiply this tile, and no warp-level ones.
bool multiplies_async(const Device& device, const TileShape& tile);

// Steps that fit 0.93 of what a CTA may hold on the chip, at least 1 and at most `most`.
std::int64_t ring_buffers(const Device& device, const Product& product, const TileShape& tile, std::int64_t most);
// Takes away buffers that a CTA cannot hold at all, but the last.
void fit_buffers(const Device& device, const Product& product, TileShape& tile);
// What a launch of the tile states, unless `prefix`.registers and `prefix`.shared_bytes are given as parameters.
LaunchShape tile_launch(const LowerRequest& request, const Product& product, const TileShape& tile,
                        const std::string& prefix);
LaunchShape triton_launch(const LowerRequest& request, const Product& product, const TileShape& tile,
                          const std::string& prefix);

// Rows that the matrix pipe is given for `rows` useful ones.
std::int64_t issued_rows(const Device& device, const Product& product, const TileShape& tile, std::int64_t rows);
// The unit's matrix pipe as this tile drives it.
Pipe matrix_pipe(const Device& device, const Product& product, const TileShape& tile);

// One item of `issued` rows, of which `useful` (on average over its class) were asked for.
ItemClass tile_item(const Device& device, const Product& product, const TileShape& tile, std::int64_t issued,
                    double useful);

// CTAs that share a tile's K: the largest power of two, up to `most`, that leaves no CTA without a unit and each at
// least four steps.
std::int64_t split_k(const Device& device, std::int64_t tiles, std::int64_t steps, std::int64_t most);
// The item's part of a split tile.
void share_k(ItemClass& item, std::int64_t split);
// The same; partial sums are exchanged through the cache.
void split_item(ItemClass& item, const Device& device, std::int64_t split);

// Adds classes and groups for the layer's active experts: one group per row block of an expert, N blocks its items. Row
// blocks that issue equally many rows are one class with their mean of useful rows, so that alike items stay alike. A
// cluster is whole: its last CTAs may have no rows. Row blocks of an expert that take turns (group_m) are one group, in
// which the tile of weights that the first reads is there for the others.
void add_row_blocks(Kernel& kernel, Chain& chain, const Device& device,
                    const std::vector<std::int64_t>& rows_of_experts, const Product& product, const TileShape& tile);

}  // namespace moesim
