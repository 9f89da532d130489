// Units behind ports of fewer units (machine.h). With W bytes in flight, L the memory's latency, P its peak and Q what waits
// in the memory itself, all units are served alike while W <= Q. Beyond, the memory answers items behind short ports in
// L f(Q / (L P)), others in L f, f so that both together take P; but none in less than others' time over the advantage.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/testkit/collector.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kUnits = 12, kBehindPort = 4, kShortUnits = 4;
constexpr double kAdvantage = 1.5;

Machine machine_with_ports(double queue_bytes) {
  Machine machine = memory_machine(kUnits);
  machine.ports = {kBehindPort, kShortUnits, kAdvantage, Bytes(std::llround(queue_bytes))};
  return machine;
}

struct Steps {
  double usual, behind_short;
};

// Two classes of alike items, one on each unit, with `w` bytes in flight in all.
Steps solve(double w, double queue_bytes) {
  const Machine machine = machine_with_ports(queue_bytes);
  FlowClass usual;
  usual.stages = 2;
  usual.bytes = {w / (kUnits * usual.stages)};
  usual.hop = usual.queue = {kMemoryLatency};
  FlowClass behind_short = usual;
  behind_short.short_port = true;
  const std::vector<ActiveFlow> flows = {{&usual, kUnits - kShortUnits}, {&behind_short, kShortUnits}};
  std::vector<double> steps(2);
  ChannelArray factors{}, t{};
  ChannelSolver(machine).solve(flows, steps, factors, t);
  const double load = (kUnits - kShortUnits) * usual.bytes[0] / steps[0] + kShortUnits * usual.bytes[0] / steps[1];
  EXPECT_NEAR(load, knee_rate(load * factors[0], kMemoryPeak, 2), 1e-4 * load);
  return {steps[0], steps[1]};
}

constexpr double kQueue = 10 * kMemoryPeak * kMemoryLatency;  // bytes

TEST(Ports, MakeNoDifferenceWhileTheMemoryHoldsAllThatIsInFlight) {
  for (const double share : {0.01, 0.5, 0.99}) {
    const Steps steps = solve(share * kQueue, kQueue);
    EXPECT_NEAR(steps.behind_short, steps.usual, 1e-9 * steps.usual) << share;
  }
}

TEST(Ports, WhatExceedsItWaitsBehindTheOthers) {
  const Steps steps = solve(1.2 * kQueue, kQueue);
  const double full = kMemoryLatency * std::hypot(1, 10) / 2;
  EXPECT_NEAR(steps.behind_short, full, 1e-6 * full);
  EXPECT_GT(steps.usual, 1.2 * full);
}

TEST(Ports, GiveAtMostTheirShare) {
  const Steps steps = solve(20 * kQueue, kQueue);
  EXPECT_NEAR(steps.usual / steps.behind_short, kAdvantage, 0.01);
}

Kernel reading_kernel(std::int64_t items, std::int64_t bytes_a_step) {
  ItemClass item;
  item.steps = 80;
  item.stages = 4;
  item.read = Bytes(item.steps * bytes_a_step);
  return one_group(item, items, 2);
}

// Of one wave, items behind short ports end first; their slots take the next ones.
TEST(Ports, ItemsOfATailFollowThoseThatEndFirst) {
  const auto bytes_a_step = static_cast<std::int64_t>(kQueue / (2 * kUnits * 4) * 1.5);
  const Kernel kernel = reading_kernel(2 * kUnits + 4, bytes_a_step);
  const SimulationResult alike = simulate(plan_of(kernel), memory_machine(kUnits));
  const SimulationResult ports = simulate(plan_of(kernel), machine_with_ports(kQueue));
  const double bytes = static_cast<double>(80 * bytes_a_step * (2 * kUnits + 4));
  EXPECT_GE(ports.total.as_double(), bytes / kMemoryPeak * kPicosecondsPerSecond);
  EXPECT_LT(ports.total, alike.total);  // the tail begins before the wave ends
  EXPECT_EQ(ports.kernels[0].memory_read, alike.kernels[0].memory_read);
}

