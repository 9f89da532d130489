// The solver against bisection and against the equations that define its answer.
#include "sim/engine/channel_solver.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

Machine random_machine(Random& random, std::size_t channels) {
  Machine machine;
  for (std::size_t j = 0; j < channels; ++j) {
    if (j > 0) machine.caches.emplace_back();
    const double knee = random.chance(0.4) ? 2 : random.spread(1, 12);
    machine.channels.push_back(
        {"c", BytesPerSecond(random.spread(1e11, 2e13)), nanoseconds(random.between(50, 900)), knee});
  }
  return machine;
}

// A step as the engine makes them: bytes served by one channel pass all before it.
FlowClass random_flow(Random& random, const Machine& machine, bool floors) {
  FlowClass flow;
  const double bytes = random.spread(16, 65536);
  double reaching = 1;
  for (std::size_t j = 0; j < machine.channels.size(); ++j) {
    const bool last = j + 1 == machine.channels.size();
    const double beyond = last ? 0 : reaching * (random.chance(0.3) ? 1.0 : random.uniform());
    const double latency = to_seconds(machine.channels[j].latency);
    flow.bytes[j] = bytes * (reaching + (last ? 0 : 0.5 * beyond));
    flow.hop[j] = (reaching - beyond) * latency;
    flow.queue[j] = reaching * latency;
    reaching = beyond;
  }
  flow.stages = static_cast<double>(random.whole(1, 16));
  if (random.chance(0.5)) flow.serial = random.spread(1e-9, 1e-6);
  if (floors && random.chance(0.7)) flow.floor = random.spread(1e-9, 3e-6);
  return flow;
}

struct Instance {
  Machine machine;
  std::vector<FlowClass> classes;
  std::vector<ActiveFlow> flows;
};

// Largest of the channels' offered load (no queue, no floor) over its peak.
double offered_over_peak(const Instance& instance) {
  double largest = 0;
  for (std::size_t j = 0; j < instance.machine.channels.size(); ++j) {
    double load = 0;
    for (const ActiveFlow& f : instance.flows) {
      double latency = f.flow->serial;
      for (const double hop : f.flow->hop) latency += hop;
      load += f.items * f.flow->bytes[j] * f.flow->stages / latency;
    }
    largest = std::max(largest, load / instance.machine.channels[j].peak.value());
  }
  return largest;
}

// `offered`: over peak, of the channel that has most of it.
Instance random_instance(Random& random, std::size_t channels, bool floors, double offered) {
  Instance instance{random_machine(random, channels), {}, {}};
  const std::int64_t count = random.whole(1, 6);
  for (std::int64_t i = 0; i < count; ++i) instance.classes.push_back(random_flow(random, instance.machine, floors));
  for (const FlowClass& flow : instance.classes) instance.flows.push_back({&flow, random.spread(1, 1000)});
  const double scale = offered / offered_over_peak(instance);
  for (ActiveFlow& flow : instance.flows) flow.items *= scale;
  return instance;
}

struct Case {
  std::size_t channels;
  bool floors;
  int rounds;
  double least_offered, most_offered;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.channels << " channels, X / P " << c.least_offered << " to " << c.most_offered;
}

class Solver : public testing::TestWithParam<Case> {};

// Each channel is loaded to just the use that its latency factor stands for.
void expect_equations(const Instance& instance, const ChannelArray& factors, const std::vector<double>& steps,
                      int round) {
  for (std::size_t j = 0; j < instance.machine.channels.size(); ++j) {
    const Channel& channel = instance.machine.channels[j];
    double load = 0;
    for (std::size_t i = 0; i < steps.size(); ++i)
      load += instance.flows[i].items * instance.classes[i].bytes[j] / steps[i];
    // Compared where it is well conditioned: the factor that belongs to the load below the knee, the use above it.
    const double p = channel.knee, use = load / channel.peak.value();
    if (factors[j] < 1.1) {
      ASSERT_LT(use, 1);
      ASSERT_NEAR(factors[j], std::pow(1 - std::pow(use, p), -1 / p), 2e-5) << "channel " << j << ", round " << round;
    } else {
      ASSERT_NEAR(use, std::pow(-std::expm1(-p * std::log(factors[j])), 1 / p), 2e-5)
          << "channel " << j << ", round " << round;
    }
    ASSERT_LE(load, channel.peak.value() * (1 + 2e-5));
  }
}

