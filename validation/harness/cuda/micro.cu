// Microbenchmarks of memory, cache and launches; compute ones are in micro_compute.cu. Each row is the source of one or
// two constants of a device model (README.md says which). Names are those of earlier sets where the measurement is
// alike.
#include <algorithm>

#include "device_math.cuh"
#include "kernels.cuh"
#include "micro.cuh"

namespace harness {
namespace {

// The data are random: this never happens, but the compiler cannot know.
__device__ __forceinline__ bool never(std::uint32_t v, std::uint32_t* sink) {
  if (v != 0x9e3779b9u) return false;
  *sink = v;
  return true;
}
__device__ std::uint32_t device_sink;
__device__ __forceinline__ std::uint32_t fold(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

__global__ void empty_kernel() {}
__global__ void empty_dependent_kernel() {
  launch_dependents();
  wait_for_previous();
}

constexpr int kReadThreads = 128, kReadLoads = 8, kReadBlock = kReadThreads * kReadLoads * 16;

// What is read once passes L1 by; what is to be found again is loaded as any data are (loads that do not allocate in L1
// leave less of it in the last-level cache).
template <bool kAgain>
__global__ void __launch_bounds__(kReadThreads) plain_read_kernel(const uint4* p) {
  const uint4* const q = p + blockIdx.x * static_cast<long long>(kReadThreads * kReadLoads) + threadIdx.x;
  uint4 v[kReadLoads];
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i)
    v[i] = kAgain ? __ldg(q + i * kReadThreads) : load_streaming(q + i * kReadThreads);
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) all ^= fold(v[i]) * (i + 1);
  never(all, &device_sink);
}

template <bool kAgain>
void read_plainly(cudaStream_t stream, const std::uint8_t* p, std::int64_t bytes) {
  plain_read_kernel<kAgain>
      <<<static_cast<unsigned>(bytes / kReadBlock), kReadThreads, 0, stream>>>(reinterpret_cast<const uint4*>(p));
}

// Each CTA reads `blocks` blocks of blockDim.x * kLoads * 16 bytes, one after another: a block's loads are in flight
// together, the next block waits for them.
template <int kLoads>
__global__ void batch_read_kernel(const uint4* p, int blocks, long long pitch_ctas) {
  const long long block = static_cast<long long>(blockDim.x) * kLoads;
  const uint4* q = p + blockIdx.x * block + threadIdx.x;
  for (int b = 0; b < blocks; ++b) {
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load_streaming(q + static_cast<long long>(i) * blockDim.x);
    std::uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) all ^= fold(v[i]) * (i + 1);
    q += pitch_ctas * block + (never(all, &device_sink) ? 1 : 0);  // the address depends on the data
  }
}

constexpr int kRingStages = 4;
// cp.async: a ring of four stages, three to four of them in flight at any time.
__global__ void __launch_bounds__(128) ring_async_kernel(const std::uint8_t* p, int stages, int stage_bytes) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  const std::uint32_t base = shared_address(shared);
  const auto issue = [&](int s) {
    const std::uint8_t* source = p + (static_cast<long long>(s) * gridDim.x + blockIdx.x) * stage_bytes;
    for (int at = threadIdx.x * 16; at < stage_bytes; at += 128 * 16)
      copy_async16(base + (s % kRingStages) * stage_bytes + at, source + at, true);
  };
  for (int s = 0; s < kRingStages; ++s) {
    if (s < stages) issue(s);
    copy_async_commit();
  }
  for (int s = 0; s < stages; ++s) {
    copy_async_wait<kRingStages - 1>();
    if (s + kRingStages < stages) issue(s + kRingStages);
    copy_async_commit();
  }
  copy_async_wait<0>();
}
// Bulk copies: one thread, the same ring; nobody reads the data.
__global__ void __launch_bounds__(32) ring_bulk_kernel(const std::uint8_t* p, int stages, int stage_bytes) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  __shared__ __align__(8) std::uint64_t bars[kRingStages];
  if (threadIdx.x != 0) return;
  const std::uint32_t base = shared_address(shared), bar = shared_address(bars);
  for (int i = 0; i < kRingStages; ++i) mbarrier_init(bar + 8 * i, 1);
  mbarrier_init_fence();
  const auto issue = [&](int s) {
    const int slot = s % kRingStages;
    mbarrier_expect(bar + 8 * slot, stage_bytes);
    copy_bulk(base + slot * stage_bytes, p + (static_cast<long long>(s) * gridDim.x + blockIdx.x) * stage_bytes,
              stage_bytes, bar + 8 * slot);
  };
  for (int s = 0; s < min(stages, kRingStages); ++s) issue(s);
  for (int s = 0; s < stages; ++s) {
    mbarrier_wait(bar + 8 * (s % kRingStages), (s / kRingStages) & 1);
    if (s + kRingStages < stages) issue(s + kRingStages);
  }
}

