// Launches, dispatch and programmatic overlap. Times in nanoseconds where short.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

Machine launching_machine(std::int64_t units) {
  Machine machine = memory_machine(units);
  machine.launch_stream = nanoseconds(1700);
  machine.launch_graph = nanoseconds(500);
  machine.launch_programmatic = nanoseconds(300);
  return machine;
}

// An item that takes its prologues and nothing else.
ItemClass lasting(double before_ns, double after_ns) {
  ItemClass item;
  item.prologue_before = nanoseconds(before_ns);
  item.prologue_after = nanoseconds(after_ns);
  return item;
}

ExecutionPlan empty_chain(std::size_t kernels, LaunchMode mode) {
  return chain_of(std::vector<Kernel>(kernels, one_group(ItemClass(), 1, 1)), mode);
}

// n empty kernels: n launches, all of the time, to the picosecond.
TEST(Launch, ChainOfEmptyKernels) {
  const Machine machine = launching_machine(4);
  for (const std::size_t n : {1U, 2U, 25U}) {
    for (const auto& [mode, launch] :
         {std::pair{LaunchMode::kStream, machine.launch_stream}, std::pair{LaunchMode::kGraph, machine.launch_graph},
          std::pair{LaunchMode::kProgrammatic, machine.launch_programmatic}}) {
      const SimulationResult result = simulate(empty_chain(n, mode), machine);
      EXPECT_EQ(result.total, launch * static_cast<std::int64_t>(n));
      EXPECT_EQ(blamed(result.attribution, Blame::kLaunch), result.total);
    }
  }
}

// Kernels without dependence on each other are launched at once.
TEST(Launch, IndependentKernelsLaunchTogether) {
  PlanBuilder builder(LaunchMode::kGraph);
  for (int i = 0; i < 3; ++i) builder.add_kernel(one_group(lasting(0, 100), 1, 4));
  EXPECT_EQ(simulate(builder.seal(), launching_machine(4)).total, nanoseconds(600));
}

// Of diamond 0 -> {1, 2} -> 3 the longer branch decides: three launches and three kernels in a row.
TEST(Launch, JoinWaitsForTheLongerBranch) {
  PlanBuilder builder(LaunchMode::kGraph);
  std::vector<KernelId> ids;
  for (const double ns : {100.0, 200.0, 5000.0, 50.0}) {
    ids.push_back(builder.add_kernel(one_group(lasting(0, ns), 1, 4)));
  }
  builder.add_dependence(ids[0], ids[1]);
  builder.add_dependence(ids[0], ids[2]);
  builder.add_dependence(ids[1], ids[3]);
  builder.add_dependence(ids[2], ids[3]);
  const SimulationResult result = simulate(builder.seal(), launching_machine(4));
  EXPECT_EQ(result.total, nanoseconds(3 * 500 + 100 + 5000 + 50));
  EXPECT_EQ(result.kernels[3].launch, TimePoint(2 * 500'000 + 100'000 + 5'000'000));
}

// launch + spread log(g) / log(units) for a grid of g < units items, launch + spread beyond.
TEST(Launch, SpreadGrowsWithTheGrid) {
  Machine machine = launching_machine(256);
  machine.launch_spread = nanoseconds(200);
  for (const auto& [grid, spread] :
       {std::pair{1, 0.0}, {2, 25.0}, {16, 100.0}, {64, 150.0}, {256, 200.0}, {1024, 200.0}}) {
    const SimulationResult result = simulate(plan_of(one_group(ItemClass(), grid, 4)), machine);
    EXPECT_EQ(result.total, nanoseconds(500 + spread)) << grid;
  }
}

// One item a d: item i starts i d after the launch, so that n alike items take (n - 1) d + t. Cohorts stand for up to
// an eighth of a wave, which shifts the last of them by at most its own dispatch.
TEST(Launch, DispatchInterval) {
  Machine machine = launching_machine(64);
  machine.dispatch_interval = nanoseconds(2);
  const auto total = [&](std::int64_t items, bool cohorts) {
    SimulateOptions options;
    options.cohorts = cohorts;
    return simulate(plan_of(one_group(lasting(0, 30), items, 1)), machine, options).total;
  };
  for (const std::int64_t n : {1, 2, 17, 64}) {
    const Duration exact = nanoseconds(500 + static_cast<double>(n - 1) * 2 + 30);
    EXPECT_EQ(total(n, false), exact);
    EXPECT_NEAR(total(n, true).as_double(), exact.as_double(), std::max(1.0, static_cast<double>(n) / 8) * 2e3);
  }
}

// Items that replace others were freed one by one: a slower interval than the items' turnover delays them, a faster one
// does not. 64 slots x 4 waves of 1000 ns at d = 2 ns: 1000 ns > 128 ns, so t = 63 d + 4 x 1000 ns.
TEST(Launch, DispatchDelaysLaterWavesOnlyByABacklog) {
  Machine machine = launching_machine(64);
  machine.dispatch_interval = nanoseconds(2);
  SimulateOptions single;
  single.cohorts = false;
  EXPECT_NEAR(simulate(plan_of(one_group(lasting(0, 1000), 256, 1)), machine, single).total.as_double(),
              nanoseconds(500 + 63 * 2 + 4 * 1000).as_double(), nanoseconds(8).as_double());
  // 10 ns items: 256 dispatches of 2 ns decide.
  EXPECT_NEAR(simulate(plan_of(one_group(lasting(0, 10), 256, 1)), machine, single).total.as_double(),
              nanoseconds(500 + 255 * 2 + 10).as_double(), nanoseconds(8).as_double());
}

