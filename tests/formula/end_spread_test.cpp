// How far apart alike items end: normally distributed, sigma = machine.round_spread / sqrt(rounds) of an item's time,
// of n items the last at about the quantile (n - 1/2) / n. Quantiles here are of Boost.Math.
#include "sim/engine/end_spread.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "sim/engine/flow_physics.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

double last_of(double items) { return quantile(boost::math::normal(), 1 - 0.5 / items); }

TEST(EndSpread, DrawsTheNormalDistribution) {
  EndSpread spread;
  double sum = 0, squares = 0, most = 0;
  constexpr int kItems = 4096;
  for (int i = 0; i < kItems; ++i) {
    const std::span<const SpreadPart> parts = spread.next(1, 1);
    ASSERT_EQ(parts.size(), 1u);
    ASSERT_EQ(parts[0].items, 1);
    const double deviation = parts[0].deviation;
    EXPECT_TRUE(i > 0 || std::abs(deviation) < 1e-9) << "an item alone ends at the mean";
    sum += deviation;
    squares += deviation * deviation;
    most = std::max(most, deviation);
  }
  EXPECT_NEAR(sum / kItems, 0, 0.002);
  EXPECT_NEAR(squares / kItems, 1, 0.01);
  EXPECT_NEAR(most, last_of(kItems), 0.2);
}

// In parts, least first, which hold all items and end as their members would on average.
TEST(EndSpread, PartsAreTheSameItems) {
  for (const std::int64_t gang : {1, 2}) {
    EndSpread whole, single;
    for (const std::int64_t items : {16, 2, 64, 8, 4, 128}) {
      std::int64_t in_parts = 0;
      double sum = 0, expected = 0, before = -10;
      for (const SpreadPart& part : whole.next(items, gang)) {
        in_parts += part.items;
        EXPECT_EQ(part.items % gang, 0);
        EXPECT_GT(part.deviation, before);
        before = part.deviation;
        sum += static_cast<double>(part.items) * part.deviation;
      }
      for (std::int64_t i = 0; i < items; i += gang) {
        expected += static_cast<double>(gang) * single.next(gang, gang)[0].deviation;
      }
      EXPECT_EQ(in_parts, items);
      EXPECT_NEAR(sum, expected, 1e-9);
    }
  }
}

constexpr double kSpread = 0.06;
constexpr std::int64_t kUnits = 128;

struct Times {
  double alike, apart;  // seconds
};

// Items of a kernel, one a unit, on a machine without spread and on one with it.
Times times_of(const ItemClass& item, std::int64_t items, bool plenty = true, EffectSet without = {}) {
  Machine machine = memory_machine(kUnits);
  if (plenty) machine.channels[0].peak = BytesPerSecond(1e18);
  const ExecutionPlan plan = plan_of(one_group(item, items, 1));
  SimulateOptions options;
  options.without = without;
  const double alike = to_seconds(simulate(plan, machine, options).total);
  machine.round_spread = kSpread;
  return {alike, to_seconds(simulate(plan, machine, options).total)};
}

ItemClass reading(std::int64_t steps, std::int64_t stages) {
  ItemClass item;
  item.steps = steps;
  item.stages = static_cast<double>(stages);
  item.read = Bytes(steps * 4096);
  return item;
}

// Where latency alone decides, the last of a wave is late by sigma x its quantile of an item's K / s L.
TEST(EndSpread, TheLastOfAWaveEndsLate) {
  for (const std::int64_t steps : {4, 16, 64, 256}) {
    for (const std::int64_t stages : {1, 4}) {
      for (const std::int64_t items : {1, 8, 32, 128}) {
        const Times times = times_of(reading(steps, stages), items);
        const double rounds = static_cast<double>(steps) / static_cast<double>(stages);
        const double sigma = kSpread / std::sqrt(rounds) * rounds * kMemoryLatency;
        EXPECT_NEAR((times.apart - times.alike) / sigma, last_of(static_cast<double>(items)), 0.4)
            << steps << " steps, " << stages << " in flight, " << items << " items";
      }
    }
  }
}

