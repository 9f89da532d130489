// expert_loop: one dense product per active expert and projection, each its own launch.
//
// Models: a framework's loop over experts with library GEMMs (torch.mm on cuBLAS): rows gathered once, then per
// expert a launch whose weights stand on the row side of the matrix instruction (swap_ab), bulk copies into a deep
// ring, and a long K split while the tiles are fewer than the units: partial sums in float32, which a kernel of their own
// adds up; then activation, the second loop, combine. Tiles as the library chooses them: choose_tile.
// Leaves out: host work between launches (launch mode stream has a queue that never runs dry), tiles of odd sizes, which the
// library takes in a third of the cases, its clusters' multicast beyond what neighbours behind a port share.
// Compared: H200, bf16 (validation/README.md).
#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"block_n", "64; 128 and 256 where 64 or 128 are more tiles than units or need more than 128 columns",
     "weight rows of a tile", 8, 512},
    {"block_m", "an expert's rows, in as many equal parts as leave each CTA a unit of its own", "columns of a tile", 8,
     256},
    {"block_k", "64", "K of a step", 16, 1024},
    {"buffers", "16", "K-steps in flight", 1, 64},
    {"split_k",
     "to 63 rows (256 of a very large matrix) and from 40 K-steps on as many, up to 4, as leave each CTA a unit; else "
     "1",
     "CTAs that share a tile's K", 1, 16},
};

// What cuBLAS 13 chooses on an H200, by the names and grids of its kernels for 34 matrices and 1 to 512 rows
// (validation/measured/h200-2026-11-30-choice). One wave: tiles of 64 weight rows, and the expert's rows in as many columns as
// leave each CTA a unit of its own; 128 weight rows where 64 are too many tiles, 256 where 128 are, but for few rows. K is
// split for 45 steps and more (2880 to 14336), not for 32 and fewer, with clusters of four over 96 CTAs at most; with
// clusters of two, which fill all units, where these leave no split and for matrices of 59 million weights and more.
constexpr std::int64_t kMostSplit = 4, kStepsToSplit = 40, kRowsToSplit = 63;
constexpr std::int64_t kLargeMatrix = 20'000'000, kVeryLargeMatrix = 40'000'000;
constexpr std::int64_t kFewRows = 8, kWideRows = 40;  // of large matrices at 128, and at least at 256 weight rows
constexpr std::int64_t kColumns = 8;                  // a tile's columns are a multiple of
constexpr std::int64_t kSharedColumns = 2;            // neighbours, or of a cluster: they read the same weights
constexpr std::int64_t kMostColumns = 256, kMostColumnsOf64 = 128;
constexpr std::int64_t kMostAccumulators = 256 * 128;  // of a tile
constexpr double kShareOfFours = 96.0 / 132.0;         // of the units, that clusters of four use
// Of the kernel that adds up partial sums: grid n / 32 x rows / 16.
constexpr std::int64_t kReduceColumns = 32, kReduceRows = 16, kReduceThreads = 512, kReduceRegisters = 32;

struct LibraryTile {
  std::int64_t block_n = 64, block_m = 0, split = 1;
};

LibraryTile choose_tile(std::int64_t units, std::int64_t n, std::int64_t k, std::int64_t steps, std::int64_t rows) {
  const auto tiles = [&](std::int64_t block_n) { return divide_up(n, block_n); };
  const auto columns = [&](std::int64_t block_n) {  // of a tile
    const std::int64_t most = std::min(kMostColumns, kMostAccumulators / block_n);
    const std::int64_t one_wave = std::clamp<std::int64_t>(units / tiles(block_n), 1, divide_up(rows, kColumns));
    const std::int64_t parts = std::max(one_wave, divide_up(rows, most));
    return divide_up(divide_up(rows, parts), kColumns) * kColumns;
  };
  const bool very_large = n * k >= kVeryLargeMatrix;
  LibraryTile tile;
  if (very_large || (n * k >= kLargeMatrix && rows <= kFewRows)) tile.block_n = 128;
  if (steps >= kStepsToSplit && rows <= (very_large ? kMostColumns : kRowsToSplit)) {
    const auto fours = std::llround(kShareOfFours * static_cast<double>(units)) / tiles(tile.block_n);
    const std::int64_t twos = units / tiles(tile.block_n);
    tile.split = std::clamp<std::int64_t>(very_large || fours < 2 ? twos : fours, 1, kMostSplit);
  }
  if (tile.split > 1) {
    tile.block_m = divide_up(rows, kColumns) * kColumns;
    return tile;
  }
  if (tiles(64) > units || columns(64) > kMostColumnsOf64) tile.block_n = 128;
  if (tiles(128) > units && rows >= kWideRows) tile.block_n = 256;
  tile.block_m = columns(tile.block_n);
  return tile;
}

