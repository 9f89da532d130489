// stream_gemv: no copy, no padding: each item streams weight rows of its pick straight to registers and multiplies
// them with one activation row.
//
// Models: warp-decode kernels as Triton compiles them: up projection one CTA per (pick, block_n rows of gate and of
// up), pick fastest in the grid, so that picks of one expert read the same rows at the same time and the copies after
// the first come from the cache; activation fused. Down projection either one CTA per (token, rows), which walks the
// token's picks and writes the combined row (16-bit weights), or one per (pick, rows), then a combine. A K-step of a
// kernel without software pipelining is load -> wait -> convert and multiply: nothing of its own overlaps, other
// warps do.
// persistent=1: persistent_stream.h.
// Leaves out: the activation row's own traffic (it stays in the unit's cache), instruction fetch.
// Compared: H200, 1-64 tokens, bf16 and fp8_block128 (validation/README.md).
#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/blocks.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/persistent_stream.h"
#include "workloads/strategies/stream_items.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"persistent", "0", "1: one CTA a unit streams its share of all rows", 0, 1},
    {"up.bytes_in_flight", "8192 a warp, or what fits", "of a persistent CTA's ring", 1024, 1 << 20},
    {"down.bytes_in_flight", "8192 a warp, or what fits", "of a persistent CTA's ring", 1024, 1 << 20},
    {"up.interleaved", "1",
     "persistent: 1: neighbouring blocks of rows go to neighbouring CTAs; 0: a CTA has a run of them", 0, 1},
    {"one_launch", "0", "persistent: 1: up and down in one launch, the ring runs on while all CTAs wait for up", 0, 1},
    {"down.fused", "1", "persistent: 1: the combine is a part of down; 0: a kernel of its own", 0, 1},
    {"up.block_n", "2 (16-bit), 8 (others)", "rows of gate and of up of a CTA", 1, 256},
    {"up.block_k", "1024 (16-bit), 128 (others)", "K of a step", 16, 8192},
    {"up.num_warps", "1; persistent: 16, where weights are converted 12", "warps of a CTA", 1, 16},
    {"up.num_stages", "1",
     "persistent: stages of a warp's ring; else as the compiler was told, which has no effect here", 1, 16},
    {"up.registers", "236 (16-bit), 123 (others); persistent: 126, where weights are converted 166",
     "registers a thread as launched", 1, 512},
    {"up.shared_bytes", "0; persistent: 5/4 of its ring", "on-chip bytes as launched", 0, 1 << 20},
    {"down.block_n", "4 (16-bit), 8 (others)", "output rows of a CTA", 1, 256},
    {"down.block_k", "1024 (16-bit), 128 (others)", "K of a step", 16, 8192},
    {"down.num_warps", "2 (16-bit), 1 (others); persistent: 16, where weights are converted 12", "warps of a CTA", 1,
     16},
    {"down.num_stages", "1", "as up.num_stages", 1, 16},
    {"down.per_token", "1 (16-bit), 0 (others)", "1: a CTA walks its token's picks and combines; 0: one CTA per pick",
     0, 1},
    {"down.registers", "125 (16-bit), 72 (others); persistent: 126, where weights are converted 166",
     "registers a thread as launched", 1, 512},
    {"down.shared_bytes", "32 (16-bit), 128 (others); persistent: 5/4 of its ring", "on-chip bytes as launched", 0,
     1 << 20},
};

GemvShape shape_of(const LowerRequest& request, const std::string& prefix, const GemvShape& defaults) {
  GemvShape shape = defaults;
  shape.block_n = parameter(request, prefix + ".block_n", defaults.block_n);
  shape.block_k = parameter(request, prefix + ".block_k", defaults.block_k);
  shape.warps = parameter(request, prefix + ".num_warps", defaults.warps);
  shape.launch.threads = shape.warps * static_cast<std::int64_t>(request.hardware[Hw::kWarpSize]);
  shape.launch.registers = parameter(request, prefix + ".registers", defaults.launch.registers);
  shape.launch.shared_bytes = parameter(request, prefix + ".shared_bytes", defaults.launch.shared_bytes);
  return shape;
}

