#include "tests/testkit/kernels.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moesim::testkit {
namespace {

// Bisection runs on y = log(factor - 1) between these, which leaves 1e-14 of y's range after kBisections halvings.
constexpr double kLowestLog = -30;
constexpr double kHighestLog = 14;
constexpr int kBisections = 52;

double load_over_peak(const Machine& machine, std::span<const ActiveFlow> flows, std::span<const double> factors,
                      std::size_t channel) {
  double load = 0;
  for (const ActiveFlow& f : flows) load += f.items * f.flow->bytes[channel] / reference_step(*f.flow, factors);
  return load / machine.channels[channel].peak.value();
}

// Solves channels [channel, end) with the factors of those before held. u = (1 - f^-p)^(1/p).
void solve_from(const Machine& machine, std::span<const ActiveFlow> flows, std::vector<double>& factors,
                std::size_t channel) {
  if (channel == machine.channels.size()) return;
  const double p = machine.channels[channel].knee;
  double low = kLowestLog, high = kHighestLog;
  for (int i = 0; i < kBisections; ++i) {
    const double queue = std::exp(0.5 * (low + high));
    factors[channel] = 1 + queue;
    solve_from(machine, flows, factors, channel + 1);
    const double use = std::pow(-std::expm1(-p * std::log1p(queue)), 1 / p);
    (load_over_peak(machine, flows, factors, channel) > use ? low : high) = 0.5 * (low + high);
  }
}

PlanBuilder add_all(std::vector<Kernel> kernels, LaunchMode mode) {
  PlanBuilder builder(mode);
  std::optional<KernelId> last;
  for (Kernel& kernel : kernels) {
    for (ItemGroup& group : kernel.groups) {
      const Bytes read = kernel.classes[group.item_class].read;
      if (!group.region && read > Bytes(0)) group.region = builder.add_region("own", read * group.count);
    }
    const KernelId id = builder.add_kernel(std::move(kernel));
    if (last) builder.add_dependence(*last, id);
    last = id;
  }
  return builder;
}

}  // namespace

Duration microseconds(double us) { return duration_from_seconds(us * 1e-6); }
Duration nanoseconds(double ns) { return duration_from_seconds(ns * 1e-9); }

Machine memory_machine(std::int64_t units) {
  Machine machine;
  machine.units = units;
  machine.unit_capacity = {0, 0, kUnitBytes, kUnitItems};
  machine.channels = {{"memory", BytesPerSecond(kMemoryPeak), duration_from_seconds(kMemoryLatency), 2}};
  return machine;
}

Machine cached_machine(std::int64_t units) {
  Machine machine = memory_machine(units);
  machine.caches = {{Bytes(kCacheBytes), 0}};
  machine.channels.insert(machine.channels.begin(),
                          {"cache", BytesPerSecond(kCachePeak), duration_from_seconds(kCacheLatency), 2});
  return machine;
}

ResourceVector items_a_unit(std::int64_t items) { return {0, 0, kUnitBytes / items, 1}; }

Kernel one_group(const ItemClass& item, std::int64_t items, std::int64_t a_unit, std::optional<RegionId> region) {
  Kernel kernel;
  kernel.name = "kernel";
  kernel.footprint = items_a_unit(a_unit);
  kernel.classes = {item};
  ItemGroup group;
  group.count = items;
  group.region = region;
  kernel.groups = {group};
  return kernel;
}

ExecutionPlan plan_of(Kernel kernel) { return chain_of({std::move(kernel)}); }

ExecutionPlan chain_of(std::vector<Kernel> kernels, LaunchMode mode) {
  return add_all(std::move(kernels), mode).seal();
}

Duration blamed(const Attribution& attribution, Blame blame) { return attribution[static_cast<std::size_t>(blame)]; }

double share_of(const SimulationResult& result, Blame blame) {
  return blamed(result.attribution, blame).as_double() / result.total.as_double();
}

double knee_rate(double offered, double peak, double p) {
  const double low = std::min(offered, peak), high = std::max(offered, peak);  // so that no power overflows
  return low * std::pow(1 + std::pow(low / high, p), -1 / p);
}

std::vector<double> reference_factors(const Machine& machine, std::span<const ActiveFlow> flows) {
  std::vector<double> factors(machine.channels.size(), 1.0);
  solve_from(machine, flows, factors, 0);
  return factors;
}

double reference_step(const FlowClass& flow, std::span<const double> factors) {
  double latency = flow.serial;
  for (std::size_t j = 0; j < factors.size(); ++j) latency += flow.hop[j] + flow.queue[j] * (factors[j] - 1);
  return std::max({latency / flow.stages, flow.floor, 1e-15});
}

double reference_fill(const Machine& machine, const FlowClass& flow, double items, double rounds) {
  double fill = 0;
  for (std::size_t j = 0; j < machine.channels.size(); ++j) {
    const double latency = flow.hop[j];
    if (latency == 0) continue;
    const double peak = machine.channels[j].peak.value();
    const double offered = items * flow.stages * flow.bytes[j] / latency;
    const double factor = offered == 0 ? 1 : offered / knee_rate(offered, peak, machine.channels[j].knee);
    fill += latency * (1 - (factor - offered / peak) / rounds);
  }
  return fill;
}

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

double Random::uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
double Random::between(double low, double high) { return low + (high - low) * uniform(); }
double Random::spread(double low, double high) { return low * std::pow(high / low, uniform()); }
std::int64_t Random::whole(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

}  // namespace moesim::testkit