void add_reduce(Chain& chain, const Device& device, const std::string& stage, std::int64_t n, std::int64_t rows,
                std::int64_t split) {
  const std::int64_t row_blocks = divide_up(rows, kReduceRows);
  const double outputs =
      static_cast<double>(kReduceColumns) * static_cast<double>(rows) / static_cast<double>(row_blocks);
  chain.add(elementwise(device, "splitk_reduce", stage, divide_up(n, kReduceColumns) * row_blocks,
                        outputs * static_cast<double>(split) * sizeof(float), outputs * kBytes16, 1),
            {kReduceThreads, kReduceRegisters, 0});
}

void add_loop(Chain& chain, const LowerRequest& request, const std::string& stage, std::int64_t n, std::int64_t k) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  TileShape tile;
  tile.block_k = parameter(request, "block_k", 64);
  tile.warps = 12;  // a producer and two consumer warp groups
  tile.bulk_copies = true;
  tile.swap_ab = true;
  const std::int64_t steps = divide_up(k, tile.block_k);
  for (std::size_t e = 0; e < layer.rows.size(); ++e) {
    const std::int64_t rows = layer.rows[e];
    if (rows == 0) continue;
    const LibraryTile chosen = choose_tile(device.units(), n, k, steps, rows);
    tile.block_n = parameter(request, "block_n", chosen.block_n);
    tile.block_m = parameter(request, "block_m", chosen.block_m);
    const std::int64_t tiles = divide_up(n, tile.block_n);
    const std::int64_t split = std::min(steps, parameter(request, "split_k", chosen.split));
    Product product{stage, stage, n, k, layer.weights, layer.activations};
    tile.buffers = ring_buffers(device, product, tile, parameter(request, "buffers", 16));
    Kernel kernel;
    kernel.name = kernel.stage = stage;
    // Columns of the same weights run side by side, or one after another.
    const std::int64_t parts = divide_up(rows, tile.block_m), together = std::min<std::int64_t>(parts, kSharedColumns);
    const double useful = static_cast<double>(rows) / static_cast<double>(parts);
    ItemClass item =
        tile_item(device, product, tile, issued_rows(device, product, tile, divide_up(rows, parts)), useful);
    item.first_share = 1 / static_cast<double>(parts);
    item.read_port_weight = 1 / device.sharers(together);
    item.resident_port_weight = 1 / device.sharers(tiles, together);
    share_k(item, split);
    if (split > 1) {
      item.write = Bytes(std::llround(static_cast<double>(tile.block_n) * useful * static_cast<double>(sizeof(float))));
    }
    kernel.classes = {item};
    ItemGroup group;
    group.count = tiles * parts * split;
    group.region = chain.region(stage, matrix_bytes(product.weights, n, k));
    group.label = static_cast<std::int32_t>(e);
    group.rows = static_cast<std::int32_t>(rows);
    kernel.groups = {group};
    LaunchShape shape = tile_launch(request, product, tile, stage);
    shape.registers = std::min<std::int64_t>(shape.registers, 168);
    chain.add(std::move(kernel), shape);
    if (split > 1) add_reduce(chain, device, stage, n, rows, split);
  }
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  Chain chain(request);
  add_before_experts(chain, request, true, 1);
  add_permute(chain, request);
  add_loop(chain, request, "gemm1", layer.up_width(), layer.expert_hidden());
  add_activation(chain, request);
  add_loop(chain, request, "gemm2", layer.expert_hidden(), layer.intermediate);
  add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kExpertLoop = {"expert_loop",
                                        "one dense product per active expert and projection, each its own launch",
                                        "framework eager loop, cuBLAS",
                                        kParameters,
                                        Grid::kParallel,
                                        lower};

}  // namespace moesim