// Bulk copies of `blocks` blocks that stay in the cache; a CTA's next block is another one's at the next turn, so that
// units share lines.
constexpr int kMostWarmStages = 16, kWarmShift = 7;
__global__ void __launch_bounds__(32)
    ring_warm_kernel(const std::uint8_t* p, int blocks, int block_bytes, int stages, int steps) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  __shared__ __align__(8) std::uint64_t bars[kMostWarmStages];
  if (threadIdx.x != 0) return;
  const std::uint32_t base = shared_address(shared), bar = shared_address(bars);
  for (int i = 0; i < stages; ++i) mbarrier_init(bar + 8 * i, 1);
  mbarrier_init_fence();
  int at = static_cast<int>(blockIdx.x) % blocks;
  const auto issue = [&](int slot) {
    mbarrier_expect(bar + 8 * slot, block_bytes);
    copy_bulk(base + slot * block_bytes, p + static_cast<long long>(at) * block_bytes, block_bytes, bar + 8 * slot);
    at += static_cast<int>(gridDim.x) + kWarmShift;
    if (at >= blocks) at -= blocks;
  };
  for (int i = 0; i < stages; ++i) issue(i);
  int slot = 0, turn = 0;
  for (int step = 0; step < steps; ++step) {
    mbarrier_wait(bar + 8 * slot, turn & 1);
    if (step + stages < steps) issue(slot);
    if (++slot == stages) slot = 0, ++turn;
  }
}

// Every CTA reads the same bytes.
__global__ void __launch_bounds__(kReadThreads) same_read_kernel(const uint4* p, int blocks) {
  std::uint32_t all = 0;
  for (int b = 0; b < blocks; ++b) {
    uint4 v[kReadLoads];
#pragma unroll
    for (int i = 0; i < kReadLoads; ++i)
      v[i] = load_streaming(p + threadIdx.x + (static_cast<long long>(b) * kReadLoads + i) * kReadThreads);
#pragma unroll
    for (int i = 0; i < kReadLoads; ++i) all ^= fold(v[i]) * (i + 1);
    if (never(all, &device_sink)) ++p;
  }
}

// Of each CTA's eight 2 KiB vectors, every `write_every`-th is written too; beyond 8, of every (write_every / 8)-th CTA
// one.
__global__ void __launch_bounds__(kReadThreads) mixed_kernel(const uint4* p, uint4* out, int write_every) {
  const long long at = blockIdx.x * static_cast<long long>(kReadThreads * kReadLoads) + threadIdx.x;
  uint4 v[kReadLoads];
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) v[i] = load_streaming(p + at + i * kReadThreads);
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) {
    all ^= fold(v[i]) * (i + 1);
    if ((blockIdx.x * kReadLoads + i) % write_every == 0) out[at + i * kReadThreads] = v[i];
  }
  never(all, &device_sink);
}
__global__ void __launch_bounds__(kReadThreads) write_kernel(uint4* out) {
  const long long at = blockIdx.x * static_cast<long long>(kReadThreads * kReadLoads) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) out[at + i * kReadThreads] = make_uint4(threadIdx.x, blockIdx.x, i, 7);
}

__global__ void chain_kernel(std::uint32_t* p, std::uint32_t lines) {
  // A full-period linear congruence for 2^n, 3 * 2^n and 5 * 2^n lines: a - 1 is a multiple of 60.
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x)
    p[static_cast<std::size_t>(i) * 32] = static_cast<std::uint32_t>((1664581ull * i + 1013904223ull) % lines);
}
__global__ void chase_kernel(const std::uint32_t* p, int hops, std::uint32_t* state) {
  std::uint32_t at = *state;
  for (int i = 0; i < hops; ++i) at = p[static_cast<std::size_t>(at) * 32];
  *state = at;
}