// A tail of two on each of few units is bound by a pipe that they share, though that pipe has no part in full waves.
TEST(Ports, ItemsOfATailShareFewUnits) {
  const auto bytes_a_step = static_cast<std::int64_t>(kQueue / (2 * kUnits * 4) * 1.5);
  const auto time = [&](double pipe_share) {
    Kernel kernel = reading_kernel(2 * kUnits + 2 * kShortUnits, bytes_a_step);
    const double of_unit = 2 * static_cast<double>(bytes_a_step) * kUnits / kMemoryPeak;  // at its share of the peak
    kernel.classes[0].pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] = pipe_share * of_unit / 2;
    return simulate(plan_of(kernel), machine_with_ports(kQueue)).total.as_double();
  };
  EXPECT_GT(time(0.6), 1.05 * time(0.01));
}

// A second wave leaves a quarter of the slots free: some ports have fewer of its items, and those end early. Where all slots are
// taken, or what is in flight waits in the memory itself, no port has fewer than others.
TEST(Ports, UnevenLoadsPutEndsApart) {
  // How much earlier the first item of the second half ends than with ports alike, in kernels' times.
  const auto earlier = [](std::int64_t items, double in_flight) {
    const auto bytes_a_step = static_cast<std::int64_t>(in_flight * kQueue / (2 * kUnits * 4));
    Machine machine = machine_with_ports(kQueue);
    machine.round_spread = 1e-9;  // ends are drawn, but for the ports all at once
    const auto first_end = [&] {
      Collector timeline;
      SimulateOptions options;
      options.listener = &timeline;
      const Duration total = simulate(plan_of(reading_kernel(items, bytes_a_step)), machine, options).total;
      double first = 1;
      for (const Span& span : timeline.spans) {
        const double start = static_cast<double>(span.start.value()) / total.as_double();
        if (start > 0.5) first = std::min(first, static_cast<double>(span.end.value()) / total.as_double());
      }
      return first;
    };
    const double uneven = first_end();
    machine.ports.units = 1 << 20;  // so many behind one that no port has more than another
    return first_end() - uneven;
  };
  EXPECT_GT(earlier(2 * kUnits + kUnits * 3 / 2, 2), 0.02);
  EXPECT_NEAR(earlier(4 * kUnits, 2), 0, 1e-4);
  EXPECT_NEAR(earlier(2 * kUnits + kUnits * 3 / 2, 0.7), 0, 1e-4);
}

TEST(Ports, DoNotMatterToKernelsWithLittleInFlight) {
  const Kernel kernel = reading_kernel(5 * kUnits + 3, 1 << 10);
  const SimulationResult alike = simulate(plan_of(kernel), memory_machine(kUnits));
  const SimulationResult ports = simulate(plan_of(kernel), machine_with_ports(kQueue));
  EXPECT_EQ(ports.total, alike.total);
  EXPECT_EQ(ports.events, alike.events);
}

// Of 12 units in 3 groups, each at most kGroupRate: 3 items come to one group, the next to each in turn, 5 at most to the first.
constexpr double kGroupRate = 1e11;

Duration time_in_groups(std::int64_t items, double rate) {
  Machine machine = memory_machine(kUnits);
  machine.groups = {3, BytesPerSecond(rate), 3, 5};
  ItemClass item;
  item.steps = 80;
  item.stages = 40;
  item.read = Bytes(item.steps << 20);
  return simulate(plan_of(one_group(item, items, 1)), machine).total;
}

TEST(Groups, TheFullestDecides) {
  const double step = static_cast<double>(1 << 20) / kGroupRate;  // of an item that has a group for itself
  constexpr std::pair<std::int64_t, int> kFullest[] = {{1, 1}, {3, 3}, {4, 4}, {6, 4}, {7, 5}, {11, 5}};
  for (const auto& [items, fullest] : kFullest) {
    const double seconds = to_seconds(time_in_groups(items, kGroupRate));
    EXPECT_NEAR(seconds, 80 * step * fullest, 0.02 * seconds) << items;
  }
}

TEST(Groups, DoNotMatterOnceEveryUnitHasAnItem) {
  EXPECT_EQ(time_in_groups(kUnits, kGroupRate), time_in_groups(kUnits, 0));
  EXPECT_LT(time_in_groups(kUnits - 1, 0), time_in_groups(kUnits - 1, kGroupRate));
}

}  // namespace
}  // namespace moesim
