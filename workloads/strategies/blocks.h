// What strategies share: device arithmetic, the chain of kernels, and the helper kernels around the projections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hwmodels/build_machine.h"
#include "sim/units/clock.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

inline constexpr std::int64_t kSchedulers = 4;  // of a unit: each issues an instruction of a warp a clock

// On-chip memory of a unit passes 32 words of 4 bytes a clock (CUDA C++ programming guide, compute capability 5 and later).
inline constexpr double kSharedBytesPerClock = 128;

// Numbers of the device in the form in which item classes need them.
class Device {
 public:
  Device(const HardwareModel& hardware, double clock_hz) : hardware_(hardware), clock_(Hertz(clock_hz)) {}
  // The same while matrix instructions run.
  [[nodiscard]] Device multiplying() const;
  [[nodiscard]] const HardwareModel& hardware() const { return hardware_; }
  [[nodiscard]] std::int64_t units() const;
  // Of `count` items that read the same at the same time, each `stride` items after the one before, those behind one port.
  [[nodiscard]] double sharers(std::int64_t count, std::int64_t stride = 1) const;
  [[nodiscard]] double seconds(double cycles) const { return clock_.seconds(Cycles(cycles)); }
  [[nodiscard]] Duration duration(double cycles) const { return clock_.duration(Cycles(cycles)); }
  // Dependent reads that hit the last-level cache.
  [[nodiscard]] Duration cache_round_trips(double count) const;
  // Seconds that a unit's pipe needs.
  [[nodiscard]] double vector_seconds(double multiply_adds, double conversions) const;
  [[nodiscard]] double load_port_seconds(double bytes) const;
  // A warp's instructions one after another, 4 clocks each: the dependent-issue latency of integer and float32
  // arithmetic from Volta on (Jia et al., arXiv 1804.06826). A CTA that begins or ends has one warp on each scheduler,
  // and most of its instructions wait for the one before.
  [[nodiscard]] Duration code(double instructions) const;
  [[nodiscard]] std::int64_t occupancy(const LaunchShape& shape) const { return moesim::occupancy(hardware_, shape); }
  // Of the last-level cache, what repeated reads can use.
  [[nodiscard]] double useful_cache_bytes() const {
    return hardware_[Hw::kLlcCapacity] * hardware_[Hw::kLlcUsefulFraction];
  }
  // What the slowest of the lines of memory that a warp waits for together takes longer than one.
  [[nodiscard]] static Duration latency_spread(double lines);
  [[nodiscard]] double constant(Hw id) const { return hardware_[id]; }

 private:
  const HardwareModel& hardware_;
  Clock clock_;
};

inline constexpr double kLineBytes = 128;  // of a memory's line

// Vector work to bring one stored weight to the type that is multiplied.
struct DequantWork {
  double conversions = 0;
  double multiply_adds = 0;
};
// To float32 for products on the vector pipe.
DequantWork dequant_to_float(WeightFormat format);
// To the activations' type for the matrix pipe; zero where the matrix pipe takes the format as it is.
DequantWork dequant_to_matrix(WeightFormat weights, WeightFormat activations);

// For timelines: all active experts and their rows, for items that go through them in this order.
void label_experts(Kernel& kernel, const MoeLayer& layer, LabelOrder order);

// Constants fitted to an implementation's projection ("up.", "down.") or other kernel. A chain applies those of kernels that
// do one thing by itself.
void apply_constants(ItemClass& item, const ImplementationConstants& constants, const std::string& prefix);

// Kernels of one queue, each after the one before. Leaves out kernels of other stages when only one stage is asked for.
class Chain {
 public:
  // A compiled program on a sequential grid has one way for an operation to follow another.
  explicit Chain(const LowerRequest& request)
      : request_(request), builder_(request.hardware.grid == Grid::kSequential ? LaunchMode::kGraph : request.launch) {}
  RegionId region(std::string name, Bytes bytes) { return builder_.add_region(std::move(name), bytes); }
  // Nothing when the kernel does not fit a unit; the reason is kept.
  void add(Kernel kernel, const LaunchShape& shape);
  // The same on a sequential grid, with `on_chip` bytes of buffers.
  void add_sequential(Kernel kernel, Bytes on_chip);
  // The kernels of a plan that is a chain too.
  // Kernels from now on are of this layer of a model (-1: of none).
  void begin_layer(std::int32_t layer) { builder_.begin_layer(layer); }
  void append(ExecutionPlan plan) { last_ = builder_.append(std::move(plan), last_); }
  [[nodiscard]] bool wants(const std::string& stage) const { return request_.stage.empty() || request_.stage == stage; }
  // The plan, or why there is none.
  Lowered seal();

 private:
  void append_kernel(Kernel kernel);

  const LowerRequest& request_;
  PlanBuilder builder_;
  std::optional<KernelId> last_;
  std::string infeasible_;
};

// The value of a parameter, or `fallback`.
std::int64_t parameter(const LowerRequest& request, const std::string& name, std::int64_t fallback);

// An elementwise kernel: `ctas` CTAs that each read `read` bytes, which are in the cache, in `rounds` dependent rounds of
// loads and write `write`.
Kernel elementwise(const Device& device, std::string name, std::string stage, std::int64_t ctas, double read,
                   double write, std::int64_t rounds);
inline constexpr std::int64_t kHelperThreads = 128;
inline constexpr std::int64_t kElementsPerCta = 1024;  // of an elementwise kernel, 8 a thread
inline constexpr double kBytes16 = 2;                  // intermediates are 16-bit

// --- helper kernels; each adds itself to the chain when its stage is wanted ---

// Of a whole layer, what comes before its routed experts: router product (tokens x experts x hidden; none with parameter
// router=0), top-k and, for strategies that group rows, the grouping by expert; in a latent MoE the hidden state of all
// tokens to the width of the experts. And what comes after them: the combined rows back to the hidden width; shared
// experts' FFN, as dense products of all tokens. Nothing of the experts' scope.
void add_before_experts(Chain& chain, const LowerRequest& request, bool grouped, std::int64_t row_tile);
void add_after_experts(Chain& chain, const LowerRequest& request);
// Small kernels of a stack that do nothing of the layer's own: as many as parameter extra_launches says.
void add_extra_launches(Chain& chain, const LowerRequest& request);
// Activations of `rows` rows of `width` to fp8 with a scale per 128.
void add_quantise(Chain& chain, const LowerRequest& request, const std::string& stage, std::int64_t rows,
                  std::int64_t width);
// Copies each pick's input row to its place in expert order.
void add_permute(Chain& chain, const LowerRequest& request);
// SiLU(gate) * up for `rows` picks.
void add_activation(Chain& chain, const LowerRequest& request);
// Weighted sum of a token's picks, in token order.
void add_combine(Chain& chain, const LowerRequest& request);

}  // namespace moesim