// Deviations of items on one slot, one after the other, add up: at most like a random walk, since they are drawn more evenly.
TEST(EndSpread, WavesAddUp) {
  constexpr std::int64_t kSteps = 64, kWaves = 4, kMany = 16;
  const auto ratio = [](std::int64_t waves) {
    const Times one = times_of(reading(kSteps, 1), kUnits), more = times_of(reading(kSteps, 1), waves * kUnits);
    return (more.apart - more.alike) / (one.apart - one.alike);
  };
  EXPECT_GT(ratio(kWaves), 1.5);
  EXPECT_LT(ratio(kWaves), 2.1);
  // In a kernel of many waves cohorts stand for their items: fewer walks, of which the farthest goes less far.
  EXPECT_GT(ratio(kMany), 1.5);
  EXPECT_LT(ratio(kMany), std::sqrt(kMany));
}

// Items that read as long as they then do something else: in step, memory is idle half of the time; as they come apart it is
// busy more and more of it.
TEST(EndSpread, ManyWavesFallOutOfStep) {
  constexpr std::int64_t kWaves = 100;
  constexpr double kAsked = 8;  // times the peak
  ItemClass item = reading(1, 1);
  item.read = Bytes(std::llround(kAsked * kMemoryPeak * kMemoryLatency / kUnits));
  item.epilogue = duration_from_seconds(kAsked * kMemoryLatency);
  const double busy = static_cast<double>(kWaves) * kAsked * kMemoryLatency;
  const Times few = times_of(item, kUnits, false), many = times_of(item, kWaves * kUnits, false);
  EXPECT_NEAR(few.apart, few.alike, 0.1 * few.alike);
  EXPECT_GT(many.alike, 2 * busy);
  EXPECT_LT(many.apart, 1.5 * busy);
  EXPECT_GT(many.apart, busy);
}

// What is asked for at once is served one item after another: nothing of it where memory is idle, up to all of an item's bytes
// where these are in flight together, else its last step's.
TEST(EndSpread, BurstsAreServedInTurn) {
  const Machine machine = memory_machine(kUnits);
  ItemClass item = reading(4, 4);
  const auto burst = [&](double items) {
    const FlowPhysics physics = make_physics(machine, item, {16}, false, 1, {});
    return burst_share(machine, physics.flow, items, item);
  };
  const double fills = kMemoryPeak * kMemoryLatency / (4 * 4096);  // items
  EXPECT_NEAR(burst(fills / 100), 0, 0.001);
  EXPECT_NEAR(burst(fills), 1 - 1 / std::sqrt(2), 1e-9);
  EXPECT_NEAR(burst(100 * fills), 0.99, 0.001);
  item.steps = 8;
  item.read = item.read * 2;
  EXPECT_NEAR(burst(100 * fills), 0.99 / 8, 0.001);
}

// Where the memory's rate decides, those behind get the share of those that have ended: later than all at once, but by less.
TEST(EndSpread, WhoIsLateReadsFasterWhenOthersHaveEnded) {
  ItemClass item = reading(64, 4);
  item.read =
      Bytes(std::llround(1.5 * 64 * kMemoryPeak * kMemoryLatency / (4 * kUnits)));  // asked for 1.5 times the peak
  const Times times = times_of(item, kUnits, false);
  const double sigma = kSpread / 4;
  EXPECT_GT(times.apart, times.alike * (1 + 0.1 * sigma));
  EXPECT_LT(times.apart, times.alike * (1 + sigma * last_of(kUnits)));
}

TEST(EndSpread, IsOfLoadsFromMemory) {
  ItemClass item;
  item.steps = 16;
  item.step_latency = nanoseconds(500);
  const Times computing = times_of(item, kUnits);
  EXPECT_EQ(computing.apart, computing.alike);
}

TEST(EndSpread, IsLeftOutWithTheTailAndWithBytesInFlight) {
  for (const Effect effect : {Effect::kTail, Effect::kInFlight}) {
    const Times times = times_of(reading(16, 4), kUnits, true, EffectSet(effect));
    EXPECT_EQ(times.apart, times.alike);
  }
}

}  // namespace
}  // namespace moesim
