#include <cuda.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "device_math.cuh"
#include "harness.cuh"

namespace harness {

// An SM's clocks and the card's time at one moment.
struct ClockMark {
  long long clocks;
  unsigned long long ns;  // 0: no CTA came to this SM
};

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// NVML is loaded at run time: the program builds and runs without it.
struct Nvml {
  int (*init)() = nullptr;
  int (*by_pci)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*max_clock)(void*, int, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
};
Nvml& nvml() {
  static Nvml functions;
  return functions;
}
constexpr int kNvmlClockSm = 1, kNvmlClockMemory = 2;

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
}

template <class F>
F driver_function(const char* name, unsigned version) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion(name, &pointer, version, cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<F>(pointer);
}

std::string short_name(const char* mangled) {
  int status = 0;
  char* plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 && plain ? plain : mangled;
  std::free(plain);
  if (name.rfind("void ", 0) == 0) name = name.substr(5);
  for (const std::string part : {"(anonymous namespace)::", "harness::"})
    for (std::size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
  int depth = 0;  // drop the argument list, keep template arguments
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0 && i > 0) {
      name.resize(i);
      break;
    }
  }
  return name.size() > 120 ? name.substr(0, 120) : name;
}

std::vector<KernelFact> facts_of(cudaGraph_t graph) {
  static auto get_params =
      driver_function<CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>("cuGraphKernelNodeGetParams", 12000);
  static auto get_name = driver_function<CUresult (*)(const char**, CUfunction)>("cuFuncGetName", 12030);
  static auto get_attribute =
      driver_function<CUresult (*)(int*, CUfunction_attribute, CUfunction)>("cuFuncGetAttribute", 12000);
  static auto get_function = driver_function<CUresult (*)(CUfunction*, CUkernel)>("cuKernelGetFunction", 12000);
  static auto node_attribute = driver_function<CUresult (*)(CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue*)>(
      "cuGraphKernelNodeGetAttribute", 12000);
  std::vector<KernelFact> facts;
  if (!get_params || !get_name || !get_attribute) return facts;
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    CUDA_KERNEL_NODE_PARAMS params{};
    if (get_params(node, &params) != CUDA_SUCCESS) continue;
    CUfunction function = params.func;
    if (!function && params.kern && get_function) get_function(&function, params.kern);
    KernelFact fact;
    const char* name = nullptr;
    if (function && get_name(&name, function) == CUDA_SUCCESS && name) fact.name = short_name(name);
    const unsigned grid[3] = {params.gridDimX, params.gridDimY, params.gridDimZ};
    const unsigned block[3] = {params.blockDimX, params.blockDimY, params.blockDimZ};
    std::copy(grid, grid + 3, fact.grid);
    std::copy(block, block + 3, fact.block);
    int fixed_shared = 0;
    if (function) {
      get_attribute(&fact.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      get_attribute(&fixed_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    }
    fact.shared_bytes = static_cast<std::int64_t>(params.sharedMemBytes) + fixed_shared;
    CUlaunchAttributeValue cluster{};
    if (node_attribute && node_attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster) == CUDA_SUCCESS)
      fact.cluster = std::max(1u, cluster.clusterDim.x * cluster.clusterDim.y * cluster.clusterDim.z);
    KernelFact* last = facts.empty() ? nullptr : &facts.back();
    if (last && last->name == fact.name && std::equal(grid, grid + 3, last->grid) &&
        std::equal(block, block + 3, last->block))
      ++last->count;
    else
      facts.push_back(fact);
  }
  return facts;
}

__global__ void spin(long long clocks) {
  const long long start = clock64();
  while (clock64() - start < clocks) {
  }
}

__global__ void mark_clocks(ClockMark* marks) {
  unsigned sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  marks[sm] = {clock64(), global_ns()};
}

// Mean clock of the SMs that were marked both times.
double mhz_between(const ClockMark* before, const ClockMark* after, int sms) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < sms; ++i) {
    if (before[i].ns == 0 || after[i].ns <= before[i].ns) continue;
    sum += 1000.0 * static_cast<double>(after[i].clocks - before[i].clocks) /
           static_cast<double>(after[i].ns - before[i].ns);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Of values in order, between the two nearest to `share`.
double quantile(const std::vector<double>& ordered, double share) {
  const double at = share * static_cast<double>(ordered.size() - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, ordered.size() - 1);
  return ordered[low] + (ordered[high] - ordered[low]) * (at - static_cast<double>(low));
}

}  // namespace

void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, expression, cudaGetErrorString(status));
  std::exit(3);
}

// ---- JSON ----

