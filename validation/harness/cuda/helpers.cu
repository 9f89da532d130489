// The small kernels between the products, random data, and the reference (float64 sums) that every kernel is checked
// with.
#include <cuda_fp8.h>

#include <algorithm>

#include "device_math.cuh"
#include "kernels.cuh"

namespace harness {
namespace {

__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

__global__ void permute_kernel(const __nv_bfloat16* x, __nv_bfloat16* sorted, const int* picks, int topk, int hidden) {
  const uint4* source = reinterpret_cast<const uint4*>(x + static_cast<long long>(picks[blockIdx.x] / topk) * hidden);
  uint4* target = reinterpret_cast<uint4*>(sorted + static_cast<long long>(blockIdx.x) * hidden);
  for (int i = threadIdx.x; i < hidden / 8; i += blockDim.x) target[i] = source[i];
}

__global__ void activate_kernel(const __nv_bfloat16* gate_up, __nv_bfloat16* h, int intermediate) {
  const long long row = blockIdx.x;
  const int i = (blockIdx.y * blockDim.x + threadIdx.x) * 2;
  if (i >= intermediate) return;
  const auto* source = gate_up + row * 2 * intermediate + i;
  const float2 gate = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(source));
  const float2 up = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(source + intermediate));
  *reinterpret_cast<__nv_bfloat162*>(h + row * intermediate + i) =
      __floats2bfloat162_rn(silu(gate.x) * up.x, silu(gate.y) * up.y);
}

__global__ void combine_kernel(const __nv_bfloat16* y, __nv_bfloat16* out, const int* position,
                               const float* pick_weights, int topk, int hidden) {
  const int token = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * 2;
  if (i >= hidden) return;
  float2 sum = make_float2(0, 0);
  for (int slot = 0; slot < topk; ++slot) {
    const int pick = token * topk + slot;
    const float2 v = __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(y + static_cast<long long>(position[pick]) * hidden + i));
    const float w = pick_weights[pick];
    sum.x += v.x * w;
    sum.y += v.y * w;
  }
  *reinterpret_cast<__nv_bfloat162*>(out + static_cast<long long>(token) * hidden + i) =
      __floats2bfloat162_rn(sum.x, sum.y);
}

__global__ void combine_float_kernel(const float* y, __nv_bfloat16* out, int topk, int hidden) {
  const int token = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * 2;
  if (i >= hidden) return;
  float2 sum = make_float2(0, 0);
  for (int slot = 0; slot < topk; ++slot) {
    const float2 v = *reinterpret_cast<const float2*>(y + static_cast<long long>(token * topk + slot) * hidden + i);
    sum.x += v.x;
    sum.y += v.y;
  }
  *reinterpret_cast<__nv_bfloat162*>(out + static_cast<long long>(token) * hidden + i) =
      __floats2bfloat162_rn(sum.x, sum.y);
}

// One CTA copies 64 KiB of one pick's matrix.
constexpr int kGatherThreads = 256, kGatherLoads = 8;
__global__ void gather_kernel(const uint4* weights, uint4* copies, const int* picks, const int* expert_of_pick,
                              long long vectors) {
  const uint4* source = weights + expert_of_pick[picks[blockIdx.y]] * vectors;
  uint4* target = copies + static_cast<long long>(blockIdx.y) * vectors;
  const long long first = static_cast<long long>(blockIdx.x) * kGatherThreads * kGatherLoads * 2 + threadIdx.x;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    uint4 v[kGatherLoads];
#pragma unroll
    for (int i = 0; i < kGatherLoads; ++i) {
      const long long at = first + (part * kGatherLoads + i) * kGatherThreads;
      if (at < vectors) v[i] = load_streaming(source + at);
    }
#pragma unroll
    for (int i = 0; i < kGatherLoads; ++i) {
      const long long at = first + (part * kGatherLoads + i) * kGatherThreads;
      if (at < vectors) target[at] = v[i];
    }
  }
}

