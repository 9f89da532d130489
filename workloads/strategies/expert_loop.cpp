// expert_loop: one dense product per active expert and projection, each its own launch.
//
// Models: a framework's loop over experts with library GEMMs (torch.mm on cuBLAS): rows gathered once, then per
// expert a launch whose weights stand on the row side of the matrix instruction (swap_ab), bulk copies into a deep
// ring, and a long K split while the tiles are fewer than the units: partial sums in float32, which a kernel of their own
// adds up; then activation, the second loop, combine.
// Leaves out: host work between launches (launch mode stream has a queue that never runs dry), the library's choice
// of tile by shape.
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
    {"block_n", "64; 128 for 48 rows of an expert and more, and for matrices of more than 20 million weights",
     "weight rows of a tile", 8, 512},
    {"block_k", "64", "K of a step", 16, 1024},
    {"buffers", "16", "K-steps in flight", 1, 64},
    {"split_k", "from 40 K-steps on as many, up to 4, as leave each CTA a place of its own; else 1",
     "CTAs that share a tile's K", 1, 16},
};

// What cuBLAS 13 chose on an H200, by the names and grids of the kernels that ran: 64 weight rows up to 32 tokens, 128
// from 48 on and for large matrices (16.6 million weights: 64, 29.4 million: 128); K split for 45 steps and more (2880 to
// 14336), not for 32 and fewer, with clusters of four over 96 CTAs at most; clusters of two, which fill all units, for
// matrices of 59 million weights and more.
constexpr std::int64_t kMostSplit = 4, kStepsToSplit = 40, kManyRows = 48;
constexpr std::int64_t kLargeMatrix = 20'000'000, kVeryLargeMatrix = 40'000'000;
constexpr double kShareOfFours = 96.0 / 132.0;  // of the units, that clusters of four use
// Of the kernel that adds up partial sums: grid n / 32 x rows / 16.
constexpr std::int64_t kReduceColumns = 32, kReduceRows = 16, kReduceThreads = 512, kReduceRegisters = 32;

std::int64_t split_of(const Device& device, std::int64_t tiles, std::int64_t steps, std::int64_t weights) {
  if (steps < kStepsToSplit) return 1;
  const double share = weights < kVeryLargeMatrix ? kShareOfFours : 1;
  const auto places = std::llround(share * static_cast<double>(device.units()));
  return std::clamp<std::int64_t>(places / tiles, 1, kMostSplit);
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
    tile.block_n = parameter(request, "block_n", rows < kManyRows && n * k < kLargeMatrix ? 64 : 128);
    const std::int64_t tiles = divide_up(n, tile.block_n);
    const std::int64_t split = std::min(steps, parameter(request, "split_k", split_of(device, tiles, steps, n * k)));
    constexpr std::int64_t kMostRows = 256;  // columns of the widest instruction: more rows take another pass
    tile.block_m = std::min(kMostRows, divide_up(rows, 8) * 8);
    Product product{stage, stage, n, k, layer.weights, layer.activations};
    tile.buffers = ring_buffers(device, product, tile, parameter(request, "buffers", 16));
    Kernel kernel;
    kernel.name = kernel.stage = stage;
    const std::int64_t passes = divide_up(rows, tile.block_m);
    const RegionId region = chain.region(stage, matrix_bytes(product.weights, n, k));
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t useful = std::min(tile.block_m, rows - pass * tile.block_m);
      ItemClass item =
          tile_item(device, product, tile, issued_rows(device, product, tile, useful), static_cast<double>(useful));
      share_k(item, split);
      if (split > 1) item.write = Bytes(tile.block_n * useful * static_cast<std::int64_t>(sizeof(float)));
      kernel.classes.push_back(item);
      ItemGroup group;
      group.item_class = static_cast<std::uint32_t>(kernel.classes.size() - 1);
      group.count = tiles * split;
      group.region = region;
      group.label = static_cast<std::int32_t>(e);
      group.rows = static_cast<std::int32_t>(useful);
      kernel.groups.push_back(group);
    }
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
