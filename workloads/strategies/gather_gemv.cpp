// gather_gemv: copy the selected experts' weights, one matrix per pick, then a batched matrix-vector product over the
// copies.
//
// Models: PyTorch index_select + bmm: the copy reads each pick's matrix and writes it; the product reads the copy, from the
// cache as far as it still holds it. A CTA copies 4 KiB of a matrix, 16 bytes a thread, wherever its rows begin; picks are
// fastest in the grid, so that those of one expert read its matrix once (vectorized_gather_kernel of aten/native/cuda). Or
// picks are copied in turn (copy.in_turn; the CUDA harness): an expert's next one finds of it what the cache still holds.
// Up to 16 picks of a tensor below 2^31 elements PyTorch takes another kernel (indexSelectSmallIndex): 8 CTAs of 128 threads
// a unit, each thread copying one element at a time, so that a quarter of a megabyte is in flight.
// Compared: H200, bf16 (validation/README.md).
#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"block_n", "128", "weight rows of a tile of the batched product", 8, 512},
    {"block_k", "64", "K of a step", 16, 1024},
    {"element_copy", "as PyTorch chooses", "1: the copy takes an element a thread at a time; 0: 16 bytes", 0, 1},
    {"copy.bytes", "4096", "bytes that a CTA of the copy takes, 16 a thread and load", 4096, 1 << 24},
    {"copy.loads", "1", "loads that a thread of the copy has in flight", 1, 64},
    {"copy.in_turn", "0",
     "1: picks are copied one after another, an expert's together; 0: a piece of each, then the next", 0, 1},
    {"copy.registers", "24", "registers a thread of the copy as launched", 1, 255},
    {"buffers", "6, or what a unit's on-chip memory holds", "K-steps in flight", 1, 64},
};

constexpr std::int64_t kMostBuffers = 6;
constexpr std::int64_t kCopyThreads = 256;
constexpr std::int64_t kCopyRound = kCopyThreads * 16;  // bytes: one load a thread
constexpr std::int64_t kMostCopyCtas = 65535;           // of a matrix; more take turns
constexpr std::int64_t kElementPicks = 16;              // the most that are copied by elements
// From so many elements of a tensor on 64-bit indices are needed.
constexpr std::int64_t kElementLimit = std::int64_t{1} << 31;
constexpr std::int64_t kElementCtas = 8;  // of a unit
constexpr std::int64_t kElementThreads = 128;
constexpr double kElementCode = 30;  // instructions of an element: where it is, two divisions

// Copies by elements: every CTA has a part of every pick's matrix.
void add_element_gather(Chain& chain, const LowerRequest& request, const std::string& stage, Bytes matrix,
                        RegionId copy) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t ctas = kElementCtas * device.units();
  const double bytes = matrix.as_double() * static_cast<double>(layer.picks) / static_cast<double>(ctas);
  const double step = static_cast<double>(kElementThreads) * payload_bits(layer.weights) / 8;
  ItemClass item;
  item.steps = std::max<std::int64_t>(1, std::llround(std::ceil(bytes / step)));
  item.read = item.write = Bytes(std::llround(bytes));
  // One pick after another: a matrix comes again after it and its copy, and perhaps others, have passed the cache.
  const bool kept = 2 * matrix.as_double() <= device.useful_cache_bytes();
  item.first_share = kept ? static_cast<double>(layer.active) / static_cast<double>(layer.picks) : 1.0;
  item.step_latency = device.code(kElementCode);
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1);
  item.epilogue = device.cache_round_trips(1);
  Kernel kernel;
  kernel.name = kernel.stage = stage;
  kernel.classes = {item};
  ItemGroup group;
  group.count = ctas;
  group.region = chain.region(stage, matrix * (kept ? layer.active : layer.picks));
  group.write_region = copy;
  kernel.groups = {group};
  label_experts(kernel, layer, LabelOrder::kEachInTurn);
  chain.add(std::move(kernel), {kElementThreads, 32, 0});
}

