// fused_stream_gemv: stream_gemv with one launch for both projections. A what-if: no such kernel exists yet.
//
// Models: the items of stream_gemv in one grid: first those of the up projection, expert after expert (the blocks of rows of
// an expert's picks side by side), then those of the down projection. An item of the second waits until the first
// projection's items that it needs have finished: those of its pick's expert, or of all experts where an item walks its token's picks
// (per_token: these lie anywhere among the experts). While it waits it has its slot, its code and its pick's number already. An item of
// the first ends with a release of its results (a round trip to the cache more), one of the second begins by seeing it (another).
// What that saves is a launch, the drain of the one projection and the fill of the other; what it costs is one shape for both: warps,
// registers and on-chip memory are the larger of the two's.
// Free of deadlock: items of the up projection wait for nothing, and come before all of the down projection in the grid's order. So an
// item that waits holds a slot that no item of the first projection needs: these have all been started.
// Constants: those fitted to stream_gemv's kernels, by projection.
// Leaves out: the polling's own traffic, a kernel's larger code.
// Compared: with nothing; there is no kernel to measure.
#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/stream_items.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"up.block_n", "2 (16-bit), 8 (others)", "rows of gate and of up of a CTA", 1, 256},
    {"up.block_k", "1024 (16-bit), 128 (others)", "K of a step", 16, 8192},
    {"down.block_n", "4 (16-bit), 16 (others): as many accumulators as up", "output rows of a CTA", 1, 256},
    {"down.block_k", "1024 (16-bit), 128 (others)", "K of a step", 16, 8192},
    {"num_warps", "1", "warps of a CTA", 1, 16},
    {"down.per_token", "1 (16-bit), 0 (others)", "1: a CTA walks its token's picks and combines; 0: one CTA per pick",
     0, 1},
    {"registers", "236 (16-bit), 123 (others)", "registers a thread as launched", 1, 512},
    {"shared_bytes", "128", "on-chip bytes as launched", 0, 1 << 20},
};

GemvShape shape_of(const LowerRequest& request, const std::string& prefix, const GemvShape& defaults) {
  GemvShape shape = defaults;
  shape.block_n = parameter(request, prefix + ".block_n", defaults.block_n);
  shape.block_k = parameter(request, prefix + ".block_k", defaults.block_k);
  shape.warps = parameter(request, "num_warps", defaults.warps);
  shape.launch.threads = shape.warps * static_cast<std::int64_t>(request.hardware[Hw::kWarpSize]);
  shape.launch.registers = parameter(request, "registers", defaults.launch.registers);
  shape.launch.shared_bytes = parameter(request, "shared_bytes", defaults.launch.shared_bytes);
  return shape;
}

// Of `share` of the rows of its projection's matrix.
double useful(std::int64_t n, std::int64_t k, std::int64_t picks, std::int64_t blocks) {
  return 2 * static_cast<double>(n * k * picks) / static_cast<double>(blocks);
}

// Experts with equally many picks are one class: the share of their reads that is their first is the same.
void add_expert_groups(Kernel& kernel, Chain& chain, const MoeLayer& layer, const ItemClass& item, std::int64_t blocks,
                       const std::string& region, Bytes bytes, bool after_first) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> classes;  // by picks
  std::uint32_t number = 0;                                     // of the active experts
  for (const std::int64_t picks : layer.rows) {
    if (picks == 0) continue;
    auto known = std::ranges::find(classes, picks, &std::pair<std::int64_t, std::uint32_t>::first);
    if (known == classes.end()) {
      known = classes.insert(classes.end(), {picks, static_cast<std::uint32_t>(kernel.classes.size())});
      kernel.classes.push_back(item);
      kernel.classes.back().first_share = 1 / static_cast<double>(picks);
    }
    ItemGroup group;
    group.item_class = known->second;
    group.count = blocks * picks;
    group.region = chain.region(region, bytes);
    if (after_first) group.after = {number};
    ++number;
    kernel.groups.push_back(std::move(group));
  }
}

