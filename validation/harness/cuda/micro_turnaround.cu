// How long a slot of an SM stays empty between two CTAs: CTAs that do nothing for so many clocks, of many waves, timed one by one
// on their SM's clock.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "device_math.cuh"
#include "micro.cuh"

namespace harness {
namespace {

struct Marks {
  long long start, end;               // clocks of its SM
  unsigned long long begun, stopped;  // ns
  unsigned sm;
};

__global__ void spin_kernel(long long clocks, Marks* marks) {
  const long long start = clock64();
  const unsigned long long begun = threadIdx.x == 0 ? global_ns() : 0;
  while (clock64() - start < clocks) {
  }
  const unsigned long long stopped = threadIdx.x == 0 ? global_ns() : 0;
  __syncthreads();
  const long long end = clock64();
  unsigned sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  if (threadIdx.x == 0) marks[blockIdx.x] = {start, end, begun, stopped, sm};
}

struct Found {
  double us = 0;      // of the kernel, from its first CTA's start to its last one's end
  double gap = 0;     // clocks from an end to the start that takes its slot
  double clocks = 0;  // of a CTA
};

// On an SM the i-th end frees what the (i + slots)-th start takes.
Found find(const std::vector<Marks>& marks, std::size_t slots) {
  std::map<unsigned, std::pair<std::vector<long long>, std::vector<long long>>> of_sm;
  Found found;
  unsigned long long begun = marks[0].begun, stopped = 0;
  for (const Marks& m : marks) {
    of_sm[m.sm].first.push_back(m.start);
    of_sm[m.sm].second.push_back(m.end);
    begun = std::min(begun, m.begun), stopped = std::max(stopped, m.stopped);
    found.clocks += static_cast<double>(m.end - m.start) / static_cast<double>(marks.size());
  }
  found.us = static_cast<double>(stopped - begun) / 1e3;
  double gaps = 0;
  for (auto& [sm, times] : of_sm) {
    auto& [starts, ends] = times;
    std::sort(starts.begin(), starts.end());
    std::sort(ends.begin(), ends.end());
    for (std::size_t i = 0; i + slots < starts.size(); ++i, ++gaps)
      found.gap += static_cast<double>(starts[i + slots] - ends[i]);
  }
  found.gap /= std::max(1.0, gaps);
  return found;
}

}  // namespace

void run_micro_turnaround(const Device& device, Timer& timer, Report& report) {
  constexpr int kWaves = 24, kRuns = 5, kMostSlots = 16;
  constexpr int kUnitShared = 228 << 10, kReserved = 1 << 10;
  CUDA_CHECK(cudaFuncSetAttribute(spin_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kUnitShared - kReserved));
  const auto most = static_cast<std::size_t>(device.sms() * kMostSlots * kWaves);
  Marks* on_device = nullptr;
  CUDA_CHECK(cudaMalloc(&on_device, most * sizeof(Marks)));
  for (const int threads : {32, 128, 512})
    for (const int slots : {1, 2, 4, 8, 16})
      for (const int clocks : {2000, 8000}) {
        const int shared = kUnitShared / slots - kReserved;  // so that no more fit
        int resident = 0;
        CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, spin_kernel, threads,
                                                                 static_cast<std::size_t>(shared)));
        if (resident != slots) continue;  // too many threads
        const int ctas = device.sms() * slots * kWaves;
        std::vector<Found> runs;
        for (int run = 0; run <= kRuns; ++run) {  // the first one loads the code
          spin_kernel<<<static_cast<unsigned>(ctas), static_cast<unsigned>(threads), static_cast<std::size_t>(shared),
                        timer.stream()>>>(clocks, on_device);
          std::vector<Marks> marks(static_cast<std::size_t>(ctas));
          CUDA_CHECK(cudaMemcpyAsync(marks.data(), on_device, marks.size() * sizeof(Marks), cudaMemcpyDeviceToHost,
                                     timer.stream()));
          CUDA_CHECK(cudaStreamSynchronize(timer.stream()));
          if (run > 0) runs.push_back(find(marks, static_cast<std::size_t>(slots)));
        }
        std::sort(runs.begin(), runs.end(), [](const Found& a, const Found& b) { return a.us < b.us; });
        const Found& median = runs[kRuns / 2];
        Timing timing;
        timing.ok = true;
        timing.us = timing.median_us = median.us;
        timing.min_us = runs.front().us;
        timing.p90_us = runs.back().us;
        timing.samples = kRuns;
        timing.sm_mhz = device.sm_mhz();
        report.micro("cta_turnaround",
                     Json()
                         .integer("ctas", ctas)
                         .integer("ctas_per_unit", slots)
                         .integer("threads", threads)
                         .integer("shared_bytes", shared)
                         .integer("cta_clocks", std::llround(median.clocks))
                         .number("gap_clocks", median.gap, 1),
                     timing);
      }
  CUDA_CHECK(cudaFree(on_device));
  report.note("micro: turnaround of CTAs");
}

}  // namespace harness
