// expert_loop: one dense product per active expert and projection, each its own launch.
//
// Models: a framework's loop over experts with library GEMMs (torch.mm on cuBLAS): rows gathered once, then per
// expert a launch whose weights stand on the row side of the matrix instruction (swap_ab), bulk copies into a deep
// ring, and a long K split over a cluster while the tiles are fewer than the units; then activation, the second loop,
// combine.
// Leaves out: host work between launches (launch mode stream has a queue that never runs dry), the library's choice
// of tile by shape.
// Compared: H200, bf16 (validation/README.md).
#include <algorithm>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"block_n", "64; 128 for 48 rows of an expert and more", "weight rows of a tile", 8, 512},
    {"block_k", "64", "K of a step", 16, 1024},
    {"buffers", "16", "K-steps in flight", 1, 64},
    {"split_k", "from 40 K-steps on the most of 1, 2, 4 that leaves no CTA without a unit; else 1",
     "CTAs (a cluster) that share a tile's K", 1, 16},
};

// What cuBLAS 13 chose on an H200, by the names of the kernels that ran: 64 weight rows up to 32 tokens, 128 and more
// from 48 on; K split for 45 steps and more (2880 to 14336), not for 32 and fewer.
constexpr std::int64_t kMostSplit = 4, kStepsToSplit = 40, kManyRows = 48;

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
    tile.block_n = parameter(request, "block_n", rows < kManyRows ? 64 : 128);
    const std::int64_t tiles = divide_up(n, tile.block_n);
    const std::int64_t split =
        parameter(request, "split_k", steps < kStepsToSplit ? 1 : split_k(device, tiles, steps, kMostSplit));
    constexpr std::int64_t kMostRows = 256;  // columns of the widest instruction: more rows take another pass
    tile.block_m = std::min(kMostRows, divide_up(rows, 8) * 8);
    Product product{stage, stage, n, k, layer.weights, layer.activations};
    tile.buffers = ring_buffers(device, product, tile, parameter(request, "buffers", 16));
    Kernel kernel;
    kernel.name = kernel.stage = stage;
    kernel.gang = split;
    const std::int64_t passes = divide_up(rows, tile.block_m);
    const RegionId region = chain.region(stage, matrix_bytes(product.weights, n, k));
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t useful = std::min(tile.block_m, rows - pass * tile.block_m);
      ItemClass item =
          tile_item(device, product, tile, issued_rows(device, product, tile, useful), static_cast<double>(useful));
      split_item(item, device, split);
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