TEST_P(Solver, AgreesWithBisection) {
  const Case& c = GetParam();
  Random random(17 + c.channels);
  for (int round = 0; round < c.rounds; ++round) {
    const Instance instance =
        random_instance(random, c.channels, c.floors, random.spread(c.least_offered, c.most_offered));
    ChannelSolver solver(instance.machine);
    std::vector<double> steps(instance.flows.size());
    ChannelArray factors{};
    ChannelArray t{};
    solver.solve(instance.flows, steps, factors, t);
    expect_equations(instance, factors, steps, round);
    const std::vector<double> reference = reference_factors(instance.machine, instance.flows);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double expected = reference_step(instance.classes[i], reference);
      ASSERT_NEAR(steps[i], expected, 2e-5 * expected) << "flow " << i << ", round " << round;
    }
  }
}

// It starts from its last answer, which may be far away; the answer may not depend on that.
TEST_P(Solver, StartDoesNotMatter) {
  const Case& c = GetParam();
  Random random(29 + c.channels);
  for (int round = 0; round < c.rounds; ++round) {
    Instance instance = random_instance(random, c.channels, c.floors, random.spread(c.least_offered, c.most_offered));
    ChannelSolver solver(instance.machine);
    ChannelArray fresh{}, used{};
    std::vector<double> steps(instance.flows.size()), again(instance.flows.size());
    ChannelArray factors{};
    for (const double scale : {1e-2, 10.0}) {
      std::vector<ActiveFlow> others = instance.flows;
      for (ActiveFlow& flow : others) flow.items *= scale;
      solver.solve(others, again, factors, used);
    }
    solver.solve(instance.flows, again, factors, used);
    solver.solve(instance.flows, steps, factors, fresh);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_NEAR(steps[i], again[i], 2e-5 * steps[i]) << "flow " << i << ", round " << round;
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& instance) {
  const Case& c = instance.param;
  return std::to_string(c.channels) + (c.channels == 1 ? "channel" : "channels") + (c.floors ? "WithFloors" : "");
}
// What machines hold: up to 20 times the bytes in flight that the peak needs.
INSTANTIATE_TEST_SUITE_P(Real, Solver,
                         testing::Values(Case{1, false, 1000, 1e-3, 20}, Case{1, true, 1000, 1e-3, 20},
                                         Case{2, false, 300, 1e-3, 20}, Case{2, true, 300, 1e-3, 20},
                                         Case{3, true, 10, 1e-3, 20}),
                         name_of);
// More than any does.
INSTANTIATE_TEST_SUITE_P(FarBeyondThePeak, Solver,
                         testing::Values(Case{1, false, 1000, 20, 2000}, Case{1, true, 1000, 20, 2000},
                                         Case{2, false, 300, 20, 2000}, Case{2, true, 300, 20, 2000}),
                         name_of);

// For flows bound by latency alone, R = (X^-p + P^-p)^(-1/p).
TEST(SolverForm, IsTheSoftKnee) {
  for (const double p : {1.0, 1.5, 2.0, 4.0, 64.0}) {
    for (const double x : {1e-3, 0.3, 1.0, 3.0, 1e3}) {
      Machine machine = memory_machine(1);
      machine.channels[0].knee = p;
      FlowClass flow;
      flow.bytes[0] = x * kMemoryPeak * kMemoryLatency / (100 * 2);
      flow.hop[0] = flow.queue[0] = kMemoryLatency;
      flow.stages = 2;
      const std::vector<ActiveFlow> flows = {{&flow, 100}};
      std::vector<double> steps(1);
      ChannelArray factors{}, t{};
      ChannelSolver(machine).solve(flows, steps, factors, t);
      const double rate = 100 * flow.bytes[0] / steps[0];
      EXPECT_NEAR(rate, knee_rate(x * kMemoryPeak, kMemoryPeak, p), 1e-6 * rate) << "p " << p << ", X/P " << x;
      EXPECT_NEAR(factors[0], x * kMemoryPeak / rate, 1e-6 * factors[0]);
    }
  }
}

}  // namespace
}  // namespace moesim
