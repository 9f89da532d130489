// grouped_gemm_persistent: one CTA a unit walks the tiles of all groups.
//
// Models: CUTLASS pointer-array grouped GEMM on Hopper as torch._grouped_mm launches it: a set-up kernel, then a persistent,
// warp-specialised kernel with bulk copies, whose producer runs ahead of the epilogue. Tiles are 64 x 128 x 128, or
// 128 x 256 x 64 where the groups have more than 128 rows on average; two CTAs of a cluster are neighbours along the rows and
// each load half of their tile of weights for both, so that of a group with few rows one CTA has none. For each tile the
// scheduler scans the groups 32 at a time and the producer rewrites and fences the tensor descriptor (a global round trip each
// way). A box of the row operand is moved whole. Rows beyond the group's end seem to come from one place for all units: a box with
// such rows takes microseconds when all ask, and holds up its cluster; with full boxes the same kernel is a third faster.
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
    {"buffers", "what the unit's on-chip memory holds", "K-steps in flight", 1, 64},
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
constexpr std::int64_t kRowsTogether = 8;     // that a bulk copy of a box fetches
// What a box with rows beyond its tensor's end takes longer, less where fewer than two thirds of its rows are beyond: the more
// units ask for such boxes, and the more of them of one tensor, up to half of the device's: 2.7 us where all ask in step (box_read of
// the CUDA harness, H200: 132, 66, 33, 16, 8 and 4 of a tensor: 2.7, 2.7, 2.4, 2.1, 1.7, 1.5 us). A persistent kernel's units
// lose their step over its first waves.
constexpr double kBeyondLatency = 2.1e-6, kBeyondInStep = 0.6e-6, kBeyondFull = 2.0 / 3, kWavesInStep = 4;
constexpr double kUnitsOfTensor = 0.5, kOfTensorExponent = 0.2;

// The rows beyond a group's end are its last CTA's, for which its cluster waits; and those that ask for none wait behind others'.
Duration beyond_latency(const std::vector<std::int64_t>& rows_of_experts, const TileShape& tile, std::int64_t n_blocks,
                        std::int64_t units) {
  std::int64_t most = 0, clusters = 0;
  for (const std::int64_t rows : rows_of_experts) {
    const std::int64_t of_cluster = tile.block_m * tile.cluster, rest = rows % of_cluster;
    clusters += divide_up(rows, of_cluster);
    if (rest == 0) continue;
    const std::int64_t last = std::max<std::int64_t>(0, rest - tile.block_m * (tile.cluster - 1));
    most = std::max(most, tile.block_m - last / kRowsTogether * kRowsTogether);
  }
  if (most == 0) return {};
  const double share = static_cast<double>(most) / (kBeyondFull * static_cast<double>(tile.block_m));
  const auto all = static_cast<double>(units), of_tensor = static_cast<double>(tile.cluster * n_blocks);
  const double waves = static_cast<double>(clusters) * of_tensor / all;
  const double asking =
      std::min(1.0, waves) * std::pow(std::min(1.0, of_tensor / (kUnitsOfTensor * all)), kOfTensorExponent);
  return duration_from_seconds(std::min(1.0, share) * asking *
                               (kBeyondLatency + kBeyondInStep * std::min(1.0, kWavesInStep / waves)));
}

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
  const Duration beyond =
      whole_boxes ? beyond_latency(layer.rows, tile, divide_up(product.n, tile.block_n), device.units()) : Duration();
  for (ItemClass& item : kernel.classes) {
    item.prologue_after = item.tile_prologue = per_tile;
    item.load_latency += beyond;
    item.ring_spans_items = kernel.schedule.look_ahead > 0;
    if (!whole_boxes) continue;
    item.resident_read = Bytes(std::llround(box_bytes));
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] = std::max(
        item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)],
        device.load_port_seconds((item.read + item.resident_read).as_double() / static_cast<double>(item.steps)));
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