void Json::key(std::string_view name) {
  if (!body_.empty()) body_ += ", ";
  body_ += '"';
  body_ += name;
  body_ += "\": ";
}
Json& Json::text(std::string_view name, std::string_view value) {
  key(name);
  body_ += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') body_ += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) body_ += c;
  }
  body_ += '"';
  return *this;
}
Json& Json::number(std::string_view name, double value, int digits) {
  key(name);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  body_ += std::isfinite(value) ? text : "null";
  return *this;
}
Json& Json::integer(std::string_view name, std::int64_t value) {
  key(name);
  body_ += std::to_string(value);
  return *this;
}
Json& Json::flag(std::string_view name, bool value) {
  key(name);
  body_ += value ? "true" : "false";
  return *this;
}
Json& Json::raw(std::string_view name, std::string_view json) {
  key(name);
  body_ += json;
  return *this;
}
Json& Json::append(const Json& other) {
  if (!body_.empty() && !other.body_.empty()) body_ += ", ";
  body_ += other.body_;
  return *this;
}

std::string to_json(const std::vector<KernelFact>& kernels) {
  std::string all = "[";
  for (const KernelFact& k : kernels) {
    Json row;
    row.text("name", k.name);
    row.raw("grid", "[" + std::to_string(k.grid[0]) + ", " + std::to_string(k.grid[1]) + ", " +
                        std::to_string(k.grid[2]) + "]");
    row.raw("block", "[" + std::to_string(k.block[0]) + ", " + std::to_string(k.block[1]) + ", " +
                         std::to_string(k.block[2]) + "]");
    if (k.registers > 0) row.integer("registers", k.registers);
    row.integer("shared_bytes", k.shared_bytes);
    if (k.cluster > 1) row.integer("cluster", k.cluster);
    row.integer("count", k.count);
    if (all.size() > 1) all += ", ";
    all += row.str();
  }
  return all + "]";
}

// ---- Device ----

Device::Device() {
  CUDA_CHECK(cudaSetDevice(0));
  CUDA_CHECK(cudaGetDeviceProperties(&properties_, 0));
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library_) return;
  Nvml& n = nvml();
  find(library_, "nvmlInit_v2", n.init);
  find(library_, "nvmlDeviceGetHandleByPciBusId_v2", n.by_pci);
  find(library_, "nvmlDeviceGetClockInfo", n.clock);
  find(library_, "nvmlDeviceGetMaxClockInfo", n.max_clock);
  find(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", n.reasons);
  if (!n.reasons) find(library_, "nvmlDeviceGetCurrentClocksEventReasons", n.reasons);
  find(library_, "nvmlDeviceGetPowerUsage", n.power);
  find(library_, "nvmlDeviceGetEnforcedPowerLimit", n.power_limit);
  find(library_, "nvmlSystemGetDriverVersion", n.driver);
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess) return;
  if (!n.init || n.init() != 0 || !n.by_pci || n.by_pci(bus, &handle_) != 0) handle_ = nullptr;
}
Device::~Device() = default;

std::string Device::label() const {
  std::string name = properties_.name;
  const std::string vendor = "NVIDIA ";
  if (name.rfind(vendor, 0) == 0) name = name.substr(vendor.size());
  for (char& c : name) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}
std::string Device::driver() const {
  char text[96] = "unknown";
  if (handle_ && nvml().driver) nvml().driver(text, sizeof text);
  return text;
}
int Device::sm_mhz() const {
  unsigned value = 0;
  if (handle_ && nvml().clock) nvml().clock(handle_, kNvmlClockSm, &value);
  return static_cast<int>(value);
}
int Device::max_sm_mhz() const {
  unsigned value = 0;
  if (handle_ && nvml().max_clock) nvml().max_clock(handle_, kNvmlClockSm, &value);
  return static_cast<int>(value);
}
int Device::max_memory_mhz() const {
  unsigned value = 0;
  if (handle_ && nvml().max_clock) nvml().max_clock(handle_, kNvmlClockMemory, &value);
  return static_cast<int>(value);
}
std::uint64_t Device::throttle_reasons() const {
  unsigned long long value = 0;
  if (handle_ && nvml().reasons) nvml().reasons(handle_, &value);
  return value;
}
double Device::power_w() const {
  unsigned value = 0;
  if (handle_ && nvml().power) nvml().power(handle_, &value);
  return value / 1000.0;
}
double Device::power_limit_w() const {
  unsigned value = 0;
  if (handle_ && nvml().power_limit) nvml().power_limit(handle_, &value);
  return value / 1000.0;
}

// ---- Report ----

Report::Report(const Options& options, const Device& device) : options_(options), device_(device), start_(now_s()) {
  mkdir(options.output.c_str(), 0755);
  mkdir((options.output + "/routes").c_str(), 0755);
  const std::string path = options.output + "/measurements.jsonl";
  file_ = std::fopen(path.c_str(), "w");
  if (!file_) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::exit(2);
  }
}
Report::~Report() { std::fclose(file_); }

