#include <algorithm>
#include <cmath>

#include "kernels.cuh"
#include "stream_gemv.cuh"

namespace harness {

std::string GemvVariant::str() const {
  return "stages " + std::to_string(stages) + ", warps " + std::to_string(warps) + (interleave ? ", interleaved" : "");
}

const std::vector<GemvVariant>& gemv_variants(Weights weights) {
  static const std::vector<GemvVariant> bf16 = {{2, 16, true}, {2, 12, true}};
  static const std::vector<GemvVariant> fp8 = {{2, 12, true}, {3, 12, true}};
  return weights == Weights::kBf16 ? bf16 : fp8;
}

GemvPlan plan_gemv(const Routing& routing, GemvVariant variant) { return {routing.most_rows() > 8 ? 16 : 8, variant}; }

namespace {
void start(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer, const Routing& routing,
           const Routing::Groups& groups, const GemvPlan& plan, const Buffers& buffers, bool up, bool down,
           bool fuse_combine, bool programmatic) {
  const bool fp8 = layer.weights == Weights::kFp8Block128;
  const int ctas = device.sms(), bytes_each = fp8 ? 1 : 2;
  StreamArguments a{};
  for (int i = 0; i < 2; ++i) {
    StreamPhase& phase = a.phase[i];
    phase.weights = i == 0 ? layer.up : layer.down;
    phase.scales = i == 0 ? layer.up_scale : layer.down_scale;
    phase.x = i == 0 ? buffers.x : buffers.h;
    phase.n = i == 0 ? shape.intermediate : shape.hidden;
    phase.k = i == 0 ? shape.hidden : shape.intermediate;
  }
  a.phase[0].run = up;
  a.phase[1].run = down;
  a.groups = groups.groups;
  a.picks = routing.picks;
  a.pick_weights = routing.pick_weights;
  a.h = buffers.h;
  a.y = buffers.y_float;
  a.out = buffers.out;
  a.arrivals = reinterpret_cast<unsigned*>(buffers.counters);
  a.group_count = groups.count;
  a.pick_count = routing.picks_count();
  a.tokens = routing.tokens;
  a.topk = routing.topk;
  a.most = std::min({plan.rows, routing.most_rows(), std::max(1, groups.rows)});
  a.fuse_combine = fuse_combine;
  a.early = !programmatic;
  a.interleave = plan.variant.interleave;

  const int up_tiles = groups.count * (shape.intermediate / 4), down_blocks = shape.hidden / kTileRows;
  a.up_share = up_tiles / ctas, a.up_share_rest = up_tiles % ctas;
  a.block_share = down_blocks / ctas, a.block_share_rest = down_blocks % ctas;
  const auto inverse = [](int d) { return d == 1 ? 0u : static_cast<unsigned>(((1ull << 32) + d - 1) / d); };
  a.group_count_inverse = inverse(groups.count);
  a.topk_inverse = inverse(routing.topk);
  a.up_tiles_inverse = inverse(shape.intermediate / 4);
  for (StreamPhase& phase : a.phase) {
    phase.row_bytes = phase.k * bytes_each;
    phase.steps = (phase.row_bytes + kPieceBytes - 1) / kPieceBytes;
    phase.steps_inverse = inverse(phase.steps);
  }

  // Shared memory: the routing, the ring and sums of a tile at least; x (or h) and y where they fit. What is left is for
  // more sums, so that barriers are few; but where x or h is read from memory, for the L1 cache.
  constexpr int kLeastHalf = 14 << 10, kMostY = 16 << 10;
  const auto padded = [](int bytes) { return (bytes + 15) / 16 * 16; };
  const int y_rows = (shape.hidden / kTileRows + ctas - 1) / ctas * kTileRows;
  if (fuse_combine && a.pick_count * y_rows * 4 <= kMostY) a.y_rows = y_rows;
  const int warps = plan.variant.warps;
  const int stage_bytes = kStageBytes + kTagBytes + (fp8 ? kScaleBytes : 0);
  const int ring = warps * plan.variant.stages * stage_bytes;
  int half = kLeastHalf;
  for (const StreamPhase& phase : a.phase) half = std::max(half, phase.steps * a.most * kTileRows * 4);
  int fixed = padded(groups.count * 16) + 3 * padded(a.pick_count * 4) + padded(a.pick_count * a.y_rows * 4) + 256;
  int room = static_cast<int>(device.properties().sharedMemPerBlockOptin) - fixed - ring - 2 * half;
  const int x_bytes = up ? routing.tokens * shape.hidden * 2 : 0;
  const int h_bytes = down ? a.pick_count * shape.intermediate * 2 : 0;
  if (x_bytes <= room) a.x_elements = x_bytes / 2;
  if (h_bytes <= room) a.h_vectors = h_bytes / 16;
  const int inputs = padded(std::max(a.x_elements * 2, a.h_vectors * 16));
  fixed += inputs, room -= inputs;
  if (x_bytes == a.x_elements * 2 && h_bytes == a.h_vectors * 16) half += std::max(0, room / 2);
  const int tiles[2] = {a.up_share + 1, (a.block_share + 1) * groups.count};
  for (int i = 0; i < 2; ++i) {
    StreamPhase& phase = a.phase[i];
    const int tile_bytes = phase.steps * a.most * kTileRows * 4;
    phase.batch = std::clamp(half / tile_bytes, 1, tiles[i]);
    if (phase.run) a.half = std::max(a.half, phase.batch * tile_bytes / 4);
  }
  const int left = static_cast<int>(device.properties().sharedMemPerBlockOptin) - fixed - a.half * 8;
  a.stages = std::clamp(left / (warps * stage_bytes), 1, plan.variant.stages);
  const int shared = fixed + a.half * 8 + warps * a.stages * stage_bytes;

  auto* const kernel = fp8 ? stream_gemv<true> : stream_gemv<false>;
  static bool prepared[2] = {};
  if (!prepared[fp8]) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(device.properties().sharedMemPerBlockOptin)));
    prepared[fp8] = true;
  }
  launch(kernel, dim3(static_cast<unsigned>(ctas)), dim3(static_cast<unsigned>(warps * 32)),
         static_cast<std::size_t>(shared), stream, programmatic, a);
}
}  // namespace

void stream_block(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
                  const Routing& routing, const GemvPlan& plan, const Buffers& buffers) {
  start(stream, device, shape, layer, routing, routing.of(plan.rows), plan, buffers, true, true, true, false);
}

void stream_up(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
               const Routing& routing, const Routing::Groups& groups, const GemvPlan& plan, const Buffers& buffers,
               bool programmatic) {
  start(stream, device, shape, layer, routing, groups, plan, buffers, true, false, false, programmatic);
}

void stream_down(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
                 const Routing& routing, const Routing::Groups& groups, const GemvPlan& plan, const Buffers& buffers,
                 bool fuse_combine, bool programmatic) {
  start(stream, device, shape, layer, routing, groups, plan, buffers, false, true, fuse_combine, programmatic);
}

}  // namespace harness
