// Gangs, persistent kernels, items that wait for items, kernels side by side.
#include <gmock/gmock.h>

#include <map>

#include "tests/testkit/collector.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kSteps = 40;
constexpr double kTau = 25;              // ns of the matrix pipe a step
constexpr double kFlow = kSteps * kTau;  // 1000 ns, of an item that has its unit alone

ItemClass working() {
  ItemClass item;
  item.steps = kSteps;
  item.pipe_seconds[0] = kTau * 1e-9;
  return item;
}

std::map<std::int64_t, std::int64_t> items_by_start(const Collector& timeline) {
  std::map<std::int64_t, std::int64_t> starts;
  for (const Span& span : timeline.spans) starts[span.start.value()] += span.items;
  return starts;
}

// 6 slots hold one gang of 4; 12 items are 3 rounds of one gang.
TEST(Gangs, StartTogetherOrNotAtAll) {
  Kernel kernel = one_group(working(), 12, 1);
  kernel.gang = 4;
  Collector timeline;
  SimulateOptions options;
  options.listener = &timeline;
  const SimulationResult result = simulate(plan_of(kernel), memory_machine(6), options);
  EXPECT_EQ(result.total, nanoseconds(3 * kFlow));
  EXPECT_EQ(result.kernels[0].slots, 4);
  EXPECT_THAT(items_by_start(timeline),
              testing::ElementsAre(testing::Pair(0, 4), testing::Pair(1'000'000, 4), testing::Pair(2'000'000, 4)));
  kernel.gang = 1;  // 6 and 6
  EXPECT_EQ(simulate(plan_of(kernel), memory_machine(6)).total, nanoseconds(2 * kFlow));
}

// Slots that free one at a time are collected until a gang fits.
TEST(Gangs, WaitForAllTheirSlots) {
  PlanBuilder builder(LaunchMode::kGraph);
  ItemClass brief = working();
  brief.steps = 4;
  Kernel first = one_group(working(), 2, 1);  // 1000 ns on two of four units, 100 ns on the others
  first.classes.push_back(brief);
  first.groups.push_back(first.groups[0]);
  first.groups[1].item_class = 1;
  builder.add_kernel(first);
  Kernel gang = one_group(brief, 4, 1);
  gang.gang = 4;
  builder.add_kernel(gang);
  const SimulationResult result = simulate(builder.seal(), memory_machine(4));
  EXPECT_EQ(result.kernels[1].start, TimePoint(1'000'000));
  EXPECT_EQ(result.total, nanoseconds(kFlow + 4 * kTau));
}

Kernel persistent(std::int64_t tiles_a_slot, std::int64_t look_ahead) {
  ItemClass tile = working();
  tile.first_prologue = nanoseconds(500);
  tile.prologue_before = nanoseconds(60);
  tile.prologue_after = nanoseconds(40);
  tile.tile_prologue = nanoseconds(70);
  tile.epilogue = nanoseconds(300);
  Kernel kernel = one_group(tile, 8 * tiles_a_slot, 4);
  kernel.schedule = {Schedule::Kind::kPersistent, look_ahead, 8};
  return kernel;
}

// One resident item a unit, n tiles each: t = prologues + (n - 1) t_tile + n (flow + epilogue).
TEST(Persistent, EpilogueDelaysTheNextTile) {
  for (const std::int64_t n : {1, 2, 7}) {
    const auto tiles = static_cast<double>(n);
    const SimulationResult result = simulate(plan_of(persistent(n, 0)), memory_machine(8));
    EXPECT_EQ(result.kernels[0].slots, 8);
    EXPECT_NEAR(result.total.as_double(), nanoseconds(600 + (tiles - 1) * 70 + tiles * (kFlow + 300)).as_double(), 10);
  }
}

// With look-ahead the next tile starts at the last K-step's end, and only the last epilogue shows.
TEST(Persistent, LookAheadHidesTheEpilogue) {
  for (const std::int64_t n : {1, 2, 7}) {
    const auto tiles = static_cast<double>(n);
    EXPECT_NEAR(simulate(plan_of(persistent(n, 1)), memory_machine(8)).total.as_double(),
                nanoseconds(600 + (tiles - 1) * 70 + tiles * kFlow + 300).as_double(), 10);
  }
}

// A plain grid pays its prologues for each item, and nothing of the tile prologue.
TEST(Persistent, AGridPaysProloguesEachTime) {
  Kernel kernel = persistent(3, 0);
  kernel.schedule = {Schedule::Kind::kGrid, 0, 8};
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(8)).total.as_double(),
              nanoseconds(500 + 3 * (100 + kFlow + 300)).as_double(), 10);
}