double Report::elapsed_s() const { return now_s() - start_; }

std::string Report::source() const {
  int runtime = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  char date[16];
  const std::time_t time = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&time));
  return device_.label() + "-" + date + ", driver " + device_.driver() + ", CUDA " + std::to_string(runtime / 1000) +
         "." + std::to_string(runtime % 1000 / 10) + ", cuda harness";
}

void Report::line(const Json& row) {
  std::fprintf(file_, "%s\n", row.str().c_str());
  std::fflush(file_);
}

void Report::micro(std::string_view benchmark, Json parameters, const Timing& timing) {
  Json row;
  row.text("schema", "moesim.measurement/2").text("kind", "micro").text("device", device_.label());
  row.text("benchmark", benchmark);
  if (timing.ok) {
    row.number("us", timing.us).number("median_us", timing.median_us).number("min_us", timing.min_us);
    row.number("p90_us", timing.p90_us).integer("samples", timing.samples);
    if (timing.sm_mhz > 0)
      row.integer("sm_mhz", std::llround(timing.sm_mhz)).flag("power_capped", timing.power_capped());
  }
  row.append(parameters).text("source", source());
  line(row);
}

void Report::refuse(const std::string& what) {
  ++refused_;
  std::fprintf(stderr, "[%6.1f s] WRONG, refused: %s\n", elapsed_s(), what.c_str());
  summary_.push_back("WRONG " + what);
}
void Report::note(const std::string& what) const { std::fprintf(stderr, "[%6.1f s] %s\n", elapsed_s(), what.c_str()); }

std::string Report::routed_trace(const std::string& stem, const std::vector<std::int16_t>& picks, int repeats,
                                 int tokens, int topk) {
  const std::string relative = "routes/" + stem + ".npy";
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (" + std::to_string(repeats) + ", " +
                       std::to_string(tokens) + ", " + std::to_string(topk) + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(options_.output + "/" + relative, std::ios::binary);
  const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', '\x01', '\x00'};
  file.write(magic, sizeof magic);
  const char length[] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file.write(length, 2);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(picks.data()), static_cast<std::streamsize>(picks.size() * 2));
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", relative.c_str());
    std::exit(2);
  }
  return relative;
}

void Report::write_provenance() const {
  int runtime = 0, driver_cuda = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDriverGetVersion(&driver_cuda));
  char date[32];
  const std::time_t time = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&time));
  Json p;
  p.text("command", options_.command).text("device", device_.properties().name).text("driver", device_.driver());
  p.text("cuda_runtime", std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10));
  p.text("cuda_driver", std::to_string(driver_cuda / 1000) + "." + std::to_string(driver_cuda % 1000 / 10));
  p.integer("nvcc", __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10);
  p.integer("sms", device_.sms()).integer("l2_bytes", device_.l2_bytes());
  p.integer("memory_bytes", static_cast<std::int64_t>(device_.properties().totalGlobalMem));
  p.integer("max_sm_mhz", device_.max_sm_mhz()).integer("max_memory_mhz", device_.max_memory_mhz());
  p.number("power_limit_w", device_.power_limit_w(), 1).integer("seed", static_cast<std::int64_t>(options_.seed));
  p.flag("quick", options_.quick).text("date", date).number("elapsed_s", elapsed_s(), 1).integer("refused", refused_);
  std::ofstream(options_.output + "/provenance.json") << p.str() << "\n";
}

void Report::print_summary() const {
  for (const std::string& text : summary_) std::printf("%s\n", text.c_str());
  std::printf("%d kernel(s) refused; %.0f s\n", refused_, elapsed_s());
}

// ---- Timer ----

Timer::Timer(const Device& device, std::uint64_t seed) : device_(device), random_(seed) {
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreate(&begin_));
  CUDA_CHECK(cudaEventCreate(&end_));
  CUDA_CHECK(cudaMallocHost(&marks_, 2 * static_cast<std::size_t>(device.sms()) * sizeof(ClockMark)));
}
Timer::~Timer() {
  cudaFreeHost(marks_);
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

namespace {
cudaGraph_t capture(cudaStream_t stream, const Sequence& sequence, int repetitions) {
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < repetitions; ++i) sequence.launch(stream, i);
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}
cudaGraphExec_t instantiate(cudaStream_t stream, const Sequence& sequence, int repetitions,
                            std::vector<KernelFact>* facts) {
  cudaGraph_t graph = capture(stream, sequence, repetitions);
  if (facts) *facts = facts_of(graph);
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphDestroy(graph));
  CUDA_CHECK(cudaGraphUpload(exec, stream));
  return exec;
}
}  // namespace