// Reads chunks of `chunk_ctas` CTAs' bytes, each at its own place among `places` (a power of two) of that size.
__global__ void __launch_bounds__(kReadThreads)
    spread_read_kernel(const uint4* p, int chunk_ctas, std::uint32_t places, std::uint32_t salt) {
  const std::uint32_t chunk = blockIdx.x / chunk_ctas + salt;
  const std::uint32_t place = (chunk * 2654435761u ^ (chunk * 2246822519u >> 13)) & (places - 1);
  const long long at = (static_cast<long long>(place) * chunk_ctas + blockIdx.x % chunk_ctas) *
                           static_cast<long long>(kReadThreads * kReadLoads) +
                       threadIdx.x;
  uint4 v[kReadLoads];
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) v[i] = load_streaming(p + at + i * kReadThreads);
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kReadLoads; ++i) all ^= fold(v[i]) * (i + 1);
  never(all, &device_sink);
}

// Straight-line code of 16 bytes an instruction, run once by every warp: what fetching it takes.
template <int kInstructions>
__global__ void __launch_bounds__(32) code_kernel(float a) {
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = a + static_cast<float>(i);
#pragma unroll
  for (int i = 0; i < kInstructions; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(v[i % 8]) : "f"(a));
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += v[i];
  never(__float_as_uint(sum), &device_sink);
}

// One line a page; the congruence has full period for powers of two.
__global__ void page_chain_kernel(std::uint8_t* p, long long pitch, std::uint32_t pages) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages; i += gridDim.x * blockDim.x)
    *reinterpret_cast<std::uint32_t*>(p + i * pitch) = (1664525u * i + 1013904223u) & (pages - 1);
}
__global__ void page_chase_kernel(const std::uint8_t* p, long long pitch, int hops, std::uint32_t* state) {
  std::uint32_t at = *state;
  for (int i = 0; i < hops; ++i) at = *reinterpret_cast<const volatile std::uint32_t*>(p + at * pitch);
  *state = at;
}

// Sums `parts` float rows as a split-K reduction does.
__global__ void split_reduce_kernel(const float4* parts, float4* out, int count, int vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  float4 sum = parts[i];
  for (int s = 1; s < count; ++s) {
    const float4 v = parts[static_cast<long long>(s) * vectors + i];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  out[i] = sum;
}

class Micro {
 public:
  Micro(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report)
      : options_(options), device_(device), timer_(timer), pool_(pool), report_(report) {
    timing_.samples = options.quick ? 7 : 9;
  }
  void launches();
  void bytes_in_flight();
  void warm_bytes_in_flight();
  void sizes();
  void shared_lines();
  void one_sm();
  void latency();
  void writes();
  void translation();
  void code();

 private:
  // Distinct places of `bytes` in the pool: enough to be cold.
  int places(std::int64_t bytes, int caches = 4) const {
    const std::int64_t wanted = std::max<std::int64_t>(2, (caches * device_.l2_bytes() + bytes - 1) / bytes);
    return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, pool_.bf16_bytes / bytes), 1, 1200));
  }
  const uint4* vectors(std::int64_t offset) const { return reinterpret_cast<const uint4*>(pool_.bf16 + offset); }

  const Options& options_;
  const Device& device_;
  Timer& timer_;
  const Pool& pool_;
  Report& report_;
  TimingOptions timing_;
};

void Micro::launches() {
  struct Node {
    int ctas, threads;
  };
  std::vector<Node> nodes;
  for (int ctas : {1, 132, 264, 528, 1056, 2112, 4224, 8448, 16896}) nodes.push_back({ctas, 128});
  for (int threads : {32, 256, 512, 1024}) nodes.push_back({528, threads}), nodes.push_back({4224, threads});
  std::vector<Sequence> sequences;
  for (const Node& n : nodes)
    sequences.push_back({"", [n](cudaStream_t st, int) {
                           empty_kernel<<<static_cast<unsigned>(n.ctas), static_cast<unsigned>(n.threads), 0, st>>>();
                         }});
  std::vector<Timing> times = timer_.run(sequences, timing_);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    report_.micro(nodes[i].threads == 128 ? "graph_node" : "graph_node_threads",
                  Json().integer("ctas", nodes[i].ctas).integer("threads", nodes[i].threads), times[i]);
  report_.summary("graph node, 1 CTA: " + std::to_string(times[0].us) +
                  " us; 132 CTAs: " + std::to_string(times[1].us) + " us");

  for (const bool graph : {true, false})
    for (const int ctas : {1, 66, 132, 264, 528, 1056}) {
      TimingOptions options = timing_;
      options.graph = graph;
      if (!graph)
        report_.micro("stream_launch", Json().integer("ctas", ctas).integer("threads", 128),
                      timer_.run({"", [ctas](cudaStream_t st,
                                             int) { empty_kernel<<<static_cast<unsigned>(ctas), 128, 0, st>>>(); }},
                                 options));
      report_.micro("programmatic_launch",
                    Json().integer("ctas", ctas).integer("threads", 128).text("launch", graph ? "graph" : "stream"),
                    timer_.run({"",
                                [ctas](cudaStream_t st, int) {
                                  launch(empty_dependent_kernel, dim3(static_cast<unsigned>(ctas)), dim3(128), 0, st,
                                         true);
                                }},
                               options));
    }
}

