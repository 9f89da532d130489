// grouped_gemm: one launch per projection; rows padded to a row tile per expert; one item per (row block, N block).
//
// Models: the Triton fused-MoE kernels of vLLM and SGLang: grid in one dimension, N fastest, so that a second row
// block of an expert comes a whole matrix after the first and finds the weights only in a cache that holds them.
// A grid for the worst case (worst_case_grid) has one block a pick, or what the padding of all experts could add; its
// surplus CTAs read the real count and exit, each from a slot of the same size.
// With GROUP_M (group_m) as many row blocks take turns: an N block of each, then the next, so that those of one expert
// read its weights together.
// Leaves out: that row blocks of different experts take turns too (their N blocks come expert after expert here).
// Compared: H200, 1-64 tokens, bf16 and fp8_block128 (validation/README.md).
#include <algorithm>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tile_space.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"block_m", "16 up to as many tokens as experts, else 64 (vLLM without a tuned file)", "row tile", 8, 256},
    {"block_n", "32, or 64 with block_m 64; 128 for fp8_block128", "weight rows of a tile", 8, 512},
    {"block_k", "64, or 32 with block_m 64; 128 for fp8_block128", "K of a step", 16, 1024},
    {"group_m", "1", "row blocks that take turns in the grid: an N block of each, then the next", 1, 1024},
    {"num_warps", "4", "warps of a CTA", 1, 16},
    {"num_stages", "4 (3 for fp8_block128)", "pipeline stages as Triton counts them: one less is in flight", 2, 16},
    {"bulk_copies", "0", "1: tiles come as bulk copies, which no warp issues piece by piece", 0, 1},
    {"fused_act", "0", "1: the activation is part of the up projection's kernel", 0, 1},
    {"router", "1", "0: the layer is given its router's scores: no router product", 0, 1},
    {"grouping_kernels", "2", "0: the top-k kernel groups the rows by expert", 0, 2},
    {"extra_launches", "0", "small kernels around the layer (copies, fills)", 0, 64},
    {"width_multiple", "1", "the experts' width is padded to a multiple of it", 1, 4096},
    {"weighted_down", "0", "1: the down projection fetches its rows' routing weights, and multiplies by them", 0, 1},
    {"worst_case_grid", "0",
     "1: launched for the most row blocks that the picks could need; CTAs beyond the real ones exit", 0, 1},
    {"swap_ab", "0", "1: weights on the row side of the matrix instruction, rows issued in eights", 0, 1},
    {"warp_level", "0", "1: warp-level products (mma.sync) at any row count", 0, 1},
    {"up.registers", "by accumulators and copies of a thread", "registers a thread as launched, up projection", 1, 512},
    {"up.shared_bytes", "what the buffers take", "on-chip bytes as launched, up projection", 0, 1 << 20},
    {"down.registers", "by accumulators and copies of a thread", "the same of the down projection", 1, 512},
    {"down.shared_bytes", "what the buffers take", "the same of the down projection", 0, 1 << 20},
};

TileShape tile_of(const LowerRequest& request) {
  const Parameters defaults = default_tile(kGroupedGemm, request.layer);
  const auto value = [&](const char* name) { return parameter(request, name, defaults.at(name)); };
  TileShape tile;
  tile.block_m = value("block_m");
  tile.block_n = value("block_n");
  tile.block_k = value("block_k");
  tile.group_m = value("group_m");
  tile.warps = value("num_warps");
  tile.buffers = value("num_stages") - 1;
  tile.bulk_copies = parameter(request, "bulk_copies", 0) != 0;
  tile.swap_ab = parameter(request, "swap_ab", 0) != 0;
  tile.warp_level = parameter(request, "warp_level", 0) != 0;
  tile.triton = !tile.bulk_copies && !tile.warp_level;
  tile.held = tile.triton && multiplies_async(Device(request.hardware, request.clock_hz), tile) ? 1 : 0;
  return tile;
}

// Row blocks beyond the real ones in a grid that is launched without knowing the routing.
std::int64_t surplus_blocks(const MoeLayer& layer, const TileShape& tile) {
  const auto experts = static_cast<std::int64_t>(layer.rows.size());
  std::int64_t real = 0;
  for (const std::int64_t rows : layer.rows) real += divide_up(rows, tile.block_m);
  const std::int64_t padded = layer.picks + experts * (tile.block_m - 1);
  return std::max<std::int64_t>(0, std::min(layer.picks, divide_up(padded, tile.block_m)) - real);
}

// A CTA that reads how many row blocks there are, and exits.
ItemClass surplus_item(const Device& device) {
  ItemClass item;
  item.steps = 1;
  item.stages = 1;
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1);
  return item;
}

void add_projection(Chain& chain, const LowerRequest& request, const Product& product, const TileShape& tile,
                    const std::string& prefix) {
  const Device device(request.hardware, request.clock_hz);
  Kernel kernel;
  kernel.name = product.name;
  kernel.stage = product.stage;
  add_row_blocks(kernel, chain, device, request.layer.rows, product, tile);
  if (product.stage == "gemm2" && parameter(request, "weighted_down", 0) != 0) {
    for (ItemClass& item : kernel.classes) item.epilogue += device.cache_round_trips(1);
  }
  if (kernel.groups.empty()) return;  // no token of this shard's experts
  if (parameter(request, "worst_case_grid", 0) != 0) {
    ItemGroup surplus;
    surplus.item_class = static_cast<std::uint32_t>(kernel.classes.size());
    surplus.count = surplus_blocks(request.layer, tile) * divide_up(product.n, tile.block_n);
    if (surplus.count > 0) {
      kernel.classes.push_back(surplus_item(device));
      kernel.groups.push_back(surplus);
    }
  }
  chain.add(std::move(kernel),
            tile.triton ? triton_launch(request, product, tile, prefix) : tile_launch(request, product, tile, prefix));
}

Lowered lower(const LowerRequest& asked) {
  MoeLayer layer = asked.layer;
  const std::int64_t multiple = parameter(asked, "width_multiple", 1);
  layer.intermediate = divide_up(layer.intermediate, multiple) * multiple;
  const LowerRequest request{layer,           asked.hardware, asked.clock_hz,
                             asked.scope,     asked.launch,   asked.parameters,
                             asked.constants, asked.stage,    asked.used};
  const TileShape tile = tile_of(request);
  const bool quantised = payload_bits(layer.activations) < 16;
  Chain chain(request);
  const bool whole = request.scope == Scope::kMoeLayer;
  if (whole) add_extra_launches(chain, request);
  add_before_experts(chain, request, parameter(request, "grouping_kernels", 2) > 0, tile.block_m);
  if (whole && quantised) add_quantise(chain, request, "quantise", layer.tokens, layer.expert_hidden());
  add_projection(chain, request,
                 {"gemm1", "gemm1", layer.up_width(), layer.expert_hidden(), layer.weights, layer.activations}, tile,
                 "up");
  if (parameter(request, "fused_act", 0) == 0) add_activation(chain, request);
  if (whole && quantised) add_quantise(chain, request, "quantise", layer.picks, layer.intermediate);
  add_projection(
      chain, request,
      {"gemm2", "gemm2", layer.expert_hidden(), layer.intermediate, layer.weights, layer.activations, tile.warp_level},
      tile, "down");
  add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kGroupedGemm = {
    "grouped_gemm",
    "row-padded tiles, one item per (row block, N block), one launch per projection",
    "Triton fused MoE (vLLM, SGLang)",
    kParameters,
    Grid::kParallel,
    lower};

}  // namespace moesim
