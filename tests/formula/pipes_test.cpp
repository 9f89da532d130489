// Kernels bound by a pipe of their unit: K steps of tau seconds each, a pipe that the items of a unit share.
//     t = K tau x (items on the unit)
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testkit/collector.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kSteps = 50;
constexpr double kTau = 2e-6;
constexpr double kAlone = kSteps * kTau * kPicosecondsPerSecond;  // picoseconds of an item that has its unit alone

ItemClass piped(PipeKind pipe) {
  ItemClass item;
  item.steps = kSteps;
  item.pipe_seconds[static_cast<std::size_t>(pipe)] = kTau;
  return item;
}

class EveryPipe : public testing::TestWithParam<PipeKind> {};

TEST_P(EveryPipe, ItemsOfAUnitShareIt) {
  for (const std::int64_t a_unit : {1, 2, 3}) {
    const Kernel kernel = one_group(piped(GetParam()), 8 * a_unit, a_unit);
    EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(8)).total.as_double(), kAlone * static_cast<double>(a_unit),
                2);
  }
}

// Waves of a shared pipe cost what the work costs: 24 items on 8 units, 1, 2 or 3 at a time.
TEST_P(EveryPipe, WorkDecidesNotOccupancy) {
  for (const std::int64_t a_unit : {1, 3}) {
    EXPECT_NEAR(simulate(plan_of(one_group(piped(GetParam()), 24, a_unit)), memory_machine(8)).total.as_double(),
                3 * kAlone, 4);
  }
}

TEST_P(EveryPipe, HasItsOwnBlame) {
  const Blame expected[] = {Blame::kMatrix, Blame::kVector, Blame::kCacheBandwidth};
  const SimulationResult result = simulate(plan_of(one_group(piped(GetParam()), 16, 2)), memory_machine(8));
  EXPECT_EQ(blamed(result.attribution, expected[static_cast<std::size_t>(GetParam())]), result.total);
}

// Items that have a chain beside the port's traffic take turns: sqrt(chain^2 + (n^2 - 1) tau^2) a step, n on a unit.
TEST(Pipes, ItemsWithAChainTakeTurnsAtTheLoadPort) {
  for (const double chain : {0.5, 1.0, 2.0, 4.0}) {
    for (const std::int64_t a_unit : {1, 2, 3, 6}) {
      ItemClass item = piped(PipeKind::kLoadPort);
      item.step_latency = duration_from_seconds(chain * kTau);
      const auto n = static_cast<double>(a_unit);
      const double expected = std::sqrt(std::pow(std::max(chain, 1.0), 2) + n * n - 1) * kAlone;
      const SimulationResult result = simulate(plan_of(one_group(item, 8 * a_unit, a_unit)), memory_machine(8));
      EXPECT_NEAR(result.total.as_double(), expected, 1e-6 * expected) << chain << ", " << a_unit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pipes, EveryPipe, testing::Values(PipeKind::kMatrix, PipeKind::kVector, PipeKind::kLoadPort));

// 200 items on 132 units: 68 units hold two. Their 136 items take twice the time of the 64 others.
TEST(Pipes, FullerUnitsTakeTwice) {
  SimulateOptions options;
  for (const bool cohorts : {true, false}) {
    options.cohorts = cohorts;
    Collector timeline;
    options.listener = &timeline;
    const SimulationResult result =
        simulate(plan_of(one_group(piped(PipeKind::kMatrix), 200, 2)), memory_machine(132), options);
    EXPECT_NEAR(result.total.as_double(), 2 * kAlone, 2);
    std::int64_t early = 0, late = 0;
    for (const Span& span : timeline.spans) {
      const auto end = static_cast<double>(span.end.value());
      if (std::abs(end - kAlone) < 3) early += span.items;
      if (std::abs(end - 2 * kAlone) < 3) late += span.items;
    }
    EXPECT_EQ(early, 64);
    EXPECT_EQ(late, 136);
  }
}

// Rows that nobody asked for take the pipe's time all the same: the time stays, the blame moves.
TEST(Pipes, PaddingChangesBlameNotTime) {
  ItemClass item = piped(PipeKind::kMatrix);
  const SimulationResult all_useful = simulate(plan_of(one_group(item, 8, 1)), memory_machine(8));
  item.useful_share = 0.375;
  const SimulationResult padded = simulate(plan_of(one_group(item, 8, 1)), memory_machine(8));
  EXPECT_EQ(padded.total, all_useful.total);
  EXPECT_EQ(blamed(all_useful.attribution, Blame::kPadding), Duration(0));
  EXPECT_NEAR(blamed(padded.attribution, Blame::kPadding).as_double(), 0.625 * padded.total.as_double(), 1);
  EXPECT_NEAR(blamed(padded.attribution, Blame::kMatrix).as_double(), 0.375 * padded.total.as_double(), 1);
}

// The longer of pipe and stream, not their sum: K max(tau, L / s).
TEST(Pipes, OverlapWithTheStream) {
  ItemClass item = piped(PipeKind::kMatrix);
  item.stages = 1;
  item.read = Bytes(kSteps);
  const double fill = 1e6 * (1 - 1.0 / kSteps);
  EXPECT_NEAR(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total.as_double(), fill + kAlone, 4);
  item.pipe_seconds[0] = 0.7e-6;
  EXPECT_NEAR(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total.as_double(), fill + kSteps * 1e6, 4);
}

}  // namespace
}  // namespace moesim