void add_up(Chain& chain, const LowerRequest& request, const GemvShape& shape) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t blocks = divide_up(layer.intermediate, shape.block_n);
  const std::int64_t matrices = layer.gated ? 2 : 1;
  const double first_share = static_cast<double>(layer.active) / static_cast<double>(layer.picks);
  Kernel kernel;
  kernel.name = kernel.stage = "gemm1";
  ItemClass item = gemv_item(device, layer.weights, shape, matrices * shape.block_n, layer.expert_hidden(), 1,
                             layer.up_bytes().as_double() / static_cast<double>(blocks), first_share,
                             2.0 * static_cast<double>(shape.block_n));
  item.first_share = first_share;
  item.useful_flops = 2 * static_cast<double>(layer.up_width() * layer.expert_hidden()) / static_cast<double>(blocks);
  kernel.classes = {item};
  ItemGroup group;
  group.count = blocks * layer.picks;
  group.region = chain.region("up", layer.up_bytes() * layer.active);
  kernel.groups = {group};
  label_experts(kernel, layer, LabelOrder::kInterleaved);
  chain.add(std::move(kernel), shape.launch);
}

void add_down(Chain& chain, const LowerRequest& request, const GemvShape& shape, bool per_token) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t blocks = divide_up(layer.expert_hidden(), shape.block_n);
  const double bytes = layer.down_bytes().as_double() / static_cast<double>(blocks);
  const double written = 2.0 * static_cast<double>(shape.block_n);
  const double first_share = per_token ? first_share_of_walks(device, layer, shape, bytes)
                                       : static_cast<double>(layer.active) / static_cast<double>(layer.picks);
  Kernel kernel;
  kernel.name = kernel.stage = "gemm2";
  const auto add_class = [&](std::int64_t picks_of_item, std::int64_t items) {
    ItemClass item = gemv_item(device, layer.weights, shape, shape.block_n, layer.intermediate, picks_of_item, bytes,
                               first_share, written);
    item.first_share = first_share;
    item.useful_flops = 2 * static_cast<double>(layer.expert_hidden() * layer.intermediate * picks_of_item) /
                        static_cast<double>(blocks);
    kernel.classes.push_back(item);
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(kernel.classes.size() - 1);
    group.count = items;
    // Each class streams its own share of the experts' rows: a region of its own.
    const double share = static_cast<double>(items * picks_of_item) / static_cast<double>(layer.picks * blocks);
    const double distinct = layer.down_bytes().as_double() * static_cast<double>(layer.active);
    group.region = chain.region("down", Bytes(std::llround(distinct * share)));
    kernel.groups.push_back(group);
  };
  if (per_token) {
    // Tokens with equally many local picks are alike (one class without expert parallelism).
    std::vector<std::int64_t> tokens_with(static_cast<std::size_t>(layer.topk + 1), 0);
    for (const std::int64_t picks : layer.token_picks) ++tokens_with[static_cast<std::size_t>(picks)];
    for (std::int64_t picks = layer.topk; picks > 0; --picks) {
      const std::int64_t tokens = tokens_with[static_cast<std::size_t>(picks)];
      if (tokens > 0) add_class(picks, tokens * blocks);
    }
  } else {
    add_class(1, layer.picks * blocks);
  }
  label_experts(kernel, layer, LabelOrder::kInterleaved);
  chain.add(std::move(kernel), shape.launch);
}

Lowered lower(const LowerRequest& request) {
  if (parameter(request, "persistent", 0) != 0) return lower_persistent_stream(request);
  const MoeLayer& layer = request.layer;
  const bool wide = payload_bits(layer.weights) >= 16;
  const GemvShape up = shape_of(
      request, "up",
      wide ? GemvShape{2, 1024, 1, {32, 236, 0}, kUpCode} : GemvShape{8, 128, 1, {32, 123, 0}, kUpConvertCode});
  const GemvShape down = shape_of(
      request, "down",
      wide ? GemvShape{4, 1024, 2, {64, 125, 32}, kDownCode} : GemvShape{8, 128, 1, {32, 72, 128}, kDownConvertCode});
  const bool per_token = parameter(request, "down.per_token", wide ? 1 : 0) != 0;
  Chain chain(request);
  add_before_experts(chain, request, false, 1);
  if (layer.picks > 0) {
    add_up(chain, request, up);
    add_down(chain, request, down, per_token);
  }
  if (!per_token) add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kStreamGemv = {
    "stream_gemv",
    "each item streams weight rows of one pick straight to registers; no copy, no padding",
    "warp decode, gather fused into GEMV",
    kParameters,
    Grid::kParallel,
    lower};

}  // namespace moesim
