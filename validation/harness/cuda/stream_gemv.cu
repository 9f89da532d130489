#include <algorithm>
#include <cmath>

#include "kernels.cuh"
#include "stream_gemv.cuh"

namespace harness {

std::string GemvVariant::str() const {
  return "stages " + std::to_string(stages) + ", warps " + std::to_string(warps) + (interleave ? ", interleaved" : "");
}

const std::vector<GemvVariant>& gemv_variants() {
  static const std::vector<GemvVariant> all = {{2, 16, false}, {2, 16, true}, {2, 12, true}, {3, 12, true}};
  return all;
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
  a.interleave = plan.variant.interleave;

  constexpr int kMostHalf = 14 << 10, kMostX = 32 << 10, kMostY = 16 << 10;
  int half = kMostHalf;
  for (StreamPhase& phase : a.phase) {
    phase.row_bytes = phase.k * bytes_each;
    phase.steps = (phase.row_bytes + kPieceBytes - 1) / kPieceBytes;
    half = std::max(half, phase.steps * a.most * kTileRows * 4);
  }
  int used = 0;
  const int tiles[2] = {(groups.count * (shape.intermediate / 4) + ctas - 1) / ctas,
                        (shape.hidden / kTileRows + ctas - 1) / ctas * groups.count};
  for (int i = 0; i < 2; ++i) {
    const int tile_bytes = a.phase[i].steps * a.most * kTileRows * 4;
    a.phase[i].batch = std::clamp(half / tile_bytes, 1, std::max(1, tiles[i]));
    if (a.phase[i].run) used = std::max(used, a.phase[i].batch * tile_bytes);
  }
  a.half = used / 4;
  const int up_tiles = groups.count * (shape.intermediate / 4), down_blocks = shape.hidden / kTileRows;
  a.up_share = up_tiles / ctas, a.up_share_rest = up_tiles % ctas;
  a.block_share = down_blocks / ctas, a.block_share_rest = down_blocks % ctas;
  const auto inverse = [](int d) { return d == 1 ? 0u : static_cast<unsigned>(((1ull << 32) + d - 1) / d); };
  a.group_count_inverse = inverse(groups.count);
  a.topk_inverse = inverse(routing.topk);
  a.up_tiles_inverse = inverse(shape.intermediate / 4);
  for (StreamPhase& phase : a.phase) phase.steps_inverse = inverse(phase.steps);
  if (up && routing.tokens * shape.hidden * 2 <= kMostX) a.x_elements = routing.tokens * shape.hidden;
  const int h_bytes = a.pick_count * shape.intermediate * 2;
  if (down && h_bytes <= kMostX) a.h_vectors = h_bytes / 16;
  const int y_rows = (shape.hidden / kTileRows + ctas - 1) / ctas * kTileRows;
  if (fuse_combine && a.pick_count * y_rows * 4 <= kMostY) a.y_rows = y_rows;
  const auto padded = [](int bytes) { return (bytes + 15) / 16 * 16; };
  const int fixed = padded(groups.count * 16) + padded(a.half * 8) + 3 * padded(a.pick_count * 4) +
                    padded(std::max(a.x_elements * 2, a.h_vectors * 16)) + padded(a.pick_count * a.y_rows * 4) + 256;
  const int room = static_cast<int>(device.properties().sharedMemPerBlockOptin) - fixed;
  const int warps = plan.variant.warps;
  a.stages = std::clamp(room / (warps * (kStageBytes + 16)), 1, plan.variant.stages);
  const int shared = fixed + warps * a.stages * (kStageBytes + 16);

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
