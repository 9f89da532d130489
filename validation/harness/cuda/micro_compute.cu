// Microbenchmarks of the SM: matrix rate by tile and dependent latency, conversions, barrier, shared memory; dense
// products through cuBLAS, sustained clock under load.
#include <algorithm>
#include <chrono>

#include "device_math.cuh"
#include "micro.cuh"
#include "wgmma.cuh"

namespace harness {
namespace {

enum class Mma { kBf16, kE4m3 };

// kChains independent accumulators a warp; operands are registers that never change.
template <Mma kKind, int kChains>
__global__ void mma_kernel(int rounds, float* sink) {
  float d[kChains][4] = {};
  const std::uint32_t a = 0x3c003c00u + threadIdx.x, b = 0x38383838u ^ threadIdx.x;
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      if constexpr (kKind == Mma::kBf16)
        mma_bf16(d[c], a, b, a, b, a, b);
      else
        mma_e4m3(d[c], a & 0x3f3f3f3f, b & 0x3f3f3f3f, a & 0x3f3f3f3f, b & 0x3f3f3f3f, a & 0x3f3f3f3f, b & 0x3f3f3f3f);
    }
  float all = 0;
  for (int c = 0; c < kChains; ++c) all += d[c][0] + d[c][1] + d[c][2] + d[c][3];
  if (all == 1.2345f) *sink = all;
}

constexpr int kUnrolled = 8;  // instructions between waits
template <int kN, bool kFp8>
__global__ void __launch_bounds__(256) wgmma_kernel(int rounds, float* sink) {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  for (int i = threadIdx.x; i < 65536 / 4; i += blockDim.x)
    reinterpret_cast<std::uint32_t*>(shared)[i] = 0x38003800u + (i & 0x03ff);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t a = wgmma_descriptor(shared_address(shared)),
                      b = wgmma_descriptor(shared_address(shared) + 32768);
  float d[kN / 2] = {};
  for (int r = 0; r < rounds; ++r) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kUnrolled; ++i) Wgmma<kN, kFp8>::run(d, a, b);
    wgmma_commit();
    wgmma_wait<0>();
  }
  float all = 0;
  for (int i = 0; i < kN / 2; ++i) all += d[i];
  if (all == 1.2345f) *sink = all;
}

enum class Convert { kE4m3ToF16, kE4m3Shift, kF16ToF32, kBf16ToF32, kE4m3ToF32 };
constexpr int kConvertChains = 8;
// Results feed the next conversion, eight chains a thread.
template <Convert kKind>
__global__ void convert_kernel(int rounds, std::uint32_t* sink) {
  std::uint32_t v[kConvertChains];
  for (int c = 0; c < kConvertChains; ++c) v[c] = (threadIdx.x * 0x01010101u + c * 0x11111111u) & 0x7e7e7e7eu;
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int c = 0; c < kConvertChains; ++c) {
      if constexpr (kKind == Convert::kE4m3ToF16) {
        v[c] = e4m3x2_to_f16x2(v[c]);
      } else if constexpr (kKind == Convert::kE4m3Shift) {
        v[c] = e4m3_even_shifted(v[c]) ^ e4m3_odd_shifted(v[c]);
      } else if constexpr (kKind == Convert::kF16ToF32) {
        float f;
        asm volatile("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo; }" : "=f"(f) : "r"(v[c]));
        v[c] = __float_as_uint(f);
      } else if constexpr (kKind == Convert::kBf16ToF32) {
        asm volatile("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %0; cvt.f32.bf16 %0, hi; }" : "+r"(v[c]));
      } else {
        const std::uint32_t h = e4m3x2_to_f16x2(v[c]);
        const __half2 pair = *reinterpret_cast<const __half2*>(&h);
        v[c] = __float_as_uint(__low2float(pair)) ^ __float_as_uint(__high2float(pair));
      }
    }
  std::uint32_t all = 0;
  for (int c = 0; c < kConvertChains; ++c) all ^= v[c];
  if (all == 0x9e3779b9u) *sink = all;
}

__global__ void barrier_kernel(int rounds) {
  for (int r = 0; r < rounds; ++r) __syncthreads();
}
__global__ void shared_chase_kernel(int hops, std::uint32_t* sink) {
  __shared__ std::uint32_t next[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) next[i] = (i * 5 + 33) & 1023;
  __syncthreads();
  std::uint32_t at = threadIdx.x;
  for (int i = 0; i < hops; ++i) at = next[at];
  if (at == 0x9e3779b9u) *sink = at;
}
__global__ void atomic_kernel(int rounds, int* counters) {
  int at = blockIdx.x;
  for (int r = 0; r < rounds; ++r) at += atomicAdd(counters + (at & 1023) * 32, 0) & 1;
  if (at == -1) *counters = at;
}

