// How far apart alike items end: normally distributed, sigma = machine.round_spread x sqrt(waves / rounds) of an item's time,
// of n items the last at about the quantile (n - 1/2) / n. Quantiles here are of Boost.Math.
#include "sim/engine/end_spread.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

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
  EXPECT_NEAR(ratio(kMany), std::sqrt(kMany), 0.1);  // in a kernel of many waves its last items stand for all
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
