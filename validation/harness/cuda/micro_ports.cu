// Microbenchmarks of the ports by which SMs reach the last-level cache and the memory: what neighbours gain that read the
// same lines, how far apart SMs end that keep more in flight than the memory's own queues hold, and what boxes of a tensor cost
// of which rows lie beyond its end.
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_math.cuh"
#include "micro.cuh"

namespace harness {
namespace {

constexpr int kWarps = 4, kMostStages = 6, kCopyBytes = 8192, kRuns = 7;

// A CTA's bytes, around and around; the first lane of each warp keeps `stages` bulk copies in flight. `ends`: start and end of
// each CTA, or null.
__global__ void __launch_bounds__(kWarps * 32)
    port_kernel(const std::uint8_t* p, long long region, int regions, int sharers, bool apart, int stages, int copies,
                unsigned long long* ends) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  __shared__ __align__(8) std::uint64_t bars[kWarps * kMostStages];
  const int cta = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32;
  if (ends != nullptr && threadIdx.x == 0) ends[2 * cta] = global_ns();
  if (threadIdx.x % 32 == 0) {
    const std::uint8_t* const from = p + (apart ? cta % regions : cta / sharers) * region;
    const std::uint32_t base = shared_address(shared) + warp * stages * kCopyBytes;
    const std::uint32_t bar = shared_address(bars) + warp * stages * 8;
    for (int i = 0; i < stages; ++i) mbarrier_init(bar + 8 * i, 1);
    mbarrier_init_fence();
    long long at = warp * kCopyBytes;
    const auto issue = [&](int slot) {
      mbarrier_expect(bar + 8 * slot, kCopyBytes);
      copy_bulk(base + slot * kCopyBytes, from + at, kCopyBytes, bar + 8 * slot);
      at += kWarps * kCopyBytes;
      if (at >= region) at -= region;
    };
    for (int i = 0; i < min(stages, copies); ++i) issue(i);
    int slot = 0, turn = 0;
    for (int i = 0; i < copies; ++i) {
      mbarrier_wait(bar + 8 * slot, turn & 1);
      if (i + stages < copies) issue(slot);
      if (++slot == stages) slot = 0, ++turn;
    }
  }
  __syncthreads();
  if (ends != nullptr && threadIdx.x == 0) ends[2 * cta + 1] = global_ns();
}

// Steps of two boxes of 64 rows x 64 columns, around in a tensor of 2048 columns, and of so many bytes that are cold.
constexpr int kBoxRows = 64, kBoxColumns = 64, kBoxBytes = kBoxRows * kBoxColumns * 2, kBoxes = 2, kColumns = 2048;
constexpr int kMostTensors = 33;
struct Tensors {
  CUtensorMap of[kMostTensors];
};
__global__ void __launch_bounds__(32) box_kernel(const __grid_constant__ Tensors tensors, int ctas_of_tensor,
                                                 const std::uint8_t* p, int cold_bytes, int stages, int steps) {
  extern __shared__ __align__(1024) std::uint8_t boxes[];
  __shared__ __align__(8) std::uint64_t bars[kMostStages];
  if (threadIdx.x != 0) return;
  const CUtensorMap& tensor = tensors.of[blockIdx.x / ctas_of_tensor];
  const int step_bytes = kBoxes * kBoxBytes + cold_bytes;
  const std::uint32_t base = shared_address(boxes), bar = shared_address(bars);
  for (int i = 0; i < stages; ++i) mbarrier_init(bar + 8 * i, 1);
  mbarrier_init_fence();
  const std::uint8_t* from = p + static_cast<long long>(blockIdx.x) * steps * cold_bytes;
  int column = 0;
  const auto issue = [&](int slot) {
    const std::uint32_t to = base + slot * step_bytes;
    mbarrier_expect(bar + 8 * slot, step_bytes);
    for (int box = 0; box < kBoxes; ++box) {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
              "r"(to + box * kBoxBytes),
          "l"(&tensor), "r"(column), "r"(0), "r"(bar + 8 * slot)
          : "memory");
      column = (column + kBoxColumns) % kColumns;
    }
    for (int at = 0; at < cold_bytes; at += kCopyBytes)
      copy_bulk(to + kBoxes * kBoxBytes + at, from + at, kCopyBytes, bar + 8 * slot);
    from += cold_bytes;
  };
  for (int i = 0; i < stages; ++i) issue(i);
  int slot = 0, turn = 0;
  for (int i = 0; i < steps; ++i) {
    mbarrier_wait(bar + 8 * slot, turn & 1);
    if (i + stages < steps) issue(slot);
    if (++slot == stages) slot = 0, ++turn;
  }
}

struct Ports {
  const Device& device;
  Timer& timer;
  const Pool& pool;
  Report& report;