void add_gather(Chain& chain, const LowerRequest& request, const std::string& stage, std::int64_t n, std::int64_t k,
                RegionId copy) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const Bytes matrix = matrix_bytes(layer.weights, n, k);
  if (layer.picks == 0) return;
  const bool small =
      layer.picks <= kElementPicks && static_cast<std::int64_t>(layer.rows.size()) * n * k < kElementLimit;
  if (parameter(request, "element_copy", small ? 1 : 0) != 0) {
    add_element_gather(chain, request, stage, matrix, copy);
    return;
  }
  const std::int64_t ctas =
      std::min(divide_up(matrix.value(), parameter(request, "copy.bytes", kCopyRound)), kMostCopyCtas);
  const double bytes = matrix.as_double() / static_cast<double>(ctas);
  const auto round = static_cast<double>(kCopyRound * parameter(request, "copy.loads", 1));
  Kernel kernel;
  kernel.name = kernel.stage = stage;
  ItemClass item;
  item.steps = std::max<std::int64_t>(1, std::llround(std::ceil(bytes / round)));
  item.read = item.write = Bytes(std::llround(bytes));
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
      device.load_port_seconds(bytes / static_cast<double>(item.steps));
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1);  // and no epilogue: nobody waits for what is stored
  const bool in_turn = parameter(request, "copy.in_turn", 0) != 0;
  // Else picks of an expert read a piece of its matrix at the same time.
  if (!in_turn) item.first_share = static_cast<double>(layer.active) / static_cast<double>(layer.picks);
  kernel.classes = {item};
  ItemGroup group;
  group.count = ctas;
  group.write_region = copy;
  if (in_turn) {
    group.rows = 1;
    for (std::size_t e = 0; e < layer.rows.size(); ++e) {
      if (layer.rows[e] == 0) continue;
      group.region = chain.region(stage, matrix);
      group.label = static_cast<std::int32_t>(e);
      kernel.groups.insert(kernel.groups.end(), static_cast<std::size_t>(layer.rows[e]), group);
    }
  } else {
    group.count *= layer.picks;
    group.region = chain.region(stage, matrix * layer.active);
    kernel.groups = {group};
    label_experts(kernel, layer, LabelOrder::kInterleaved);
  }
  chain.add(std::move(kernel), {kCopyThreads, parameter(request, "copy.registers", 24), 0});
}

void add_product(Chain& chain, const LowerRequest& request, const std::string& stage, std::int64_t n, std::int64_t k,
                 RegionId copy) {
  const MoeLayer& layer = request.layer;
  if (layer.picks == 0) return;
  const Device device(request.hardware, request.clock_hz);
  Product product{stage, stage, n, k, layer.weights, layer.activations};
  TileShape tile;
  tile.block_m = 8;
  tile.block_n = parameter(request, "block_n", 128);
  tile.block_k = parameter(request, "block_k", 64);
  tile.buffers = parameter(request, "buffers", ring_buffers(device, product, tile, kMostBuffers));
  tile.warps = 12;
  tile.bulk_copies = true;
  tile.swap_ab = true;
  Kernel kernel;
  kernel.name = kernel.stage = stage;
  kernel.classes = {tile_item(device, product, tile, issued_rows(device, product, tile, 1), 1)};
  ItemGroup group;
  group.count = divide_up(n, tile.block_n) * layer.picks;
  group.region = copy;
  kernel.groups = {group};
  label_experts(kernel, layer, LabelOrder::kItemsInTurn);
  LaunchShape shape = tile_launch(request, product, tile, stage);
  shape.registers = std::min<std::int64_t>(shape.registers, 168);
  chain.add(std::move(kernel), shape);
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  Chain chain(request);
  add_before_experts(chain, request, false, 1);
  const RegionId up = chain.region("up copy", layer.up_bytes() * layer.picks);
  const RegionId down = chain.region("down copy", layer.down_bytes() * layer.picks);
  add_gather(chain, request, "gather1", layer.up_width(), layer.expert_hidden(), up);
  add_product(chain, request, "gemm1", layer.up_width(), layer.expert_hidden(), up);
  add_activation(chain, request);
  add_gather(chain, request, "gather2", layer.expert_hidden(), layer.intermediate, down);
  add_product(chain, request, "gemm2", layer.expert_hidden(), layer.intermediate, down);
  add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kGatherGemv = {"gather_gemv",
                                        "copy the selected experts' weights, then a batched matrix-vector product",
                                        "PyTorch index_select + bmm",
                                        kParameters,
                                        Grid::kParallel,
                                        lower};

}  // namespace moesim
