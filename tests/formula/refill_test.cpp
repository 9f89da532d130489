// How many of a kernel's last items lie on one unit. Ends of a unit's items are normal with a correlation of 0.3: of those that end
// first, drawn at random, so many share a unit.
#include "sim/engine/refill.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

struct Drawn {
  double level = 0, fullest = 0;  // mean number on the unit of an item; on the fullest unit
};

// `items` of units x slots with the least ends, over many draws.
Drawn draw(std::size_t units, std::size_t slots, std::size_t items) {
  constexpr int kDraws = 400;
  constexpr double kShared = 0.3;
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  Drawn mean;
  for (int d = 0; d < kDraws; ++d) {
    std::vector<std::pair<double, std::size_t>> ends;
    for (std::size_t u = 0; u < units; ++u) {
      const double own = std::sqrt(kShared) * normal(engine);
      for (std::size_t s = 0; s < slots; ++s) ends.push_back({own + std::sqrt(1 - kShared) * normal(engine), u});
    }
    std::sort(ends.begin(), ends.end());
    std::vector<int> on(units);
    for (std::size_t i = 0; i < items; ++i) ++on[ends[i].second];
    double squares = 0;
    for (const int n : on) squares += n * n;
    mean.level += squares / static_cast<double>(items) / kDraws;
    mean.fullest += *std::max_element(on.begin(), on.end()) / static_cast<double>(kDraws);
  }
  return mean;
}

TEST(Refill, LevelsAreThoseOfRandomEnds) {
  struct Case {
    std::int64_t units, slots, items;
  };
  for (const Case& c :
       {Case{108, 3, 44}, {108, 3, 20}, {108, 3, 250}, {132, 2, 40}, {132, 8, 300}, {16, 4, 10}, {132, 32, 4200}}) {
    RefillLevels levels(c.units, c.slots, c.items);
    double items = 0, sum = 0;
    std::int64_t fullest = 0;
    for (const RefillPart& part : levels.next(c.items)) {
      EXPECT_GE(part.level, 1);
      EXPECT_LE(part.level, c.slots);
      items += static_cast<double>(part.items);
      sum += static_cast<double>(part.items * part.level);
      fullest = std::max(fullest, part.level);
    }
    const Drawn expected =
        draw(static_cast<std::size_t>(c.units), static_cast<std::size_t>(c.slots), static_cast<std::size_t>(c.items));
    EXPECT_EQ(items, static_cast<double>(c.items));
    EXPECT_NEAR(sum / items, expected.level, 0.12 * expected.level) << c.units << " x " << c.slots << ": " << c.items;
    EXPECT_NEAR(static_cast<double>(fullest), expected.fullest, 1) << c.units << " x " << c.slots << ": " << c.items;
  }
}

// However they are asked for, as many are of each level.
TEST(Refill, SmallNumbersAddUp) {
  RefillLevels at_once(108, 3, 44), single(108, 3, 44);
  std::vector<std::int64_t> of_level(4), wanted(4);
  for (const RefillPart& part : at_once.next(44)) wanted[static_cast<std::size_t>(part.level)] += part.items;
  for (int i = 0; i < 44; ++i) {
    const std::span<const RefillPart> parts = single.next(1);
    ASSERT_EQ(parts.size(), 1u);
    of_level[static_cast<std::size_t>(parts[0].level)] += parts[0].items;
  }
  for (std::size_t level = 1; level < 4; ++level) EXPECT_LE(std::abs(of_level[level] - wanted[level]), 1);
}

TEST(Refill, AllSlotsTakenIsEven) {
  RefillLevels levels(10, 4, 40);
  const std::span<const RefillPart> parts = levels.next(40);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].level, 4);
}

// 44 last items on 128 units: two waves of pipes, and a tail on units that took several; a first wave of 44 has a unit each.
TEST(Refill, LastItemsShareUnitsWhereAFirstWaveDoesNot) {
  constexpr std::int64_t kUnits = 128, kTail = 44;
  ItemClass item;
  item.steps = 50;
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = 2e-6;
  const double alone = 50 * 2e-6 * kPicosecondsPerSecond;
  const auto time = [&](std::int64_t items) {
    return simulate(plan_of(one_group(item, items, 3)), memory_machine(kUnits)).total.as_double();
  };
  EXPECT_NEAR(time(kTail), alone, 2);
  EXPECT_NEAR(time(3 * kUnits + kTail), 6 * alone, 6);  // three on a unit again
}

}  // namespace
}  // namespace moesim