// n waves of items on as many slots: n t + (n - 1) of the turnaround. A persistent kernel's slots take their next item at once.
TEST(Launch, SlotsTurnAround) {
  Machine machine = launching_machine(64);
  machine.turnaround = nanoseconds(200);
  for (const std::int64_t waves : {1, 2, 7, 40}) {
    Kernel kernel = one_group(lasting(0, 1000), 64 * waves, 1);
    const auto n = static_cast<double>(waves);
    EXPECT_EQ(simulate(plan_of(kernel), machine).total, nanoseconds(500 + n * 1000 + (n - 1) * 200));
    SimulateOptions without;
    without.without = EffectSet(Effect::kLaunch);
    EXPECT_EQ(simulate(plan_of(kernel), machine, without).total, nanoseconds(n * 1000));
    kernel.schedule.kind = Schedule::Kind::kPersistent;
    kernel.classes[0].tile_prologue = nanoseconds(1000);
    EXPECT_EQ(simulate(plan_of(kernel), machine).total, nanoseconds(500 + n * 1000));
  }
}

// Programmatic: B's items start once A's have all started, and wait at their prologue's end for A's end + launch:
//     t = launch + max(q, a + launch) + b
TEST(Launch, ProgrammaticHidesThePrologue) {
  const Machine machine = launching_machine(4);
  for (const double q : {0.0, 400.0, 1300.0, 2500.0}) {
    const ExecutionPlan plan =
        chain_of({one_group(lasting(0, 1000), 4, 2), one_group(lasting(q, 700), 4, 2)}, LaunchMode::kProgrammatic);
    const SimulationResult result = simulate(plan, machine);
    EXPECT_EQ(result.total, nanoseconds(300 + std::max(q, 1000.0 + 300) + 700)) << q;
    EXPECT_EQ(result.kernels[1].start, TimePoint(300'000));
    // A graph edge hides nothing.
    const ExecutionPlan edge =
        chain_of({one_group(lasting(0, 1000), 4, 2), one_group(lasting(q, 700), 4, 2)}, LaunchMode::kGraph);
    EXPECT_EQ(simulate(edge, machine).total, nanoseconds(500 + 1000 + 500 + q + 700)) << q;
  }
}

// Where B does not fit beside A its prologue begins at A's end: t = launch + a + max(q, launch) + b.
TEST(Launch, ProgrammaticNeedsSlotsToHideAnything) {
  for (const double q : {100.0, 900.0}) {
    const ExecutionPlan plan =
        chain_of({one_group(lasting(0, 1000), 4, 1), one_group(lasting(q, 700), 4, 1)}, LaunchMode::kProgrammatic);
    EXPECT_EQ(simulate(plan, launching_machine(4)).total, nanoseconds(300 + 1000 + std::max(q, 300.0) + 700)) << q;
  }
}

// A kernel that is launched early may not overtake the kernels before its predecessor: C waits for B, B for A.
TEST(Launch, ProgrammaticChainKeepsItsOrder) {
  const Kernel quick = one_group(lasting(0, 100), 1, 8);
  const SimulationResult result =
      simulate(chain_of({one_group(lasting(0, 5000), 1, 8), quick, quick, quick}, LaunchMode::kProgrammatic),
               launching_machine(1));
  EXPECT_EQ(result.total, nanoseconds(4 * 300 + 5000 + 3 * 100));
  for (std::size_t k = 1; k < 4; ++k) EXPECT_GT(result.kernels[k].end, result.kernels[k - 1].end);
}

// What a kernel that waits holds is not the others': with one slot in all, the waiting kernel still ends.
TEST(Launch, ProgrammaticWithOneSlot) {
  const Kernel one = one_group(lasting(50, 100), 3, 1);
  const SimulationResult result = simulate(chain_of({one, one, one}, LaunchMode::kProgrammatic), launching_machine(1));
  // Each kernel: its first item's prologue is hidden behind the launch, the two others' are not.
  EXPECT_EQ(result.total, nanoseconds((300 + 50 + 100) + 2 * (300 + 100) + 3 * 2 * 150));
}

// A kernel that waits for its predecessor uses no pipe: launched early or not, it does not slow the predecessor.
TEST(Launch, WaitingItemsLeaveThePipesAlone) {
  ItemClass item;
  item.steps = 100;
  item.pipe_seconds[0] = 20e-9;
  const Kernel matrix = one_group(item, 4, 2);
  const SimulationResult result = simulate(chain_of({matrix, matrix}, LaunchMode::kProgrammatic), launching_machine(4));
  EXPECT_NEAR(result.total.as_double(), nanoseconds(2 * (300 + 2000)).as_double(), 2);
}

TEST(Launch, HelperKernelsOwnAllButTheirLaunch) {
  Kernel helper = one_group(lasting(0, 800), 2, 1);
  helper.helper = true;
  const SimulationResult result = simulate(plan_of(helper), launching_machine(1));
  EXPECT_EQ(blamed(result.attribution, Blame::kLaunch), nanoseconds(500));
  EXPECT_EQ(blamed(result.attribution, Blame::kHelper), nanoseconds(1600));
  EXPECT_EQ(sum(result.attribution), result.total);
}

}  // namespace
}  // namespace moesim