void Micro::bytes_in_flight() {
  constexpr double kPeak = 4.4e12, kLatency = 0.7e-6, kTarget = 150e-6;
  const auto rounds = [&](std::int64_t in_flight) {
    const double rate = std::min(kPeak, static_cast<double>(in_flight) / kLatency);
    return std::max(8, static_cast<int>(rate * kTarget / static_cast<double>(in_flight)));
  };
  // Slow readers take long to read four times the cache: twice must do.
  const auto few = [](std::int64_t in_flight) { return in_flight < (256 << 10) ? 2 : 4; };
  struct Row {
    const char* load;
    int ctas, block_bytes, threads, stages;
    std::int64_t bytes;
    int places;
  };
  std::vector<Row> rows;
  std::vector<Sequence> sequences;
  const std::vector<int> grids = options_.quick ? std::vector<int>{33, 132, 528, 1056}
                                                : std::vector<int>{4, 16, 33, 66, 132, 264, 528, 1056, 2112};
  for (const int block : {1024, 2048, 4096, 8192, 16384, 32768})
    for (const int ctas : grids) {
      const int threads = block == 1024 ? 64 : 128, loads = block / 16 / threads;
      const int blocks = rounds(static_cast<std::int64_t>(ctas) * block);
      const std::int64_t bytes = static_cast<std::int64_t>(ctas) * block * blocks;
      if (bytes > pool_.bf16_bytes / 2) continue;
      const int count = places(bytes, few(static_cast<std::int64_t>(ctas) * block));
      rows.push_back({"plain", ctas, block, threads, 1, bytes, count});
      sequences.push_back({"",
                           [=, this](cudaStream_t st, int i) {
                             const uint4* p = vectors(i % count * bytes);
                             const auto grid = static_cast<unsigned>(ctas), size = static_cast<unsigned>(threads);
                             switch (loads) {
                               case 1:
                                 batch_read_kernel<1><<<grid, size, 0, st>>>(p, blocks, ctas);
                                 break;
                               case 2:
                                 batch_read_kernel<2><<<grid, size, 0, st>>>(p, blocks, ctas);
                                 break;
                               case 4:
                                 batch_read_kernel<4><<<grid, size, 0, st>>>(p, blocks, ctas);
                                 break;
                               case 8:
                                 batch_read_kernel<8><<<grid, size, 0, st>>>(p, blocks, ctas);
                                 break;
                               default:
                                 batch_read_kernel<16><<<grid, size, 0, st>>>(p, blocks, ctas);
                                 break;
                             }
                           },
                           count});
    }
  CUDA_CHECK(cudaFuncSetAttribute(ring_async_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 196608));
  CUDA_CHECK(cudaFuncSetAttribute(ring_bulk_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 196608));
  for (const bool bulk : {false, true})
    for (const int ring : {4096, 8192, 16384, 32768, 65536, 131072, 196608})
      for (const int ctas : {4, 33, 132, 264, 528}) {
        const int per_sm = (ctas + device_.sms() - 1) / device_.sms();
        if (per_sm * (ring + 1152) > 227 * 1024 || (options_.quick && ctas != 132)) continue;
        const int stages = rounds(static_cast<std::int64_t>(ctas) * ring) * kRingStages,
                  stage_bytes = ring / kRingStages;
        const std::int64_t bytes = static_cast<std::int64_t>(ctas) * stage_bytes * stages;
        if (bytes > pool_.bf16_bytes / 2) continue;
        const int count = places(bytes, few(static_cast<std::int64_t>(ctas) * ring)), threads = bulk ? 32 : 128;
        rows.push_back({bulk ? "bulk" : "cp_async", ctas, ring, threads, kRingStages, bytes, count});
        sequences.push_back({"",
                             [=, this](cudaStream_t st, int i) {
                               const std::uint8_t* p = pool_.bf16 + i % count * bytes;
                               (bulk ? ring_bulk_kernel
                                     : ring_async_kernel)<<<static_cast<unsigned>(ctas), static_cast<unsigned>(threads),
                                                            static_cast<std::size_t>(ring), st>>>(p, stages,
                                                                                                  stage_bytes);
                             },
                             count});
      }
  // In visits of 16, so that a visit's random order spans seconds and not a minute.
  for (std::size_t first = 0; first < sequences.size(); first += 16) {
    const std::size_t last = std::min(first + 16, sequences.size());
    const std::vector<Timing> times =
        timer_.run(std::vector<Sequence>(sequences.begin() + static_cast<std::ptrdiff_t>(first),
                                         sequences.begin() + static_cast<std::ptrdiff_t>(last)),
                   timing_);
    for (std::size_t i = first; i < last; ++i) {
      const Row& r = rows[i];
      report_.micro("cold_read_inflight",
                    Json()
                        .text("load", r.load)
                        .integer("ctas", r.ctas)
                        .integer("block_bytes", r.block_bytes)
                        .integer("bytes", r.bytes)
                        .integer("threads", r.threads)
                        .integer("stages", r.stages)
                        .text("pattern", r.stages > 1 ? "ring" : "batch")
                        .integer("segments", r.places),
                    times[i - first]);
    }
  }
}

