// Occupancy and placement arithmetic.
#include "sim/engine/slots.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

struct Launched {
  LaunchShape shape;
  std::int64_t fit;
};

// On an H200: 2,048 threads, 65,536 registers in units of 256 a warp, 228 KiB with 1 KiB reserved a CTA, 32 CTAs.
TEST(Occupancy, OfKernelsAsLaunched) {
  const HardwareModel h200 = load_hardware("h200");
  const Launched cases[] = {
      {{128, 64, 61'440}, 3},   // 233,472 / (61,440 + 1,024) = 3.7
      {{128, 64, 98'304}, 2},   // 233,472 / 99,328 = 2.4
      {{32, 236, 0}, 8},        // 65,536 / (32 x 240) = 8.5
      {{128, 180, 0}, 2},       // 65,536 / (4 x 32 x 184) = 2.8
      {{32, 32, 0}, 32},        // CTAs
      {{1024, 32, 0}, 2},       // threads
      {{33, 255, 0}, 4},        // two warps: 65,536 / (2 x 32 x 256) = 4
      {{128, 32, 232'448}, 1},  // all of 227 KiB
      {{128, 32, 232'449}, 0},  // one byte more
      {{128, 256, 0}, 0},       // more registers than a thread can name
      {{2048 + 32, 16, 0}, 0},  // more threads than a unit
  };
  for (const Launched& c : cases) {
    EXPECT_EQ(occupancy(h200, c.shape), c.fit)
        << c.shape.threads << " threads, " << c.shape.registers << " registers, " << c.shape.shared_bytes << " bytes";
  }
}

// The device file's numbers reach the machine, and occupancy() and the engine's slots agree.
TEST(Occupancy, IsWhatTheEngineUses) {
  const HardwareModel h200 = load_hardware("h200");
  const Machine machine = build_machine(h200);
  for (const LaunchShape& shape : {LaunchShape{128, 64, 61'440}, LaunchShape{32, 236, 0}, LaunchShape{256, 32, 0}}) {
    const ResourceVector need = footprint(h200, shape);
    EXPECT_EQ(items_per_unit(machine, need), occupancy(h200, shape));
    EXPECT_EQ(slots_beside(machine, need, {}), 132 * occupancy(h200, shape));
  }
}

TEST(Slots, EachResourceBinds) {
  Machine machine;
  machine.units = 1;
  machine.unit_capacity = {100, 200, 300, 10};
  EXPECT_EQ(items_per_unit(machine, {30, 1, 1, 1}), 3);
  EXPECT_EQ(items_per_unit(machine, {1, 70, 1, 1}), 2);
  EXPECT_EQ(items_per_unit(machine, {1, 1, 60, 1}), 5);
  EXPECT_EQ(items_per_unit(machine, {1, 1, 1, 1}), 10);
  EXPECT_EQ(items_per_unit(machine, {0, 0, 0, 1}), 10);
  EXPECT_EQ(items_per_unit(machine, {101, 0, 0, 1}), 0);
}

// Places the residents one by one on the units in turn, as breadth-first filling does, and counts what is left.
std::int64_t placed_one_by_one(const Machine& machine, const ResourceVector& need,
                               const std::vector<Resident>& others) {
  std::vector<ResourceVector> free(static_cast<std::size_t>(machine.units), machine.unit_capacity);
  std::size_t unit = 0;
  for (const Resident& other : others) {
    for (std::int64_t i = 0; i < other.items; ++i, unit = (unit + 1) % free.size()) {
      for (std::size_t r = 0; r < kResourceCount; ++r) free[unit][r] -= (*other.footprint)[r];
    }
  }
  std::int64_t slots = 0;
  for (const ResourceVector& f : free) {
    std::int64_t fit = 1'000'000;
    for (std::size_t r = 0; r < kResourceCount; ++r) {
      if (need[r] > 0) fit = std::min(fit, std::max<std::int64_t>(0, f[r]) / need[r]);
    }
    slots += fit;
  }
  return slots;
}

TEST(Slots, BesideOthersAgreesWithPlacingOneByOne) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    Machine machine;
    machine.units = random.whole(1, 17);
    machine.unit_capacity = {64, 128, 256, 16};
    std::vector<ResourceVector> footprints;
    for (int i = 0; i < 4; ++i) {
      footprints.push_back({random.whole(0, 20), random.whole(0, 40), random.whole(0, 90), 1});
    }
    std::vector<Resident> others;
    const std::int64_t kernels = random.whole(0, 3);
    for (std::size_t i = 0; i < static_cast<std::size_t>(kernels); ++i) {
      others.push_back({&footprints[i], random.whole(1, 3 * machine.units)});
    }
    ASSERT_EQ(slots_beside(machine, footprints[3], others), placed_one_by_one(machine, footprints[3], others))
        << "round " << round;
  }
}

// Of a wave of `total` items dealt to the units in turn, item i lies on unit i mod units.
TEST(Slots, FullerUnitsAgreeWithDealing) {
  for (std::int64_t units = 1; units <= 9; ++units) {
    for (std::int64_t total = 1; total <= 30; ++total) {
      std::int64_t sum = 0;
      for (std::int64_t first = 0; first < total; ++first) {
        const std::int64_t fuller = first % units < total % units ? 1 : 0;
        EXPECT_EQ(items_on_fuller_units(units, total, first, 1), fuller);
        sum += fuller;
      }
      EXPECT_EQ(items_on_fuller_units(units, total, 0, total), sum);
    }
  }
  EXPECT_EQ(items_on_fuller_units(132, 200, 0, 200), 2 * 68);
  EXPECT_EQ(items_on_fuller_units(132, 264, 0, 264), 0);
}

}  // namespace
}  // namespace moesim