// The spin keeps the device busy while the host queues, so that the host's pace is not in the time. The clock marks lie outside
// of what is timed.
Timer::Lap Timer::once(cudaGraphExec_t graph, const Sequence& sequence, int repetitions, std::uint64_t* reasons) {
  const int sms = device_.sms();
  std::fill(marks_, marks_ + 2 * sms, ClockMark{});
  spin<<<1, 1, 0, stream_>>>(graph ? 60000LL + 500LL * sequence.nodes * repetitions
                                   : std::min(20000000LL, 12000LL * sequence.nodes * repetitions));
  mark_clocks<<<sms, 1, 0, stream_>>>(marks_);
  CUDA_CHECK(cudaEventRecord(begin_, stream_));
  if (graph)
    CUDA_CHECK(cudaGraphLaunch(graph, stream_));
  else
    for (int i = 0; i < repetitions; ++i) sequence.launch(stream_, i);
  CUDA_CHECK(cudaEventRecord(end_, stream_));
  mark_clocks<<<sms, 1, 0, stream_>>>(marks_ + sms);
  if (reasons) *reasons |= device_.throttle_reasons();  // under load: the work is queued and running
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  CUDA_CHECK(cudaGetLastError());
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
  return {1000.0 * ms, mhz_between(marks_, marks_ + sms, sms)};
}

std::vector<Timing> Timer::run(const std::vector<Sequence>& sequences, const TimingOptions& options) {
  constexpr int kMostNodes = 3000;
  constexpr double kQuantile = 0.1;  // of the slopes: the time, and its clock
  struct State {
    cudaGraphExec_t graph[2] = {nullptr, nullptr};
    int repetitions[2] = {1, 2};
    std::vector<std::pair<double, double>> slopes;  // and the clock of the long graph
  };
  std::vector<State> states(sequences.size());
  std::vector<Timing> results(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = sequences[i];
    State& state = states[i];
    cudaGraphExec_t first = instantiate(stream_, sequence, 1, &results[i].kernels);
    CUDA_CHECK(cudaGraphExecDestroy(first));
    // A rough time a repetition, replay cost included: enough to choose the lengths.
    cudaGraphExec_t probe = instantiate(stream_, sequence, sequence.rotation, nullptr);
    once(probe, sequence, sequence.rotation);
    const double rough = std::max(0.3, once(probe, sequence, sequence.rotation).us / sequence.rotation);
    CUDA_CHECK(cudaGraphExecDestroy(probe));
    const int most = std::max(2 * sequence.rotation, kMostNodes / std::max(1, sequence.nodes));
    const int wanted = std::clamp(static_cast<int>(options.long_us / rough), 2 * sequence.rotation, most);
    const int rotations = std::max(2, wanted / sequence.rotation);
    const int brief = std::max(1, rotations / 4);
    state.repetitions[0] = brief * sequence.rotation;
    state.repetitions[1] = rotations * sequence.rotation;
    for (int k = 0; k < 2 && options.graph; ++k)
      state.graph[k] = instantiate(stream_, sequence, state.repetitions[k], nullptr);
    once(state.graph[0], sequence, state.repetitions[0]);
  }
  std::vector<int> order(sequences.size() * 2);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (int sample = 0; sample < options.samples; ++sample) {
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<Lap> laps(order.size());
    for (int at : order) {
      const std::size_t i = static_cast<std::size_t>(at) / 2;
      const int k = at % 2;
      const bool asked = k == 1 && sample % 3 == 1;
      laps[static_cast<std::size_t>(at)] =
          once(states[i].graph[k], sequences[i], states[i].repetitions[k], asked ? &results[i].reasons : nullptr);
    }
    for (std::size_t i = 0; i < sequences.size(); ++i)
      states[i].slopes.emplace_back(
          (laps[2 * i + 1].us - laps[2 * i].us) / (states[i].repetitions[1] - states[i].repetitions[0]),
          laps[2 * i + 1].sm_mhz);
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (cudaGraphExec_t graph : states[i].graph)
      if (graph) CUDA_CHECK(cudaGraphExecDestroy(graph));
    std::sort(states[i].slopes.begin(), states[i].slopes.end());
    std::vector<double> slopes, clocks;
    for (const auto& [us, mhz] : states[i].slopes) slopes.push_back(us), clocks.push_back(mhz);
    Timing& t = results[i];
    t.ok = true;
    t.us = quantile(slopes, kQuantile);
    t.sm_mhz = quantile(clocks, kQuantile);
    t.median_us = quantile(slopes, 0.5);
    t.min_us = slopes.front();
    t.p90_us = quantile(slopes, 0.9);
    t.samples = options.samples;
    t.chains = states[i].repetitions[1];
  }
  return results;
}

Timing Timer::run(const Sequence& sequence, const TimingOptions& options) {
  return run(std::vector<Sequence>{sequence}, options)[0];
}

}  // namespace harness