__device__ __forceinline__ std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
__global__ void fill_bf16_kernel(__nv_bfloat162* p, long long pairs, float scale, std::uint64_t seed) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < pairs;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const std::uint64_t r = mix(seed ^ static_cast<std::uint64_t>(i));
    const float a = (static_cast<float>(r & 0xffffff) / 8388608.0f - 1.0f) * scale;
    const float b = (static_cast<float>((r >> 32) & 0xffffff) / 8388608.0f - 1.0f) * scale;
    p[i] = __floats2bfloat162_rn(a, b);
  }
}
// Random e4m3 of exponents 0 to 13 (up to 224), any sign: 0x00-0x6f.
__global__ void fill_e4m3_kernel(std::uint64_t* p, long long words, std::uint64_t seed) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < words;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    std::uint64_t r = mix(seed ^ static_cast<std::uint64_t>(i)), out = 0;
    for (int b = 0; b < 8; ++b, r >>= 8) {
      const std::uint64_t byte = r & 0xff;
      const std::uint64_t magnitude = (byte & 0x7f) % 0x70;
      out |= (magnitude | (byte & 0x80)) << (8 * b);
    }
    p[i] = out;
  }
}
__global__ void fill_scale_kernel(float* p, long long count, float scale, std::uint64_t seed) {
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<long long>(gridDim.x) * blockDim.x)
    p[i] = scale * (0.5f + static_cast<float>(mix(seed ^ static_cast<std::uint64_t>(i)) & 0xffff) / 65536.0f);
}

