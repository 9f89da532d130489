// What every part of the harness shares: checks, the device, clocks, JSON lines, routed traces, timing by graph slope.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

void check(cudaError_t status, const char* expression, const char* file, int line);
#define CUDA_CHECK(expression) ::harness::check((expression), #expression, __FILE__, __LINE__)

// An object of a JSON line; keys keep their order.
class Json {
 public:
  Json& text(std::string_view key, std::string_view value);
  Json& number(std::string_view key, double value, int digits = 4);
  Json& integer(std::string_view key, std::int64_t value);
  Json& flag(std::string_view key, bool value);
  Json& raw(std::string_view key, std::string_view json);
  Json& append(const Json& other);  // the other's fields after ours
  std::string str() const { return "{" + body_ + "}"; }

 private:
  void key(std::string_view key);
  std::string body_;
};

// One kernel of a captured repetition, read back from the graph: libraries' kernels included.
struct KernelFact {
  std::string name;
  unsigned grid[3], block[3];
  int registers = 0;  // 0: the driver would not tell
  std::int64_t shared_bytes = 0;
  unsigned cluster = 1;
  int count = 1;
};
std::string to_json(const std::vector<KernelFact>& kernels);

// The card, its clocks and why they are low. Works without NVML: then clocks are 0 and left out.
class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const cudaDeviceProp& properties() const { return properties_; }
  int sms() const { return properties_.multiProcessorCount; }
  std::int64_t l2_bytes() const { return properties_.l2CacheSize; }
  std::string label() const;  // "h200" of "NVIDIA H200"
  std::string driver() const;
  int sm_mhz() const;
  int max_sm_mhz() const;
  int max_memory_mhz() const;
  std::uint64_t throttle_reasons() const;
  double power_w() const;
  double power_limit_w() const;

 private:
  cudaDeviceProp properties_{};
  void* library_ = nullptr;
  void* handle_ = nullptr;
};

struct Options {
  std::string output = "cuda-measurements";
  bool quick = false;
  std::uint64_t seed = 20260101;
  double budget_s = 460;
  std::string only;  // "", "micro" or "moe"
  std::string command;
};

// Where rows go. `refused` counts kernels that gave a wrong result: their rows are left out and the exit status tells.
class Report {
 public:
  Report(const Options& options, const Device& device);
  ~Report();
  void micro(std::string_view benchmark, Json parameters, const struct Timing& timing);
  void line(const Json& row);
  void refuse(const std::string& what);
  void note(const std::string& what) const;  // progress, stderr
  void summary(const std::string& line) { summary_.push_back(line); }
  std::string routed_trace(const std::string& stem, const std::vector<std::int16_t>& picks, int repeats, int tokens,
                           int topk);
  void write_provenance() const;
  void print_summary() const;
  int refused() const { return refused_; }
  double elapsed_s() const;
  bool out_of_time() const { return elapsed_s() > options_.budget_s; }
  std::string source() const;

 private:
  const Options& options_;
  const Device& device_;
  std::FILE* file_ = nullptr;
  std::vector<std::string> summary_;
  int refused_ = 0;
  double start_ = 0;
};

// A repetition of a sequence of kernels: `launch(stream, repetition)` queues it. `rotation` repetitions touch distinct
// buffers, and the mean is taken over whole rotations.
struct Sequence {
  std::string label;
  std::function<void(cudaStream_t, int)> launch;
  int rotation = 1;
  int nodes = 1;  // kernels of a repetition, about
};

struct Timing {
  bool ok = false;
  double us = 0, median_us = 0, min_us = 0, p90_us = 0;
  int samples = 0, chains = 0;
  double sm_mhz = 0;  // at which `us` was taken: an SM's clocks over the long graph's time
  std::uint64_t reasons = 0;
  std::vector<KernelFact> kernels;
  bool power_capped() const { return (reasons & 0x4) != 0; }
};

struct TimingOptions {
  int samples = 9;
  double long_us = 2500;
  bool graph = true;  // false: the same launches queued in a stream
};

// Times all sequences in one visit: in each round every sequence's long and short graph once, all in random order.
class Timer {
 public:
  Timer(const Device& device, std::uint64_t seed);
  ~Timer();
  std::vector<Timing> run(const std::vector<Sequence>& sequences, const TimingOptions& options = {});
  Timing run(const Sequence& sequence, const TimingOptions& options = {});
  cudaStream_t stream() const { return stream_; }

 private:
  struct Lap {
    double us = 0, sm_mhz = 0;
  };
  Lap once(cudaGraphExec_t graph, const Sequence& sequence, int repetitions, std::uint64_t* reasons = nullptr);
  const Device& device_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  struct ClockMark* marks_ = nullptr;  // of each SM before a graph, then after it
  std::mt19937_64 random_;
};

// Launches with programmatic overlap: the kernel may start before the one ahead of it in the stream has finished.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
            bool programmatic, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace harness
