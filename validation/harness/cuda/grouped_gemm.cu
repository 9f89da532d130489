// grouped_gemm, implementation "cuda-grouped": rows padded to a tile of kM per expert, one CTA per (row block, N
// block), N fastest; m16n8k16 matrix instructions fed by ldmatrix from a cp.async ring of kStages buffers of 64 K
// columns. Bytes in flight of an SM: (kStages - 1) * (kM + kN) * 128 per CTA, 2-4 CTAs. Rows of a shared-memory tile
// are 128 bytes, their 16-byte chunks exchanged by row (chunk ^ row % 8): no bank conflicts for ldmatrix.
#include <algorithm>

#include "device_math.cuh"
#include "kernels.cuh"

namespace harness {
namespace {

struct GroupedArguments {
  const __nv_bfloat16* weights;  // [experts][n][k]
  const __nv_bfloat16* input;
  __nv_bfloat16* output;
  const int4* groups;  // {expert, first pick, rows, -}
  const int* picks;
  int n, k, topk, n_blocks;
  bool gather;  // input rows are tokens
};

__device__ __forceinline__ void ldmatrix4(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

template <int kM, int kN, int kWarpsM, int kWarpsN, int kStages>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32) grouped_gemm_kernel(const GroupedArguments p) {
  constexpr int kThreads = kWarpsM * kWarpsN * 32;
  constexpr int kStageBytes = (kM + kN) * 128;
  constexpr int kTilesM = kM / kWarpsM / 16, kTilesN = kN / kWarpsN / 8;
  static_assert(kTilesN % 2 == 0);
  extern __shared__ __align__(128) std::uint8_t shared[];
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int warp_m = warp / kWarpsN, warp_n = warp % kWarpsN;
  const int4 group = p.groups[blockIdx.x / p.n_blocks];
  const int n0 = static_cast<int>(blockIdx.x % p.n_blocks) * kN;
  const std::uint32_t base = shared_address(shared);
  const __nv_bfloat16* const weights = p.weights + (static_cast<long long>(group.x) * p.n + n0) * p.k;

  // Each thread copies chunk `thread % 8` of rows thread / 8, + kThreads / 8, …
  const int chunk = thread & 7;
  constexpr int kRowStep = kThreads / 8;
  constexpr int kRowsA = (kM + kRowStep - 1) / kRowStep, kRowsB = kN / kRowStep;
  const __nv_bfloat16* source_a[kRowsA];
  bool valid_a[kRowsA];
#pragma unroll
  for (int i = 0; i < kRowsA; ++i) {
    const int row = thread / 8 + i * kRowStep;
    valid_a[i] = row < group.z;
    const int pick = valid_a[i] ? p.picks[group.y + row] : 0;
    const int source = p.gather ? pick / p.topk : (valid_a[i] ? group.y + row : 0);
    source_a[i] = p.input + static_cast<long long>(source) * p.k + chunk * 8;
  }
  const int k_steps = (p.k + 63) / 64;
  const auto copy = [&](int stage, int step) {
    const int column = step * 64 + chunk * 8;
    const bool in_k = column < p.k;
    const std::uint32_t a = base + stage * kStageBytes, b = a + kM * 128;
#pragma unroll
    for (int i = 0; i < kRowsA; ++i) {
      const int row = thread / 8 + i * kRowStep;
      if (kM % kRowStep == 0 || row < kM)
        copy_async16(a + row * 128 + ((chunk ^ (row & 7)) << 4), valid_a[i] && in_k ? source_a[i] + step * 64 : p.input,
                     valid_a[i] && in_k);
    }
#pragma unroll
    for (int i = 0; i < kRowsB; ++i) {
      const int row = thread / 8 + i * kRowStep;
      const bool valid = in_k && n0 + row < p.n;
      copy_async16(b + row * 128 + ((chunk ^ (row & 7)) << 4),
                   valid ? weights + static_cast<long long>(row) * p.k + column : p.weights, valid);
    }
  };

#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < k_steps) copy(s, s);
    copy_async_commit();
  }
  float sum[kTilesM][kTilesN][4] = {};
  for (int step = 0; step < k_steps; ++step) {
    copy_async_wait<kStages - 2>();
    __syncthreads();
    const int ahead = step + kStages - 1;
    if (ahead < k_steps) copy(ahead % kStages, ahead);
    copy_async_commit();
    const std::uint32_t a = base + (step % kStages) * kStageBytes, b = a + kM * 128;
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      std::uint32_t fa[kTilesM][4], fb[kTilesN / 2][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        const int row = warp_m * (kM / kWarpsM) + i * 16 + (lane & 15);
        ldmatrix4(fa[i], a + row * 128 + (((kk * 2 + (lane >> 4)) ^ (row & 7)) << 4));
      }
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) {
        const int row = warp_n * (kN / kWarpsN) + j * 16 + (lane & 7) + ((lane >> 4) << 3);
        ldmatrix4(fb[j], b + row * 128 + (((kk * 2 + ((lane >> 3) & 1)) ^ (row & 7)) << 4));
      }
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
          mma_bf16(sum[i][j], fa[i][0], fa[i][1], fa[i][2], fa[i][3], fb[j / 2][(j & 1) * 2],
                   fb[j / 2][(j & 1) * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < kTilesM; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_m * (kM / kWarpsM) + i * 16 + (lane >> 2) + half * 8;
      if (row >= group.z) continue;
      __nv_bfloat16* const out = p.output + static_cast<long long>(group.y + row) * p.n;
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        const int column = n0 + warp_n * (kN / kWarpsN) + j * 8 + (lane & 3) * 2;
        if (column < p.n)
          *reinterpret_cast<__nv_bfloat162*>(out + column) =
              __floats2bfloat162_rn(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
      }
    }
}

template <int kM, int kN, int kWarpsM, int kWarpsN, int kStages>
void start(cudaStream_t stream, const GroupedArguments& arguments, int blocks) {
  constexpr int kBytes = (kM + kN) * 128 * kStages;
  auto* const kernel = grouped_gemm_kernel<kM, kN, kWarpsM, kWarpsN, kStages>;
  static const bool once = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    return true;
  }();
  (void)once;
  launch(kernel, dim3(static_cast<unsigned>(blocks * arguments.n_blocks)), dim3(kWarpsM * kWarpsN * 32), kBytes, stream,
         false, arguments);
}

}  // namespace