void Micro::warm_bytes_in_flight() {
  constexpr int kPiece = 24 << 20;
  CUDA_CHECK(cudaFuncSetAttribute(ring_warm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072));
  for (const auto& [ctas, block] : {std::pair<int, int>{132, 8192}, {264, 4096}, {528, 4096}})
    for (const int stages : {1, 2, 3, 4, 6, 8, 12, 16}) {
      const int per_sm = (ctas + device_.sms() - 1) / device_.sms(), ring = stages * block;
      if (per_sm * ring > 131072) continue;
      const int steps = 256 * 8192 / block / per_sm;
      const Timing t =
          timer_.run({"",
                      [=, this](cudaStream_t st, int) {
                        ring_warm_kernel<<<static_cast<unsigned>(ctas), 32, static_cast<std::size_t>(ring), st>>>(
                            pool_.bf16, kPiece / block, block, stages, steps);
                      }},
                     timing_);
      report_.micro("warm_read_inflight",
                    Json()
                        .text("load", "bulk")
                        .integer("ctas", ctas)
                        .integer("block_bytes", ring)
                        .integer("bytes", static_cast<std::int64_t>(ctas) * steps * block)
                        .integer("threads", 32)
                        .integer("stages", stages)
                        .integer("piece_bytes", kPiece),
                    t);
    }
}

void Micro::sizes() {
  std::vector<std::int64_t> all = {1ll << 18,  1ll << 19,  1ll << 20,   1ll << 21,   1ll << 22,  1ll << 23,
                                   1ll << 24,  24ll << 20, 32ll << 20,  40ll << 20,  48ll << 20, 56ll << 20,
                                   64ll << 20, 96ll << 20, 128ll << 20, 256ll << 20, 512ll << 20};
  std::vector<Sequence> cold, warm;
  for (const std::int64_t bytes : all) {
    const int count = places(bytes);
    cold.push_back(
        {"", [=, this](cudaStream_t st, int i) { plain_read(st, pool_.bf16 + i % count * bytes, bytes); }, count});
    warm.push_back({"", [=, this](cudaStream_t st, int) { read_plainly<true>(st, pool_.bf16, bytes); }, 1});
  }
  const std::vector<Timing> cold_times = timer_.run(cold, timing_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    report_.micro(
        "cold_read_size",
        Json().integer("bytes", all[i]).integer("ctas", all[i] / kReadBlock).integer("segments", cold[i].rotation),
        cold_times[i]);
    if (all[i] >= (64ll << 20)) {
      char text[120];
      std::snprintf(text, sizeof text, "plain cold read of %4lld MiB: %8.2f us, %.3f TB/s",
                    static_cast<long long>(all[i] >> 20), cold_times[i].us,
                    static_cast<double>(all[i]) / cold_times[i].us / 1e6);
      report_.summary(text);
    }
  }
  // One at a time: a neighbour in the visit would empty the cache.
  for (std::size_t i = 0; i < all.size(); ++i)
    report_.micro("repeat_read_size",
                  Json().integer("bytes", all[i]).integer("ctas", all[i] / kReadBlock).text("l1", "allocate"),
                  timer_.run(warm[i], timing_));
}