// Waits for all of the first projection: as many groups as there are active experts.
void add_token_groups(Kernel& kernel, Chain& chain, const LowerRequest& request, const GemvShape& down,
                      const auto& item_of) {
  const MoeLayer& layer = request.layer;
  const std::int64_t blocks = divide_up(layer.expert_hidden(), down.block_n);
  const auto first_groups = static_cast<std::uint32_t>(kernel.groups.size());
  for (std::int64_t picks = layer.topk; picks > 0; --picks) {
    const std::int64_t tokens = std::ranges::count(layer.token_picks, picks);
    if (tokens == 0) continue;
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(kernel.classes.size());
    group.count = tokens * blocks;
    const double share = static_cast<double>(tokens * picks) / static_cast<double>(layer.picks);
    const double distinct = layer.down_bytes().as_double() * static_cast<double>(layer.active);
    group.region = chain.region("down", Bytes(std::llround(distinct * share)));
    for (std::uint32_t g = 0; g < first_groups; ++g) group.after.push_back(g);
    kernel.classes.push_back(item_of(picks));
    kernel.groups.push_back(std::move(group));
  }
}

void add_projections(Chain& chain, const LowerRequest& request, const GemvShape& up, const GemvShape& down,
                     bool per_token) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  Kernel kernel;
  kernel.name = kernel.stage = "gemm1+gemm2";

  const double first_share = static_cast<double>(layer.active) / static_cast<double>(layer.picks);
  const std::int64_t up_blocks = divide_up(layer.intermediate, up.block_n);
  ItemClass first = gemv_item(device, layer.weights, up, (layer.gated ? 2 : 1) * up.block_n, layer.expert_hidden(), 1,
                              layer.up_bytes().as_double() / static_cast<double>(up_blocks), first_share,
                              2.0 * static_cast<double>(up.block_n));
  first.useful_flops = useful(layer.up_width(), layer.expert_hidden(), 1, up_blocks);
  first.epilogue += device.cache_round_trips(1);
  apply_constants(first, request.constants, "up.");
  add_expert_groups(kernel, chain, layer, first, up_blocks, "up", layer.up_bytes(), false);

  const std::int64_t down_blocks = divide_up(layer.expert_hidden(), down.block_n);
  const double down_bytes = layer.down_bytes().as_double() / static_cast<double>(down_blocks);
  const auto second = [&](std::int64_t picks) {
    ItemClass item = gemv_item(device, layer.weights, down, down.block_n, layer.intermediate, picks, down_bytes,
                               first_share, 2.0 * static_cast<double>(down.block_n));
    if (per_token) item.first_share = first_share_of_walks(device, layer, down, down_bytes);
    item.useful_flops = useful(layer.expert_hidden(), layer.intermediate, picks, down_blocks);
    item.prologue_before = item.prologue_after;
    item.prologue_after = device.cache_round_trips(1);
    apply_constants(item, request.constants, "down.");
    item.first_prologue = Duration();  // the kernel has begun long ago
    return item;
  };
  if (per_token) {
    add_token_groups(kernel, chain, request, down, second);
  } else {
    add_expert_groups(kernel, chain, layer, second(1), down_blocks, "down", layer.down_bytes(), true);
  }
  label_experts(kernel, layer, LabelOrder::kInterleaved);
  chain.add(std::move(kernel), up.launch);
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const bool wide = payload_bits(layer.weights) >= 16;
  const LaunchShape launch{32, wide ? 236 : 123, 128};
  const GemvShape up = shape_of(
      request, "up", wide ? GemvShape{2, 1024, 1, launch, kUpCode} : GemvShape{8, 128, 1, launch, kUpConvertCode});
  const GemvShape down =
      shape_of(request, "down",
               wide ? GemvShape{4, 1024, 1, launch, kDownCode} : GemvShape{16, 128, 1, launch, kDownConvertCode});
  const bool per_token = parameter(request, "down.per_token", wide ? 1 : 0) != 0;
  Chain chain(request);
  add_before_experts(chain, request, false, 1);
  if (layer.picks > 0) add_projections(chain, request, up, down, per_token);
  if (!per_token) add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kFusedStreamGemv = {
    "fused_stream_gemv",
    "what-if: stream_gemv with one launch for both projections, the second waiting item by item for the first",
    "none: no such kernel exists yet",
    kParameters,
    Grid::kParallel,
    lower,
    "stream_gemv"};

}  // namespace moesim
