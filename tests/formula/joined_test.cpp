// Two kernels in one launch, and loads that do not wait: while an item waits W for the others, what it may load ahead comes at
// the rate of a wave of such loads. Once the wait is over it takes its steps with what is left; where nothing was in flight any
// more, these loads come as a first item's do (reference_fill). A machine without a cache; times in nanoseconds where short.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/testkit/collector.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kUnits = 4, kSteps = 32;
constexpr double kStages = 8, kStepBytes = 1e6, kChain = 2e-6;  // seconds

Machine launching_machine() {
  Machine machine = memory_machine(kUnits);
  machine.launch_graph = nanoseconds(500);
  machine.launch_programmatic = nanoseconds(300);
  return machine;
}

// Nothing but `epilogue`, during which its slot is the next kernel's.
Kernel first(Duration epilogue) {
  ItemClass item;
  item.epilogue = epilogue;
  Kernel kernel = one_group(item, kUnits, 1);
  kernel.schedule = {Schedule::Kind::kPersistent, 1, {}};
  return kernel;
}

ItemClass streaming(double ahead) {
  ItemClass item;
  item.steps = kSteps;
  item.stages = kStages;
  item.read = Bytes(std::llround(kStepBytes) * kSteps);
  item.step_latency = duration_from_seconds(kChain);
  item.ahead = ahead;
  return item;
}

Kernel second(const ItemClass& item, bool joined) {
  Kernel kernel = one_group(item, kUnits, 1);
  kernel.joined = joined;
  return kernel;
}

double seconds(const std::vector<Kernel>& kernels, LaunchMode mode = LaunchMode::kGraph) {
  return to_seconds(simulate(chain_of(kernels, mode), launching_machine()).total);
}

// Of an item that has `loaded` of its bytes.
FlowClass flow_left(double loaded) {
  FlowClass flow;
  flow.bytes = {kStepBytes * (1 - loaded)};
  flow.hop = flow.queue = {kMemoryLatency};
  flow.serial = flow.floor = kChain;
  flow.stages = std::min<double>(kSteps, kStages / (1 - loaded));
  return flow;
}
double stream(double loaded) {
  if (loaded == 1) return kSteps * kChain;
  const FlowClass flow = flow_left(loaded);
  const std::vector<ActiveFlow> flows = {{&flow, kUnits}};
  return kSteps * reference_step(flow, reference_factors(memory_machine(kUnits), flows));
}
double first_loads() { return reference_fill(memory_machine(kUnits), flow_left(0), kUnits, kSteps / kStages); }

TEST(Joined, NeedsNoLaunchAndWaitsForAllItems) {
  ItemClass item;
  item.first_prologue = item.prologue_before = item.prologue_after = nanoseconds(9000);
  item.tile_prologue = nanoseconds(700);
  EXPECT_NEAR(seconds({first(nanoseconds(1000)), second(item, true)}), 2.2e-6, 1e-12);
  EXPECT_NEAR(seconds({first(nanoseconds(1000)), second(item, false)}), 29e-6, 1e-12);
}

// Its items go on where those before ended: their loads find others in flight, and there is no fill.
TEST(Joined, GoesOnWithoutFill) {
  EXPECT_NEAR(seconds({first({}), second(streaming(0), true)}), 0.5e-6 + stream(0), 1e-11);
  EXPECT_NEAR(seconds({first({}), second(streaming(0), false)}), 1e-6 + stream(0) + first_loads(), 1e-11);
}

TEST(Joined, WhatIsLoadedAheadIsNotLoadedAgain) {
  const double wait = 100e-6;  // long enough for all
  for (const double ahead : {0.25, 0.5, 0.75}) {
    EXPECT_NEAR(seconds({first(duration_from_seconds(wait)), second(streaming(ahead * kSteps), true)}),
                0.5e-6 + wait + first_loads() + stream(ahead), 1e-10)
        << ahead;
  }
  for (const double more : {1.0, 3.0}) {
    EXPECT_NEAR(seconds({first(duration_from_seconds(wait)), second(streaming(more * kSteps), true)}),
                0.5e-6 + wait + stream(1), 1e-10)
        << more;
  }
}

// A wait that ends before the loads have come: what has come, in steps of 1/32 of an item, is not lost.
TEST(Joined, AWaitIsUsedAsFarAsItGoes) {
  const double all_ahead = kSteps * kStepBytes * kUnits / kMemoryPeak;
  for (const double share : {0.125, 0.3125, 0.625, 0.9375}) {
    const double wait = share * all_ahead;
    const double total = seconds({first(duration_from_seconds(wait)), second(streaming(kSteps), true)});
    EXPECT_NEAR(total, 0.5e-6 + wait + stream(share), 1e-3 * total) << share;
    const double not_used = seconds({first(duration_from_seconds(wait)), second(streaming(0), true)});
    EXPECT_NEAR(not_used, 0.5e-6 + wait + stream(0), 1e-3 * total) << share;
  }
}

// Programmatic launches hide loads as well: those ahead begin at the prologue's end and wait for the predecessor.
TEST(Joined, ProgrammaticLaunchLoadsAhead) {
  ItemClass slow;
  slow.prologue_after = nanoseconds(100'000);
  const std::vector<Kernel> plain = {one_group(slow, kUnits, 2), one_group(streaming(0), kUnits, 2)};
  const std::vector<Kernel> ahead = {one_group(slow, kUnits, 2), one_group(streaming(kSteps), kUnits, 2)};
  EXPECT_NEAR(seconds(plain, LaunchMode::kProgrammatic), 100.6e-6 + stream(0) + first_loads(), 1e-10);
  EXPECT_NEAR(seconds(ahead, LaunchMode::kProgrammatic), 100.6e-6 + stream(1), 1e-10);
}

TEST(Joined, TimelineMovesEachByteOnce) {
  for (const double ahead : {0.0, 8.0, 32.0, 64.0}) {
    Collector collector;
    SimulateOptions options;
    options.listener = &collector;
    const SimulationResult result =
        simulate(chain_of({first(nanoseconds(40'000)), second(streaming(ahead), true)}), launching_machine(), options);
    double moved = 0;
    for (const MachineLoad& load : collector.loads) moved += load.rate[0] * to_seconds(load.to - load.from);
    EXPECT_NEAR(moved, kUnits * kSteps * kStepBytes, 0.02 * kUnits * kSteps * kStepBytes) << ahead;
    Duration blame;
    for (const Duration d : result.attribution) blame = blame + d;
    EXPECT_EQ(blame, result.total);
  }
}

// Items that read the same at the same time behind one port: the cache gives their bytes once, each unit takes its own.
TEST(Sharers, PassThePortOnce) {
  Machine machine = cached_machine(kUnits);
  for (const double sharers : {1.0, 2.0, 4.0}) {
    ItemClass item;
    item.steps = kSteps;
    item.stages = kSteps;
    item.resident_read = Bytes(10'000'000);
    item.resident_port_weight = 1 / sharers;
    FlowClass flow;
    flow.bytes = {item.resident_read.as_double() / kSteps / sharers};
    flow.hop = flow.queue = {kCacheLatency};
    flow.stages = kSteps;
    const std::vector<ActiveFlow> flows = {{&flow, kUnits}};
    const double steps = kSteps * reference_step(flow, reference_factors(machine, flows));
    EXPECT_NEAR(to_seconds(simulate(plan_of(one_group(item, kUnits, 1)), machine).total),
                steps + reference_fill(machine, flow, kUnits, 1), 1e-11)
        << sharers;
  }
}

}  // namespace
}  // namespace moesim