void Micro::shared_lines() {
  for (const std::int64_t bytes : {16ll << 10, 64ll << 10, 256ll << 10, 1ll << 20, 4ll << 20, 16ll << 20, 32ll << 20})
    for (const int ctas : {1, 66, 132, 264, 1056}) {
      if (ctas == 1056 && bytes > (4ll << 20)) continue;
      const int blocks = static_cast<int>(bytes / kReadBlock);
      report_.micro("same_read", Json().integer("bytes", bytes).integer("ctas", ctas).text("l1", "no_allocate"),
                    timer_.run({"",
                                [=, this](cudaStream_t st, int) {
                                  same_read_kernel<<<static_cast<unsigned>(ctas), kReadThreads, 0, st>>>(vectors(0),
                                                                                                         blocks);
                                }},
                               timing_));
    }
}

void Micro::one_sm() {
  constexpr std::int64_t kBytes = 8ll << 20;
  for (const bool cold : {true, false}) {
    const int count = cold ? places(kBytes) : 1;
    for (const int threads : {128, 512, 1024}) {
      const int blocks = static_cast<int>(kBytes / (threads * 8 * 16));
      const Timing t = timer_.run({"",
                                   [=, this](cudaStream_t st, int i) {
                                     batch_read_kernel<8><<<1, static_cast<unsigned>(threads), 0, st>>>(
                                         vectors(i % count * kBytes), blocks, 1);
                                   },
                                   count},
                                  timing_);
      report_.micro("one_sm_read",
                    Json()
                        .text("load", "plain")
                        .text("state", cold ? "cold" : "warm")
                        .integer("bytes", kBytes)
                        .integer("ctas", 1)
                        .integer("threads", threads)
                        .integer("block_bytes", threads * 128),
                    t);
    }
    for (const int ring : {32768, 65536, 131072, 196608}) {
      const int stages = static_cast<int>(kBytes / (ring / kRingStages));
      const Timing t = timer_.run({"",
                                   [=, this](cudaStream_t st, int i) {
                                     ring_bulk_kernel<<<1, 32, static_cast<std::size_t>(ring), st>>>(
                                         pool_.bf16 + i % count * kBytes, stages, ring / kRingStages);
                                   },
                                   count},
                                  timing_);
      report_.micro("one_sm_read",
                    Json()
                        .text("load", "bulk")
                        .text("state", cold ? "cold" : "warm")
                        .integer("bytes", static_cast<std::int64_t>(stages) * (ring / kRingStages))
                        .integer("ctas", 1)
                        .integer("threads", 32)
                        .integer("block_bytes", ring),
                    t);
    }
  }
}

void Micro::latency() {
  std::uint32_t* state = nullptr;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&state), 4));
  auto* chain = reinterpret_cast<std::uint32_t*>(pool_.copies);
  constexpr int kHops = 1000;
  for (const std::int64_t bytes :
       {64ll << 10, 1ll << 20, 8ll << 20, 16ll << 20, 24ll << 20, 40ll << 20, 2048ll << 20}) {
    if (bytes > pool_.copies_bytes) continue;
    chain_kernel<<<1024, 256, 0, timer_.stream()>>>(chain, static_cast<std::uint32_t>(bytes / 128));
    CUDA_CHECK(cudaMemsetAsync(state, 0, 4, timer_.stream()));
    plain_read(timer_.stream(), pool_.copies, std::min<std::int64_t>(bytes, 40ll << 20));
    Timing t =
        timer_.run({"", [=](cudaStream_t st, int) { chase_kernel<<<1, 1, 0, st>>>(chain, kHops, state); }}, timing_);
    for (double* us : {&t.us, &t.median_us, &t.min_us, &t.p90_us}) *us /= kHops;
    report_.micro("pointer_chase", Json().integer("bytes", bytes).integer("hops", kHops).integer("stride", 128), t);
  }
  CUDA_CHECK(cudaFree(state));
}