template <bool kFp8>
__device__ double dot(const std::uint8_t* row, const float* scale, const __nv_bfloat16* x, const float* xf, int k,
                      int lane) {
  double sum = 0;
  for (int i = lane; i < k; i += 32) {
    double w;
    if constexpr (kFp8) {
      __nv_fp8_e4m3 v;
      v.__x = row[i];
      w = static_cast<double>(static_cast<float>(v)) * scale[i / 128];
    } else {
      w = to_float(reinterpret_cast<const __nv_bfloat16*>(row)[i]);
    }
    sum += w * static_cast<double>(x ? to_float(x[i]) : xf[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  return sum;
}
template <bool kFp8>
__global__ void reference_up(Layer layer, Shape s, const int* expert_of_pick, const __nv_bfloat16* x, float* h) {
  const int lane = threadIdx.x & 31, i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, pick = blockIdx.y;
  if (i >= s.intermediate) return;
  const long long bytes = kFp8 ? s.hidden : 2LL * s.hidden;
  const long long expert = expert_of_pick[pick];
  const long long gate = expert * 2 * s.intermediate + i, up = gate + s.intermediate;
  const auto scale_of = [&](int row) {
    return kFp8 ? layer.up_scale + (expert * (2 * s.intermediate / 128) + row / 128) * (s.hidden / 128) : nullptr;
  };
  const __nv_bfloat16* xr = x + static_cast<long long>(pick / s.topk) * s.hidden;
  const double g = dot<kFp8>(layer.up + gate * bytes, scale_of(i), xr, nullptr, s.hidden, lane);
  const double u = dot<kFp8>(layer.up + up * bytes, scale_of(s.intermediate + i), xr, nullptr, s.hidden, lane);
  if (lane == 0) h[static_cast<long long>(pick) * s.intermediate + i] = static_cast<float>(g / (1.0 + exp(-g)) * u);
}
template <bool kFp8>
__global__ void reference_down(Layer layer, Shape s, const int* expert_of_pick, const float* pick_weights,
                               const float* h, float* out) {
  const int lane = threadIdx.x & 31, i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, token = blockIdx.y;
  if (i >= s.hidden) return;
  const long long bytes = kFp8 ? s.intermediate : 2LL * s.intermediate;
  double sum = 0;
  for (int slot = 0; slot < s.topk; ++slot) {
    const int pick = token * s.topk + slot;
    const long long expert = expert_of_pick[pick];
    const float* scale =
        kFp8 ? layer.down_scale + (expert * (s.hidden / 128) + i / 128) * (s.intermediate / 128) : nullptr;
    sum += pick_weights[pick] * dot<kFp8>(layer.down + (expert * s.hidden + i) * bytes, scale, nullptr,
                                          h + static_cast<long long>(pick) * s.intermediate, s.intermediate, lane);
  }
  if (lane == 0) out[static_cast<long long>(token) * s.hidden + i] = static_cast<float>(sum);
}

unsigned divide_up(long long a, long long b) { return static_cast<unsigned>((a + b - 1) / b); }
constexpr int kThreads = 128;

}  // namespace

void permute(cudaStream_t stream, const Shape& shape, const Routing& routing, const __nv_bfloat16* x,
             __nv_bfloat16* sorted) {
  permute_kernel<<<static_cast<unsigned>(routing.picks_count()), 256, 0, stream>>>(x, sorted, routing.picks,
                                                                                   routing.topk, shape.hidden);
}
void activate(cudaStream_t stream, int rows, int intermediate, const __nv_bfloat16* gate_up, __nv_bfloat16* h) {
  activate_kernel<<<dim3(static_cast<unsigned>(rows), divide_up(intermediate, 2 * kThreads)), kThreads, 0, stream>>>(
      gate_up, h, intermediate);
}
void combine(cudaStream_t stream, const Shape& shape, const Routing& routing, const __nv_bfloat16* y,
             __nv_bfloat16* out) {
  combine_kernel<<<dim3(static_cast<unsigned>(routing.tokens), divide_up(shape.hidden, 2 * kThreads)), kThreads, 0,
                   stream>>>(y, out, routing.position, routing.pick_weights, routing.topk, shape.hidden);
}
void combine_float(cudaStream_t stream, const Shape& shape, const Routing& routing, const float* y,
                   __nv_bfloat16* out) {
  combine_float_kernel<<<dim3(static_cast<unsigned>(routing.tokens), divide_up(shape.hidden, 2 * kThreads)), kThreads,
                         0, stream>>>(y, out, routing.topk, shape.hidden);
}
void gather_weights(cudaStream_t stream, const Routing& routing, const std::uint8_t* weights, std::int64_t bytes,
                    std::uint8_t* copies) {
  const long long vectors = bytes / 16;
  gather_kernel<<<dim3(divide_up(vectors, kGatherThreads * kGatherLoads * 2),
                       static_cast<unsigned>(routing.picks_count())),
                  kGatherThreads, 0, stream>>>(reinterpret_cast<const uint4*>(weights),
                                               reinterpret_cast<uint4*>(copies), routing.picks, routing.expert_of_pick,
                                               vectors);
}
void fill_bf16(cudaStream_t stream, __nv_bfloat16* p, std::int64_t count, float scale, std::uint64_t seed) {
  fill_bf16_kernel<<<2048, 256, 0, stream>>>(reinterpret_cast<__nv_bfloat162*>(p), count / 2, scale, seed);
  CUDA_CHECK(cudaGetLastError());
}
void fill_e4m3(cudaStream_t stream, std::uint8_t* p, std::int64_t count, std::uint64_t seed) {
  fill_e4m3_kernel<<<2048, 256, 0, stream>>>(reinterpret_cast<std::uint64_t*>(p), count / 8, seed);
  CUDA_CHECK(cudaGetLastError());
}
void fill_scale(cudaStream_t stream, float* p, std::int64_t count, float scale, std::uint64_t seed) {
  fill_scale_kernel<<<512, 256, 0, stream>>>(p, count, scale, seed);
  CUDA_CHECK(cudaGetLastError());
}
void reference_ffn(cudaStream_t stream, const Shape& shape, const Layer& layer, const Routing& routing,
                   const Buffers& buffers) {
  const dim3 up(divide_up(shape.intermediate, 8), static_cast<unsigned>(routing.picks_count()));
  const dim3 down(divide_up(shape.hidden, 8), static_cast<unsigned>(routing.tokens));
  Shape s = shape;
  s.topk = routing.topk;
  if (layer.weights == Weights::kFp8Block128) {
    reference_up<true><<<up, 256, 0, stream>>>(layer, s, routing.expert_of_pick, buffers.x, buffers.reference_h);
    reference_down<true><<<down, 256, 0, stream>>>(layer, s, routing.expert_of_pick, routing.pick_weights,
                                                   buffers.reference_h, buffers.reference_out);
  } else {
    reference_up<false><<<up, 256, 0, stream>>>(layer, s, routing.expert_of_pick, buffers.x, buffers.reference_h);
    reference_down<false><<<down, 256, 0, stream>>>(layer, s, routing.expert_of_pick, routing.pick_weights,
                                                    buffers.reference_h, buffers.reference_out);
  }
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace harness