  // CTAs, one an SM, of which so many read the same 128 KiB from the cache: neighbours in the grid, or as far apart as can be.
  // Fewer CTAs, each on lines of its own, tell what few SMs get.
  void shared_reads() {
    constexpr long long kRegion = 128 << 10;
    constexpr int kCopies = 256;  // of a warp
    const int sms = device.sms();
    struct Row {
      int ctas, sharers, stages;
      bool apart;
    };
    std::vector<Row> rows;
    for (const int stages : {3, kMostStages})
      for (const int sharers : {1, 2, 3, 4, 6, 12, 33, 66, sms}) rows.push_back({sms, sharers, stages, false});
    for (const int sharers : {2, 4, 12, 33}) rows.push_back({sms, sharers, kMostStages, true});
    for (const int ctas : {1, 2, 4, 8, 12, 16, 24, 33, 48, 66, 99}) rows.push_back({ctas, 1, kMostStages, false});
    std::vector<Sequence> sequences;
    for (const Row& r : rows)
      sequences.push_back({"", [=, this](cudaStream_t st, int) {
                             const auto bytes = static_cast<std::size_t>(kWarps * r.stages * kCopyBytes);
                             port_kernel<<<static_cast<unsigned>(r.ctas), kWarps * 32, bytes, st>>>(
                                 pool.bf16, kRegion, (r.ctas + r.sharers - 1) / r.sharers, r.sharers, r.apart, r.stages,
                                 kCopies, nullptr);
                           }});
    const std::vector<Timing> times = timer.run(sequences);
    for (std::size_t i = 0; i < rows.size(); ++i)
      report.micro("shared_read",
                   Json()
                       .integer("ctas", rows[i].ctas)
                       .integer("threads", kWarps * 32)
                       .integer("block_bytes", kWarps * rows[i].stages * kCopyBytes)
                       .integer("stages", kWarps * rows[i].stages)
                       .integer("sharers", rows[i].sharers)
                       .integer("stride", rows[i].apart ? (rows[i].ctas + rows[i].sharers - 1) / rows[i].sharers : 1)
                       .integer("bytes", static_cast<std::int64_t>(rows[i].ctas) * kWarps * kCopies * kCopyBytes),
                   times[i]);
  }