void Micro::writes() {
  constexpr std::int64_t kBytes = 512ll << 20;
  auto* out = reinterpret_cast<uint4*>(pool_.copies);
  if (2 * kBytes > pool_.copies_bytes) return;
  constexpr unsigned kCtas = kBytes / kReadBlock;
  std::vector<Sequence> sequences;
  const std::vector<int> every = {1, 2, 4, 8, 16, 1 << 20};
  for (const int n : every)
    sequences.push_back({"",
                         [=, this](cudaStream_t st, int i) {
                           mixed_kernel<<<kCtas, kReadThreads, 0, st>>>(vectors(i % 2 * kBytes),
                                                                        out + i % 2 * (kBytes / 16), n);
                         },
                         2});
  sequences.push_back(
      {"", [=](cudaStream_t st, int i) { write_kernel<<<kCtas, kReadThreads, 0, st>>>(out + i % 2 * (kBytes / 16)); },
       2});
  const std::vector<Timing> times = timer_.run(sequences, timing_);
  for (std::size_t i = 0; i < every.size(); ++i)
    report_.micro(
        "mixed",
        Json().integer("read_bytes", kBytes).integer("write_every", every[i]).text("spread", "vector of 2 KiB"),
        times[i]);
  report_.micro("fill", Json().integer("write_bytes", kBytes), times.back());

  for (const int parts : {2, 4, 8, 16})
    for (const int vectors_each : {4096, 65536}) {
      const Timing t = timer_.run({"",
                                   [=](cudaStream_t st, int) {
                                     split_reduce_kernel<<<static_cast<unsigned>(vectors_each / 128), 128, 0, st>>>(
                                         reinterpret_cast<const float4*>(out),
                                         reinterpret_cast<float4*>(out) + 64 * 65536, parts, vectors_each);
                                   }},
                                  timing_);
      report_.micro("splitk_reduce",
                    Json()
                        .integer("parts", parts)
                        .integer("bytes", static_cast<std::int64_t>(parts) * vectors_each * 16)
                        .integer("ctas", vectors_each / 128)
                        .text("state", "warm"),
                    t);
    }
}

// Address translation: reads of chunks spread over more and more of the memory, and hops from page to page.
void Micro::translation() {
  std::size_t free_bytes = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  std::int64_t span = 64ll << 30;
  while (span > static_cast<std::int64_t>(free_bytes) / 10 * 9) span /= 2;
  std::uint8_t* memory = nullptr;
  std::uint32_t* state = nullptr;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&memory), static_cast<std::size_t>(span)));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&state), 4));
  CUDA_CHECK(cudaMemsetAsync(memory, 1, static_cast<std::size_t>(span), timer_.stream()));

  struct Row {
    std::int64_t span, chunk, bytes;
  };
  std::vector<Row> rows;
  std::vector<Sequence> sequences;
  for (const std::int64_t bytes : {8ll << 20, 32ll << 20, 128ll << 20})
    for (const std::int64_t chunk : {256ll << 10, 2ll << 20, 8ll << 20})
      for (std::int64_t reach = 512ll << 20; reach <= span; reach *= 2) {
        if (bytes != (32ll << 20) && reach != (512ll << 20) && reach != (8ll << 30) && reach != (64ll << 30)) continue;
        rows.push_back({reach, chunk, bytes});
        const int ctas = static_cast<int>(bytes / kReadBlock), each = static_cast<int>(chunk / kReadBlock);
        const auto places_of = static_cast<std::uint32_t>(reach / chunk);
        sequences.push_back({"",
                             [=](cudaStream_t st, int i) {
                               spread_read_kernel<<<static_cast<unsigned>(ctas), kReadThreads, 0, st>>>(
                                   reinterpret_cast<const uint4*>(memory), each, places_of,
                                   static_cast<std::uint32_t>(i) * static_cast<std::uint32_t>(ctas / each));
                             },
                             std::max(8, static_cast<int>(8 * device_.l2_bytes() / bytes))});
      }
  for (std::size_t first = 0; first < sequences.size(); first += 12) {
    const auto begin = sequences.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<Timing> times =
        timer_.run(std::vector<Sequence>(begin, std::min(begin + 12, sequences.end())), timing_);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Row& r = rows[first + i];
      report_.micro("cold_read_spread",
                    Json().integer("bytes", r.bytes).integer("chunk_bytes", r.chunk).integer("span_bytes", r.span),
                    times[i]);
    }
  }

  // One line of each page, at an offset that differs from page to page; all lines stay in the cache.
  constexpr int kHops = 2000;
  constexpr std::int64_t kPage = 2 << 20, kPitch = kPage + 4096 + 128;
  for (std::int64_t pages = 16; pages * kPitch <= span; pages *= 2) {
    page_chain_kernel<<<64, 256, 0, timer_.stream()>>>(memory, kPitch, static_cast<std::uint32_t>(pages));
    CUDA_CHECK(cudaMemsetAsync(state, 0, 4, timer_.stream()));
    Timing t = timer_.run(
        {"", [=](cudaStream_t st, int) { page_chase_kernel<<<1, 1, 0, st>>>(memory, kPitch, kHops, state); }}, timing_);
    for (double* us : {&t.us, &t.median_us, &t.min_us, &t.p90_us}) *us /= kHops;
    report_.micro("page_chase", Json().integer("pages", pages).integer("pitch", kPitch).integer("hops", kHops), t);
  }
  CUDA_CHECK(cudaFree(memory));
  CUDA_CHECK(cudaFree(state));
}

