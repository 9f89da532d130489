// grouped_gemm_persistent: one CTA a unit walks the tiles of all groups.
//
// Models: CUTLASS pointer-array grouped GEMM on Hopper as torch._grouped_mm launches it: a set-up kernel, then a persistent,
// warp-specialised kernel with bulk copies, whose producer runs ahead of the epilogue. Tiles are 64 x 128 x 128, or
// 128 x 256 x 64 where the groups have more than 128 rows on average; two CTAs of a cluster are neighbours along the rows and
// each load half of their tile of weights for both, so that of a group with few rows one CTA has none. For each tile the
// scheduler scans the groups 32 at a time and the producer rewrites and fences the tensor descriptor (a global round trip each
// way). A box of the row operand is moved whole, whatever rows of it are valid (assumed).
// Leaves out: static striding of tiles over CTAs (tiles go to the next free CTA), the handshake of a cluster's CTAs (a fitted
// gemm.in_flight stands for it).
// Source of tiles and cluster: PyTorch, aten/src/ATen/native/cuda/GroupMM.cu.
// Compared: H200, bf16 (validation/README.md).
#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"block_m", "64; 128 where experts have more than 128 rows on average", "row tile", 8, 256},
    {"block_n", "128; 256 with a row tile of 128", "weight rows of a tile", 8, 512},
    {"block_k", "128; 64 with a row tile of 128", "K of a step", 16, 1024},
    {"cluster_m", "2 where the unit has asynchronous products, else 1", "CTAs that share a tile of weights", 1, 8},
    {"buffers", "what four fifths of the unit's on-chip memory hold", "K-steps in flight", 1, 64},
    {"whole_boxes", "1", "1: the row operand's boxes are moved whole, rows beyond the group's end too; 0: valid rows",
     0, 1},
    {"descriptors", "1",
     "1: a tensor descriptor a group, made by a set-up kernel and changed per tile; 0: one for all groups", 0, 1},
    {"router", "1", "0: the layer is given its router's scores: no router product", 0, 1},
    {"look_ahead", "1", "tiles that the producer may fetch ahead; 0: an epilogue delays the next tile's loads", 0, 1},
};

constexpr std::int64_t kGroupsPerScan = 32;
constexpr std::int64_t kMostBuffers = 12;
constexpr std::int64_t kSmallTileRows = 128;  // of a group, to which tiles stay small
constexpr double kRowsOfWarp = 16;            // of a product that a warp makes alone

// One thread a group writes problem shapes and pointers.
void add_setup(Chain& chain, const Device& device, const std::string& stage) {
  Kernel setup;
  setup.name = "prepare_groups";
  setup.stage = stage;
  setup.helper = true;
  ItemClass one;
  one.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  one.prologue_after = device.cache_round_trips(2);
  one.epilogue = device.cache_round_trips(1);
  setup.classes = {one};
  ItemGroup single;
  single.count = 1;
  setup.groups = {single};
  chain.add(std::move(setup), {128, 38, 0});
}

void add_projection(Chain& chain, const LowerRequest& request, const Product& product) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  TileShape tile;
  const std::int64_t mean_rows = layer.picks / static_cast<std::int64_t>(layer.rows.size());  // of empty groups too
  const bool large = mean_rows > kSmallTileRows && product.n > kSmallTileRows;
  tile.block_m = parameter(request, "block_m", large ? 128 : 64);
  tile.block_n = parameter(request, "block_n", large ? 256 : 128);
  tile.block_k = parameter(request, "block_k", large ? 64 : 128);
  tile.cluster = parameter(request, "cluster_m", device.constant(Hw::kMatrixAsyncRows) > kRowsOfWarp ? 2 : 1);
  tile.warps = 12;
  tile.bulk_copies = true;
  tile.buffers = parameter(request, "buffers", ring_buffers(device, product, tile, kMostBuffers));

  const bool descriptors = parameter(request, "descriptors", 1) != 0;
  if (descriptors) add_setup(chain, device, product.stage);
  const auto scans = static_cast<double>(divide_up(static_cast<std::int64_t>(layer.rows.size()), kGroupsPerScan));
  const double search = scans * 6 * device.constant(Hw::kSharedLatency);  // load, five-step prefix sum over lanes
  const Duration per_tile =
      device.duration(search) + device.cache_round_trips(descriptors ? 2 : 1);  // descriptor written, fenced, fetched
  Kernel kernel;
  kernel.name = kernel.stage = product.stage;
  kernel.schedule = {Schedule::Kind::kPersistent, parameter(request, "look_ahead", 1), device.units()};
  add_row_blocks(kernel, chain, device, layer.rows, product, tile);
  const bool whole_boxes = parameter(request, "whole_boxes", 1) != 0;
  const double box_bytes = static_cast<double>(tile.block_m * product.k) * payload_bits(product.activations) / 8;
  for (ItemClass& item : kernel.classes) {
    item.prologue_after = item.tile_prologue = per_tile;
    if (!whole_boxes || item.resident_read == Bytes(0)) continue;
    item.resident_read = Bytes(std::llround(box_bytes));
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
        device.load_port_seconds((item.read.as_double() + box_bytes) / static_cast<double>(item.steps));
  }
  if (kernel.groups.empty()) return;
  LaunchShape shape = tile_launch(request, product, tile, product.stage);
  shape.registers = std::min<std::int64_t>(shape.registers, 168);
  chain.add(std::move(kernel), shape);
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const bool quantised = payload_bits(layer.activations) < 16;
  Chain chain(request);
  const bool whole = request.scope == Scope::kMoeLayer;
  add_before_experts(chain, request, true, 1);
  if (whole && quantised) add_quantise(chain, request, "quantise", layer.tokens, layer.expert_hidden());
  add_permute(chain, request);
  add_projection(chain, request,
                 {"gemm1", "gemm1", layer.up_width(), layer.expert_hidden(), layer.weights, layer.activations});
  add_activation(chain, request);
  if (whole && quantised) add_quantise(chain, request, "quantise", layer.picks, layer.intermediate);
  add_projection(chain, request,
                 {"gemm2", "gemm2", layer.expert_hidden(), layer.intermediate, layer.weights, layer.activations});
  add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kGroupedGemmPersistent = {
    "grouped_gemm_persistent",
    "one CTA a unit walks the tiles of all groups, descriptor change per tile",
    "CUTLASS grouped GEMM, torch grouped_mm",
    kParameters,
    Grid::kParallel,
    lower};

}  // namespace moesim