// Group 1 waits for group 0 in slots of its own, past prologue_before; then it runs. Bound by latency:
//     t = prologues_0 + flow + epilogue_0 + prologue_after_1 + flow + epilogue_1
TEST(ItemDependencies, AGroupWaitsForAnother) {
  ItemClass item;
  item.steps = kSteps;
  item.step_latency = nanoseconds(kTau);
  item.prologue_before = nanoseconds(80);
  item.prologue_after = nanoseconds(30);
  item.epilogue = nanoseconds(200);
  Kernel kernel = one_group(item, 4, 2);
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups[1].after = {0};
  SimulateOptions single;
  single.cohorts = false;
  const double alone = nanoseconds(80 + 30 + kFlow + 200).as_double();
  for (const SimulateOptions& options : {SimulateOptions(), single}) {
    const SimulationResult result = simulate(plan_of(kernel), memory_machine(4), options);
    EXPECT_NEAR(result.total.as_double(), 2 * alone - 80e3, 4);
    // While group 0 runs half of the items wait for it.
    EXPECT_NEAR(blamed(result.attribution, Blame::kSynchronisation).as_double(), alone / 2, 80e3);
  }
}

// Items that wait hold their slots but not their unit's pipe: both groups in turn have it for themselves.
TEST(ItemDependencies, WaitingItemsLeaveThePipesAlone) {
  Kernel kernel = one_group(working(), 4, 2);
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups[1].after = {0};
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(4)).total.as_double(), nanoseconds(2 * kFlow).as_double(), 4);
}

// c waits for a and b; b is the longer.
TEST(ItemDependencies, WaitForAllOfThem) {
  ItemClass brief = working(), lengthy = working();
  lengthy.steps = 3 * kSteps;
  Kernel kernel = one_group(brief, 2, 1);
  kernel.classes.push_back(lengthy);
  kernel.groups.assign(3, kernel.groups[0]);
  kernel.groups[1].item_class = 1;
  kernel.groups[2].after = {0, 1};
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(6)).total.as_double(), nanoseconds(4 * kFlow).as_double(), 4);
}

// With slots for the first group only, the second starts as the first ends: a chain of three takes three flows.
TEST(ItemDependencies, ChainWithoutRoomToWait) {
  Kernel kernel = one_group(working(), 4, 1);
  kernel.groups.assign(3, kernel.groups[0]);
  kernel.groups[1].after = {0};
  kernel.groups[2].after = {1};
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(4)).total.as_double(), nanoseconds(3 * kFlow).as_double(), 4);
}

ExecutionPlan side_by_side(const Kernel& a, const Kernel& b) {
  PlanBuilder builder(LaunchMode::kGraph);
  builder.add_kernel(a);
  builder.add_kernel(b);
  return builder.seal();
}

// Two latency-bound kernels of half the slots each: both at once. Of all the slots each: one after the other.
TEST(SideBySide, KernelsShareSlots) {
  ItemClass item;
  item.steps = 10;
  item.step_latency = nanoseconds(100);
  const SimulationResult half = simulate(side_by_side(one_group(item, 4, 2), one_group(item, 4, 2)), memory_machine(4));
  EXPECT_EQ(half.total, microseconds(1));
  EXPECT_EQ(half.kernels[1].start, TimePoint(0));
  const SimulationResult all = simulate(side_by_side(one_group(item, 8, 2), one_group(item, 8, 2)), memory_machine(4));
  EXPECT_EQ(all.total, microseconds(2));
  EXPECT_EQ(all.kernels[1].start, TimePoint(1'000'000));
}

// Footprints of different kinds: 3/4 of a unit for one kernel leaves no room for another of 1/2, but for one of 1/4.
TEST(SideBySide, FootprintsAddUp) {
  ItemClass item;
  item.steps = 10;
  item.step_latency = nanoseconds(100);
  Kernel large = one_group(item, 4, 1);
  large.footprint = {0, 0, 3 * kUnitBytes / 4, 1};
  EXPECT_EQ(simulate(side_by_side(large, one_group(item, 4, 4)), memory_machine(4)).total, microseconds(1));
  EXPECT_EQ(simulate(side_by_side(large, one_group(item, 4, 2)), memory_machine(4)).total, microseconds(2));
}

// One matrix-bound item of each kernel on each unit: the pipe is shared, both take twice as long.
TEST(SideBySide, KernelsShareTheUnitsPipes) {
  const SimulationResult result =
      simulate(side_by_side(one_group(working(), 4, 2), one_group(working(), 4, 2)), memory_machine(4));
  EXPECT_NEAR(result.total.as_double(), nanoseconds(2 * kFlow).as_double(), 4);
}

// A plan of two kernels that never meet takes as long as the longer one; attribution still sums.
TEST(SideBySide, AttributionSums) {
  ItemClass item = working();
  item.read = Bytes(kSteps * 4096);
  PlanBuilder builder(LaunchMode::kGraph);
  for (const std::int64_t items : {5, 23}) {
    const RegionId region = builder.add_region("r", item.read * items);
    builder.add_kernel(one_group(item, items, 2, region));
  }
  const SimulationResult result = simulate(builder.seal(), memory_machine(4));
  EXPECT_EQ(sum(result.attribution), result.total);
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    EXPECT_EQ(result.kernels[0].attribution[b] + result.kernels[1].attribution[b], result.attribution[b]);
  }
}

}  // namespace
}  // namespace moesim