// Instruction fetch: code alone (it stays in the SM's caches), and after a read that empties the last-level cache.
// Then what a change of the on-chip memory's division costs.
void Micro::code() {
  constexpr std::int64_t kBytes = 128ll << 20;
  const int count = places(kBytes);
  const auto ctas = static_cast<unsigned>(device_.sms());
  using Kernel = void (*)(float);
  const std::vector<std::pair<int, Kernel>> kernels = {
      {64, code_kernel<64>}, {1024, code_kernel<1024>}, {4096, code_kernel<4096>}, {8192, code_kernel<8192>}};
  std::vector<Sequence> sequences;
  sequences.push_back(
      {"", [=, this](cudaStream_t st, int i) { plain_read(st, pool_.bf16 + i % count * kBytes, kBytes); }, count});
  for (const auto& [size, kernel] : kernels) {
    sequences.push_back({"", [=](cudaStream_t st, int) { kernel<<<ctas, 32, 0, st>>>(1.0f); }});
    sequences.push_back({"",
                         [=, this](cudaStream_t st, int i) {
                           plain_read(st, pool_.bf16 + i % count * kBytes, kBytes);
                           kernel<<<ctas, 32, 0, st>>>(1.0f);
                         },
                         count, 2});
  }
  std::vector<Timing> times = timer_.run(sequences, timing_);
  report_.micro("code_fetch", Json().integer("code_bytes", 0).integer("read_bytes", kBytes), times[0]);
  for (std::size_t i = 0; i < kernels.size(); ++i)
    for (const bool cold : {false, true})
      report_.micro("code_fetch",
                    Json().integer("code_bytes", 16 * kernels[i].first).integer("read_bytes", cold ? kBytes : 0),
                    times[1 + 2 * i + (cold ? 1 : 0)]);

  CUDA_CHECK(cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 196608));
  sequences.clear();
  const std::vector<std::pair<std::size_t, std::size_t>> pairs = {{0, 0},     {196608, 196608}, {0, 196608},
                                                                  {0, 16384}, {0, 65536},       {65536, 196608}};
  for (const auto& [first, second] : pairs)
    sequences.push_back({"",
                         [=](cudaStream_t st, int) {
                           empty_kernel<<<ctas, 128, first, st>>>();
                           empty_kernel<<<ctas, 128, second, st>>>();
                         },
                         1, 2});
  times = timer_.run(sequences, timing_);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    report_.micro("shared_switch",
                  Json()
                      .integer("first_bytes", static_cast<std::int64_t>(pairs[i].first))
                      .integer("second_bytes", static_cast<std::int64_t>(pairs[i].second))
                      .integer("ctas", ctas),
                  times[i]);
}

}  // namespace

void plain_read(cudaStream_t stream, const std::uint8_t* p, std::int64_t bytes) {
  read_plainly<false>(stream, p, bytes);
}

void run_micro(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report) {
  Json card;
  card.text("name", device.properties().name)
      .integer("sms", device.sms())
      .integer("l2_bytes", device.l2_bytes())
      .text("driver", device.driver());
  card.integer("max_sm_mhz", device.max_sm_mhz())
      .integer("max_mem_mhz", device.max_memory_mhz())
      .number("power_limit_w", device.power_limit_w(), 1);
  report.micro("device", card, Timing{});
  Micro micro(options, device, timer, pool, report);
  micro.launches();
  report.note("micro: launches");
  micro.sizes();
  report.note("micro: sizes");
  micro.bytes_in_flight();
  micro.warm_bytes_in_flight();
  report.note("micro: bytes in flight");
  micro.one_sm();
  if (!options.quick) {
    micro.shared_lines();
    report.note("micro: shared lines");
    micro.latency();
    micro.writes();
    report.note("micro: latency, writes");
    micro.translation();
    micro.code();
    report.note("micro: address translation, instruction fetch");
  }
  if (!options.quick) {
    run_micro_ports(device, timer, pool, report);
    run_micro_turnaround(device, timer, report);
  }
  run_micro_compute(options, device, timer, pool, report);
}

}  // namespace harness
