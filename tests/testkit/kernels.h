// Small machines and kernels in round numbers, whose times can be solved by hand, and the hand's own solver.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/channel_solver.h"
#include "sim/engine/simulate.h"

namespace moesim {

// For messages of failed tests.
template <class Tag, class Rep>
void PrintTo(const Quantity<Tag, Rep>& quantity, std::ostream* out) {
  *out << quantity.value();
}

}  // namespace moesim

namespace moesim::testkit {

inline constexpr double kMicro = 1e-6;          // seconds
inline constexpr double kMemoryPeak = 1e12;     // bytes a second
inline constexpr double kMemoryLatency = 1e-6;  // seconds
inline constexpr double kCachePeak = 1e13;      // bytes a second
inline constexpr double kCacheLatency = 1e-7;   // seconds
inline constexpr std::int64_t kCacheBytes = 1 << 20;
inline constexpr std::int64_t kUnitItems = 64;       // item slots of a unit
inline constexpr std::int64_t kUnitBytes = 1 << 16;  // on-chip bytes of a unit

Duration microseconds(double us);
Duration nanoseconds(double ns);

// `units` units and one memory channel without a cache: 1 TB/s, 1 us, knee 2; launches and dispatch take no time.
Machine memory_machine(std::int64_t units);
// The same with a cache of kCacheBytes in front: 10 TB/s, 0.1 us, knee 2, no fill weight.
Machine cached_machine(std::int64_t units);

// On-chip bytes so that a unit holds just `items` of them.
ResourceVector items_a_unit(std::int64_t items);

// `items` alike items in one group, `a_unit` of them on a unit. They read `region` if one is given.
Kernel one_group(const ItemClass& item, std::int64_t items, std::int64_t a_unit,
                 std::optional<RegionId> region = std::nullopt);

// A plan of one kernel, launched from a graph. Its groups without a region that read bytes get one of their own.
ExecutionPlan plan_of(Kernel kernel);
// `kernels` in a chain; regions as above.
ExecutionPlan chain_of(std::vector<Kernel> kernels, LaunchMode mode = LaunchMode::kGraph);

Duration blamed(const Attribution& attribution, Blame blame);
double share_of(const SimulationResult& result, Blame blame);

// R = (offered^-p + peak^-p)^(-1/p): bytes a second of flows that alone would take `offered`.
double knee_rate(double offered, double peak, double p);

// Latency factors of all channels for these flows, found without ChannelSolver: bisection, nested over the channels.
std::vector<double> reference_factors(const Machine& machine, std::span<const ActiveFlow> flows);
// Step time of a flow under these factors, from the equation in channel_solver.h.
double reference_step(const FlowClass& flow, std::span<const double> factors);

// L (1 - (f - t) / rounds), summed over the channels that serve the flow; t = n s b / (L P), f = (1 + t^p)^(1/p).
double reference_fill(const Machine& machine, const FlowClass& flow, double items, double rounds);

// Numbers that are the same on every machine (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                                         // [0, 1)
  double between(double low, double high);                  // evenly
  double spread(double low, double high);                   // evenly in the logarithm
  std::int64_t whole(std::int64_t low, std::int64_t high);  // inclusive
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace moesim::testkit