const std::vector<GroupedTile>& grouped_tiles() {
  static const std::vector<GroupedTile> tiles = {
      {16, 64, 64, 4, 6}, {32, 128, 64, 4, 4}, {64, 128, 64, 4, 4}, {128, 128, 64, 8, 4}};
  return tiles;
}

GroupedTile choose_tile(const Routing& routing) {
  const double rows = static_cast<double>(routing.picks_count()) / routing.active;
  return grouped_tiles()[rows <= 16 ? 0 : rows <= 48 ? 1 : rows <= 96 ? 2 : 3];
}

void grouped_gemm(cudaStream_t stream, const GroupedTile& tile, const Layer& layer, bool up, const Shape& shape,
                  const Routing& routing, const __nv_bfloat16* input, __nv_bfloat16* output) {
  const Routing::Groups& groups = routing.of(tile.m);
  GroupedArguments a{};
  a.weights = reinterpret_cast<const __nv_bfloat16*>(up ? layer.up : layer.down);
  a.input = input;
  a.output = output;
  a.groups = groups.groups;
  a.picks = routing.picks;
  a.n = up ? 2 * shape.intermediate : shape.hidden;
  a.k = up ? shape.hidden : shape.intermediate;
  a.topk = routing.topk;
  a.n_blocks = (a.n + tile.n - 1) / tile.n;
  a.gather = up;
  switch (tile.m) {
    case 16:
      return start<16, 64, 1, 4, 6>(stream, a, groups.count);
    case 32:
      return start<32, 128, 1, 4, 4>(stream, a, groups.count);
    case 64:
      return start<64, 128, 2, 2, 4>(stream, a, groups.count);
    case 128:
      return start<128, 128, 2, 4, 4>(stream, a, groups.count);
  }
}

}  // namespace harness