template <int kN, bool kFp8>
void wgmma_row(const Device& device, Timer& timer, const TimingOptions& timing, Report& report, float* sink,
               int warpgroups) {
  constexpr int kRounds = 1000;
  CUDA_CHECK(cudaFuncSetAttribute(wgmma_kernel<kN, kFp8>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  const unsigned sms = static_cast<unsigned>(device.sms()), threads = static_cast<unsigned>(warpgroups * 128);
  const Timing t = timer.run(
      {"", [=](cudaStream_t st, int) { wgmma_kernel<kN, kFp8><<<sms, threads, 65536, st>>>(kRounds, sink); }}, timing);
  const int k = kFp8 ? 32 : 16;
  const double flops = 2.0 * 64 * kN * k * kUnrolled * kRounds * warpgroups * device.sms();
  report.micro("wgmma_rate",
               Json()
                   .text("dtype", kFp8 ? "e4m3" : "bf16")
                   .integer("m", 64)
                   .integer("n", kN)
                   .integer("k", k)
                   .integer("instructions", kUnrolled * kRounds)
                   .integer("warpgroups", warpgroups)
                   .integer("ctas", device.sms())
                   .text("operands", "shared")
                   .number("tflops", flops / t.us / 1e6, 1),
               t);
}

}  // namespace

void run_micro_compute(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report) {
  TimingOptions timing;
  timing.samples = 7;
  timing.long_us = 1500;  // short: the clock should not fall under the power cap
  void* scratch = nullptr;
  CUDA_CHECK(cudaMalloc(&scratch, 1 << 20));
  CUDA_CHECK(cudaMemset(scratch, 0, 1 << 20));
  auto* const sink = static_cast<float*>(scratch);
  auto* const words = static_cast<std::uint32_t*>(scratch);
  const unsigned sms = static_cast<unsigned>(device.sms());

  constexpr int kRounds = 1000;
  const auto mma_row = [&](const char* benchmark, auto* kernel, bool fp8, int chains, unsigned ctas, int warps) {
    const Timing t = timer.run(
        {"", [=](cudaStream_t st, int) { kernel<<<ctas, static_cast<unsigned>(warps * 32), 0, st>>>(kRounds, sink); }},
        timing);
    const double flops = 2.0 * 16 * 8 * (fp8 ? 32 : 16) * static_cast<double>(chains) * kRounds * warps * ctas;
    report.micro(benchmark,
                 Json()
                     .text("dtype", fp8 ? "e4m3" : "bf16")
                     .integer("m", 16)
                     .integer("n", 8)
                     .integer("k", fp8 ? 32 : 16)
                     .integer("chains", chains)
                     .integer("instructions", chains * kRounds)
                     .integer("warps", warps)
                     .integer("ctas", ctas)
                     .number("tflops", flops / t.us / 1e6, 1),
                 t);
  };
  mma_row("mma_latency", mma_kernel<Mma::kBf16, 1>, false, 1, 1, 1);
  mma_row("mma_latency", mma_kernel<Mma::kE4m3, 1>, true, 1, 1, 1);
  for (const int warps : {4, 8, 16}) {
    mma_row("mma_rate", mma_kernel<Mma::kBf16, 8>, false, 8, sms, warps);
    mma_row("mma_rate", mma_kernel<Mma::kE4m3, 8>, true, 8, sms, warps);
  }
  mma_row("mma_rate", mma_kernel<Mma::kBf16, 2>, false, 2, sms, 4);
  for (const int groups : {1, 2}) {
    wgmma_row<8, false>(device, timer, timing, report, sink, groups);
    wgmma_row<16, false>(device, timer, timing, report, sink, groups);
    wgmma_row<32, false>(device, timer, timing, report, sink, groups);
    wgmma_row<64, false>(device, timer, timing, report, sink, groups);
    wgmma_row<128, false>(device, timer, timing, report, sink, groups);
    wgmma_row<8, true>(device, timer, timing, report, sink, groups);
    wgmma_row<32, true>(device, timer, timing, report, sink, groups);
    wgmma_row<128, true>(device, timer, timing, report, sink, groups);
  }
  report.note("micro: matrix rates");

  const auto convert_row = [&](const char* what, auto* kernel, int values) {
    for (const int warps : {4, 32}) {
      const Timing t = timer.run(
          {"",
           [=](cudaStream_t st, int) { kernel<<<sms, static_cast<unsigned>(warps * 32), 0, st>>>(kRounds, words); }},
          timing);
      const double clocks = t.us * (t.sm_mhz > 0 ? t.sm_mhz : device.max_sm_mhz());
      report.micro("convert",
                   Json()
                       .text("what", what)
                       .integer("values_per_operation", values)
                       .integer("operations", kRounds * kConvertChains)
                       .integer("warps", warps)
                       .integer("ctas", sms)
                       .number("values_per_clock_sm",
                               static_cast<double>(values) * kRounds * kConvertChains * warps * 32 / clocks, 2),
                   t);
    }
  };
  convert_row("e4m3_to_f16", convert_kernel<Convert::kE4m3ToF16>, 2);
  convert_row("e4m3_to_f16_shift", convert_kernel<Convert::kE4m3Shift>, 4);
  convert_row("f16_to_f32", convert_kernel<Convert::kF16ToF32>, 1);
  convert_row("bf16_to_f32", convert_kernel<Convert::kBf16ToF32>, 1);
  convert_row("e4m3_to_f32", convert_kernel<Convert::kE4m3ToF32>, 2);

  for (const int threads : {64, 128, 256, 512, 1024}) {
    const Timing t = timer.run(
        {"", [=](cudaStream_t st, int) { barrier_kernel<<<sms, static_cast<unsigned>(threads), 0, st>>>(kRounds); }},
        timing);
    report.micro("barrier", Json().integer("threads", threads).integer("rounds", kRounds).integer("ctas", sms), t);
  }
  report.micro(
      "shared_latency", Json().integer("hops", kRounds),
      timer.run({"", [=](cudaStream_t st, int) { shared_chase_kernel<<<1, 32, 0, st>>>(kRounds, words); }}, timing));
  report.micro(
      "atomic_latency", Json().integer("rounds", 500).integer("ctas", sms).text("scope", "last-level cache"),
      timer.run({"", [=](cudaStream_t st, int) { atomic_kernel<<<sms, 1, 0, st>>>(500, static_cast<int*>(scratch)); }},
                timing));
  report.note("micro: conversions, barrier, latencies");

  if (!options.quick) {
    Cublas blas;
    const auto* a = reinterpret_cast<const __nv_bfloat16*>(pool.bf16);
    auto* c = reinterpret_cast<__nv_bfloat16*>(pool.copies);
    for (const int m : blas.available() ? std::vector<int>{1, 16, 64, 128, 256, 512, 1024} : std::vector<int>{}) {
      constexpr int kN = 8192, kK = 4096, kPlaces = 8;
      const Timing t =
          timer.run({"",
                     [=, &blas](cudaStream_t st, int i) {
                       blas.square(st, m, kN, kK, a, a + (1 + i % kPlaces) * static_cast<std::int64_t>(kN) * kK, c);
                     },
                     kPlaces},
                    timing);
      report.micro("mm_bf16",
                   Json().integer("m", m).integer("n", kN).integer("k", kK).raw("kernels", to_json(t.kernels)), t);
    }
    // Sustained clock: one second of dense products, then of reads, a row every 60 ms.
    cudaEvent_t begin = nullptr, end = nullptr;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    constexpr int kSize = 8192;
    constexpr std::int64_t kRead = 2ll << 30;
    for (const bool products : {true, false}) {
      if (products && !blas.available()) continue;
      const auto start = std::chrono::steady_clock::now();
      const int each = products ? 40 : 120;
      for (int row = 0; row < 18; ++row) {
        CUDA_CHECK(cudaEventRecord(begin, timer.stream()));
        for (int i = 0; i < each; ++i) {
          if (products)
            blas.square(timer.stream(), kSize, kSize, kSize, a, a + static_cast<std::int64_t>(kSize) * kSize, c);
          else
            plain_read(timer.stream(), pool.bf16 + i % 4 * kRead, kRead);
        }
        CUDA_CHECK(cudaEventRecord(end, timer.stream()));
        Timing t;
        t.sm_mhz = device.sm_mhz();
        t.reasons = device.throttle_reasons();
        const double power = device.power_w();
        CUDA_CHECK(cudaEventSynchronize(end));
        float ms = 0;
        CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
        t.ok = true;
        t.samples = 1;
        t.us = t.median_us = t.min_us = t.p90_us = ms * 1000.0 / each;
        Json j;
        if (products)
          j.text("dtype", "bf16").integer("size", kSize).number("tflops", 2.0 * kSize * kSize * kSize / t.us / 1e6, 1);
        else
          j.integer("bytes", kRead).number("tbps", static_cast<double>(kRead) / t.us / 1e6, 3);
        j.number("at_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 3)
            .number("power_w", power, 1);
        j.integer("reasons", static_cast<std::int64_t>(t.reasons));
        report.micro(products ? "sustained_mm" : "sustained_read", j, t);
      }
    }
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    report.note("micro: dense products, sustained clock");
  }
  CUDA_CHECK(cudaFree(scratch));
}

}  // namespace harness