  // `valid_rows` of each box are the tensor's.
  void boxes() {
    using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    constexpr int kSteps = 1000;
    struct Row {
      int ctas, of_tensor, rows, stages, cold;
    };
    const int sms = device.sms();
    std::vector<Row> list;
    for (const int cold : {0, 16384})
      for (const int stages : {4, kMostStages})
        for (const int rows : {1, 8, 16, 32, 48, 56, kBoxRows}) list.push_back({sms, sms, rows, stages, cold});
    for (const int ctas : {1, 8, 16, 33, 66}) list.push_back({ctas, ctas, 1, 4, 0});
    list.push_back({1, 1, kBoxRows, 4, 0});
    for (const int of_tensor : {4, 8, 16, 33, 66}) {
      list.push_back({sms, of_tensor, 1, 4, 0});
      list.push_back({sms, of_tensor, 1, 4, 16384});
    }
    for (const Row& r : list) {
      Tensors tensors;
      for (int i = 0; i * r.of_tensor < r.ctas; ++i) {
        const cuuint64_t sizes[] = {kColumns, static_cast<cuuint64_t>(r.rows)}, pitch[] = {kColumns * 2};
        const cuuint32_t box[] = {kBoxColumns, kBoxRows}, each[] = {1, 1};
        const CUresult made = reinterpret_cast<Encode>(encode)(
            &tensors.of[i], CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, pool.bf16 + i * kBoxRows * kColumns * 2, sizes, pitch,
            box, each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (made != CUDA_SUCCESS) {
          report.note("no tensor map: box_read is left out");
          return;
        }
      }
      const long long whole = static_cast<long long>(r.ctas) * kSteps * r.cold;
      const int places = whole == 0 ? 1 : static_cast<int>(std::max<long long>(1, pool.bf16_bytes / whole / 2));
      const auto bytes = static_cast<std::size_t>(r.stages * (kBoxes * kBoxBytes + r.cold));
      const Timing t = timer.run({"",
                                  [=, this](cudaStream_t st, int i) {
                                    box_kernel<<<static_cast<unsigned>(r.ctas), 32, bytes, st>>>(
                                        tensors, r.of_tensor, pool.bf16 + i % places * whole, r.cold, r.stages, kSteps);
                                  },
                                  places});
      report.micro("box_read",
                   Json()
                       .integer("ctas", r.ctas)
                       .integer("ctas_of_tensor", r.of_tensor)
                       .integer("steps", kSteps)
                       .integer("stages", r.stages)
                       .integer("boxes", kBoxes)
                       .integer("box_rows", kBoxRows)
                       .integer("valid_rows", r.rows)
                       .integer("cold_bytes", r.cold),
                   t);
    }
  }

  // Cold streams of `ctas` CTAs, one an SM, timed CTA by CTA: what they took in order, and all of them together.
  struct Ends {
    std::vector<double> of_cta;
    double all = 0;
    long long region = 0;
  };
  Ends stream(int ctas, int stages, int copies) {
    Ends ends;
    ends.region = static_cast<long long>(kWarps) * copies * kCopyBytes;
    const auto count = static_cast<std::size_t>(ctas);
    ends.of_cta.assign(count, 0);
    unsigned long long* marks = nullptr;
    CUDA_CHECK(cudaMalloc(&marks, 2 * count * sizeof *marks));
    for (int run = 0; run <= kRuns; ++run) {  // the first one loads the code
      port_kernel<<<static_cast<unsigned>(ctas), kWarps * 32, static_cast<std::size_t>(kWarps * stages * kCopyBytes),
                    timer.stream()>>>(pool.bf16 + run * device.sms() * ends.region, ends.region, ctas, 1, false, stages,
                                      copies, marks);
      std::vector<unsigned long long> at(2 * count);
      CUDA_CHECK(cudaMemcpyAsync(at.data(), marks, at.size() * sizeof at[0], cudaMemcpyDeviceToHost, timer.stream()));
      CUDA_CHECK(cudaStreamSynchronize(timer.stream()));
      if (run == 0) continue;
      unsigned long long first = at[0], last = 0;
      for (std::size_t c = 0; c < count; ++c) {
        ends.of_cta[c] += static_cast<double>(at[2 * c + 1] - at[2 * c]) / 1e3 / kRuns;
        first = std::min(first, at[2 * c]), last = std::max(last, at[2 * c + 1]);
      }
      ends.all += static_cast<double>(last - first) / 1e3 / kRuns;
    }
    CUDA_CHECK(cudaFree(marks));
    std::sort(ends.of_cta.begin(), ends.of_cta.end());
    return ends;
  }
  void report_ends(const char* benchmark, int ctas, int stages, const Ends& ends, const Json& found) {
    Json row;
    row.integer("ctas", ctas)
        .integer("threads", kWarps * 32)
        .integer("block_bytes", kWarps * stages * kCopyBytes)
        .integer("stages", kWarps * stages)
        .integer("bytes", ctas * ends.region)
        .append(found);
    Timing timing;
    timing.ok = true;
    timing.us = timing.median_us = timing.min_us = timing.p90_us = ends.all;
    timing.samples = kRuns;
    report.micro(benchmark, row, timing);
  }

  // The median CTA, and those that take less than 93 % of it.
  void port_ends() {
    constexpr double kFast = 0.93;
    for (int stages = 1; stages <= kMostStages; ++stages) {
      const Ends ends = stream(device.sms(), stages, 64);
      const double usual = ends.of_cta[ends.of_cta.size() / 2];
      const auto fast = std::lower_bound(ends.of_cta.begin(), ends.of_cta.end(), kFast * usual) - ends.of_cta.begin();
      Json found;
      found.number("usual_us", usual, 3).integer("fast_units", fast);
      if (fast > 0)
        found.number("fast_us",
                     std::accumulate(ends.of_cta.begin(), ends.of_cta.begin() + fast, 0.0) / static_cast<double>(fast),
                     3);
      report_ends("port_ends", device.sms(), stages, ends, found);
    }
  }

  // Few CTAs: those that take more than 95 % of what the slowest does share a group of SMs (a GPC), whose rate is theirs together.
  void group_ends() {
    constexpr double kSlow = 0.95;
    for (const int ctas : {1, 2, 4, 8, 12, 16, 24, 33, 40, 48, 66}) {
      if (ctas > device.sms()) continue;
      const Ends ends = stream(ctas, kMostStages, 256);
      const auto slow = std::upper_bound(ends.of_cta.begin(), ends.of_cta.end(), kSlow * ends.of_cta.back());
      const auto units = static_cast<double>(ends.of_cta.end() - slow);
      const double us = std::accumulate(slow, ends.of_cta.end(), 0.0) / units;
      report_ends("group_ends", ctas, kMostStages, ends,
                  Json()
                      .integer("slow_units", std::llround(units))
                      .number("slow_us", us, 3)
                      .number("slow_tbps", units * static_cast<double>(ends.region) / us / 1e6, 3));
    }
  }
};

}  // namespace

void run_micro_ports(const Device& device, Timer& timer, const Pool& pool, Report& report) {
  CUDA_CHECK(cudaFuncSetAttribute(port_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kWarps * kMostStages * kCopyBytes));
  CUDA_CHECK(cudaFuncSetAttribute(box_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostStages * (kBoxes * kBoxBytes + 16384)));
  Ports ports{device, timer, pool, report};
  ports.shared_reads();
  ports.port_ends();
  ports.group_ends();
  ports.boxes();
  report.note("micro: ports");
}

}  // namespace harness
