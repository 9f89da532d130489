#include "workloads/step/dense_product.h"

#include <algorithm>

#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::int64_t kSynchronousRows = 16;  // matrix.async_rows of a device without asynchronous instructions
constexpr std::int64_t kManyRows = 48;         // from so many on 128 weight rows a tile, if every unit has one then
constexpr std::int64_t kNarrow = 64, kWide = 128;
constexpr std::int64_t kMostColumns = 256;  // rows of one pass, on the column side
constexpr std::int64_t kMostBuffers = 16, kBulkWarps = 12, kBulkRegisters = 168;
constexpr std::int64_t kClusterSplit = 4, kStepsToSplit = 40;
constexpr std::int64_t kMostSplit = 8, kTilesPerUnit = 2, kLeastSteps = 4;

bool blocked_fp8(const Product& product) { return product.weights.dtype == Dtype::kFp8Block128; }

TileShape bulk_tile(const Device& device, const Product& product, std::int64_t rows) {
  TileShape tile;
  tile.block_m = std::min(kMostColumns, round_up(rows, 8));
  tile.block_n = rows >= kManyRows && divide_up(product.n, kWide) >= device.units() ? kWide : kNarrow;
  tile.block_k = blocked_fp8(product) ? 128 : 64;
  tile.warps = kBulkWarps;
  tile.bulk_copies = true;
  tile.swap_ab = true;
  tile.buffers = ring_buffers(device, product, tile, kMostBuffers);
  return tile;
}

TileShape copied_tile(const Device& device, const Product& product, std::int64_t rows) {
  TileShape tile;
  tile.block_m = rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
  tile.block_k = tile.block_m <= 16 ? 128 : 64;
  fit_buffers(device, product, tile);
  return tile;
}

std::int64_t split_of(const Device& device, const Product& product, const TileShape& tile, std::int64_t tiles,
                      std::int64_t steps) {
  if (tile.bulk_copies) {
    return steps < kStepsToSplit || blocked_fp8(product) ? 1 : split_k(device, tiles, steps, kClusterSplit);
  }
  std::int64_t split = 1;
  while (2 * split <= kMostSplit && 2 * split * tiles <= kTilesPerUnit * device.units() &&
         steps >= 2 * split * kLeastSteps) {
    split *= 2;
  }
  return split;
}

}  // namespace

DenseKernel dense_kernel(const Device& device, const Product& product, std::int64_t rows, RegionId weights) {
  const bool bulk = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows)) > kSynchronousRows;
  const TileShape tile = bulk ? bulk_tile(device, product, rows) : copied_tile(device, product, rows);
  const std::int64_t blocks = divide_up(rows, tile.block_m);
  const std::int64_t columns = divide_up(product.n, tile.block_n);
  DenseKernel dense;
  dense.kernel.name = product.name;
  ItemClass item = tile_item(device, product, tile, issued_rows(device, product, tile, divide_up(rows, blocks)),
                             static_cast<double>(rows) / static_cast<double>(blocks));
  const std::int64_t split = split_of(device, product, tile, blocks * columns, item.steps);
  split_item(item, device, split);
  dense.kernel.classes = {item};
  if (bulk) dense.kernel.gang = split;
  for (std::int64_t b = 0; b < blocks; ++b) {
    ItemGroup group;
    group.count = columns * split;
    group.region = weights;
    dense.kernel.groups.push_back(group);
  }
  const auto warp = static_cast<std::int64_t>(device.constant(Hw::kWarpSize));
  const std::int64_t registers = tile_registers(tile, warp);
  dense.shape = {tile.warps * warp, bulk ? std::min(registers, kBulkRegisters) : registers,
                 tile_shared_bytes(tile, product.weights, product.activations)};
  return dense;
}

}  // namespace moesim
