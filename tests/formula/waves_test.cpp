// One kernel of alike items on one channel. The form of a wave of n items, each of K steps of b bytes, s in flight:
//     t = n K b / R(X),   X = n s b / L,   R(X) = (X^-p + P^-p)^(-1/p)
// and before the first wave the first bytes of an empty slot: L (1 - s / K (f - X / P)), f = X / R(X), which for few bytes
// is L (1 - s / K).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kSteps = 80;
constexpr std::int64_t kStages = 4;
constexpr double kFill = kMemoryLatency * (1 - static_cast<double>(kStages) / static_cast<double>(kSteps));

ItemClass streaming(std::int64_t bytes_a_step) {
  ItemClass item;
  item.steps = kSteps;
  item.stages = kStages;
  item.read = Bytes(kSteps * bytes_a_step);
  return item;
}

double wave(double items, double bytes_a_step, double p = 2) {
  const double offered = items * kStages * bytes_a_step / kMemoryLatency;
  return items * kSteps * bytes_a_step / knee_rate(offered, kMemoryPeak, p);
}

// Before a wave of n items.
double fill(double items, double bytes_a_step, double p = 2) {
  Machine machine = memory_machine(1);
  machine.channels[0].knee = p;
  FlowClass flow;
  flow.bytes = {bytes_a_step};
  flow.hop = {kMemoryLatency};
  flow.stages = kStages;
  return reference_fill(machine, flow, items, static_cast<double>(kSteps) / static_cast<double>(kStages));
}

void expect_time(Duration found, double seconds) {
  const double picoseconds = seconds * kPicosecondsPerSecond;
  EXPECT_NEAR(found.as_double(), picoseconds, 4 + 3e-8 * picoseconds);
}

// 16 bytes in flight are nothing to 1 TB/s: t = L (1 - s/K) + K (L + t_s) / s.
TEST(OneItem, IsBoundByLatency) {
  ItemClass item = streaming(4);
  item.step_latency = nanoseconds(100);
  const SimulationResult result = simulate(plan_of(one_group(item, 1, 1)), memory_machine(1));
  expect_time(result.total, kFill + kSteps * (kMemoryLatency + 100e-9) / kStages);
  EXPECT_EQ(result.kernels[0].memory_read, item.read);
}

// A ring deeper than the item: all loads in flight at once, no fill beside them. t = (L + t_s) K / K.
TEST(OneItem, KeepsAtMostItsOwnStepsInFlight) {
  ItemClass item;
  item.steps = 3;
  item.stages = 8;
  item.read = Bytes(3);
  item.step_latency = nanoseconds(50);
  expect_time(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total, kMemoryLatency + 50e-9);
}

// K (L + t_s) / s < K t_s: the dependent chain binds however many steps are in flight.
TEST(OneItem, SerialChainIsAFloor) {
  ItemClass item = streaming(4);
  item.step_latency = microseconds(1);
  const SimulationResult result = simulate(plan_of(one_group(item, 1, 1)), memory_machine(1));
  expect_time(result.total, kFill + kSteps * 1e-6);
  EXPECT_NEAR(share_of(result, Blame::kSerialStep) * result.total.as_double(), kSteps * 1e6, 2);
}

// Issue is part of the chain, (L + t_i) / s, and a floor of its own, t_i.
TEST(OneItem, LoadIssueDelaysAndLimits) {
  ItemClass item = streaming(4);
  item.step_issue = nanoseconds(200);
  expect_time(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total,
              kFill + kSteps * (kMemoryLatency + 200e-9) / kStages);
  item.step_issue = nanoseconds(600);
  const SimulationResult result = simulate(plan_of(one_group(item, 1, 1)), memory_machine(1));
  expect_time(result.total, kFill + kSteps * 600e-9);
  EXPECT_NEAR(blamed(result.attribution, Blame::kUnderfilled).as_double(), kSteps * 600e3, 2);
}

// prologue_first + prologue_before + prologue_after + fill + flow + epilogue, and both prologues again on a used slot.
TEST(OneItem, PartsAddUp) {
  ItemClass item = streaming(4);
  item.first_prologue = nanoseconds(700);
  item.prologue_before = nanoseconds(300);
  item.prologue_after = nanoseconds(200);
  item.tile_prologue = nanoseconds(12345);  // of persistent kernels only
  item.epilogue = nanoseconds(400);
  const double flow = kSteps * kMemoryLatency / kStages;
  expect_time(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total,
              0.7e-6 + 0.3e-6 + 0.2e-6 + kFill + flow + 0.4e-6);
  expect_time(simulate(plan_of(one_group(item, 3, 1)), memory_machine(1)).total,
              0.7e-6 + kFill + 3 * (0.3e-6 + 0.2e-6 + flow + 0.4e-6));
}

TEST(Waves, OneAndTwo) {
  for (const std::int64_t bytes : {64, 4096, 65536}) {  // X / P = 0.008, 0.5, 8.4
    const double one = wave(32, static_cast<double>(bytes)), before = fill(32, static_cast<double>(bytes));
    const Machine machine = memory_machine(8);
    expect_time(simulate(plan_of(one_group(streaming(bytes), 32, 4)), machine).total, before + one);
    const SimulationResult two = simulate(plan_of(one_group(streaming(bytes), 64, 4)), machine);
    expect_time(two.total, before + 2 * one);
    EXPECT_EQ(two.kernels[0].slots, 32);
    EXPECT_EQ(two.items, 64);
  }
}

// 32 + 8 items on 32 slots: t = fill + t(32) + t(8), and the last wave runs at R(8) / R(32) of the best rate, the rest
// of its time is tail.
TEST(Waves, PartlyFilledLastWave) {
  const double full = wave(32, 1024), last = wave(8, 1024);
  const SimulationResult result = simulate(plan_of(one_group(streaming(1024), 40, 4)), memory_machine(8));
  expect_time(result.total, fill(32, 1024) + full + last);
  const double rate_ratio = (8 / last) / (32 / full);
  EXPECT_NEAR(blamed(result.attribution, Blame::kTail).as_double(), last * (1 - rate_ratio) * kPicosecondsPerSecond,
              10);
}

class Knee : public testing::TestWithParam<double> {};

// Below the knee each flow has its own cap, X; above it the peak; at X = P the rate is P 2^(-1/p).
TEST_P(Knee, BindsBetweenCapsAndPeak) {
  const double p = GetParam();
  Machine machine = memory_machine(16);
  machine.channels[0].knee = p;
  for (const std::int64_t bytes : {16, 1024, 15625, 262144, 4194304}) {
    const auto b = static_cast<double>(bytes);
    const double offered = 16 * kStages * b / kMemoryLatency;
    const SimulationResult result = simulate(plan_of(one_group(streaming(bytes), 16, 1)), machine);
    expect_time(result.total, fill(16, b, p) + wave(16, b, p));
    const double bytes_all = 16 * kSteps * b;
    const double flow = to_seconds(result.total) - fill(16, b, p);
    EXPECT_LE(bytes_all / flow, std::min(offered, kMemoryPeak) * (1 + 1e-6));
    if (bytes == 15625) {
      EXPECT_NEAR(bytes_all / flow / kMemoryPeak, std::pow(2.0, -1 / p), 1e-6);
    }
    // The blame within the knee: the unloaded latency's share of the loaded one is under-filled, the rest the
    // channel's.
    const double factor = offered / (bytes_all / flow);
    EXPECT_NEAR(blamed(result.attribution, Blame::kUnderfilled).as_double(), flow / factor * 1e12, 10 + flow * 1e5);
    EXPECT_NEAR(blamed(result.attribution, Blame::kMemoryStream).as_double(), flow * (1 - 1 / factor) * 1e12,
                10 + flow * 1e5);
  }
}
INSTANTIATE_TEST_SUITE_P(Exponents, Knee, testing::Values(1.0, 1.5, 2.0, 2.6, 8.0));

// X = 131 P: t = bytes / P to (1 + 131^-2)^(1/2) - 1 = 3e-5.
TEST(Waves, ManyFlowsSaturate) {
  const SimulationResult result = simulate(plan_of(one_group(streaming(262144), 500, 5)), memory_machine(100));
  const double bytes = 500.0 * kSteps * 262144;
  const double flow = to_seconds(result.total) - fill(500, 262144);
  EXPECT_GE(flow, bytes / kMemoryPeak);
  EXPECT_LE(flow, bytes / kMemoryPeak * (1 + 5e-5));
}

// Two classes of K_A = 40 and K_B = 80 steps, s = 4. Latency factors f = (1 + (X / P)^2)^(1/2), X summed over the
// active ones; a class's items take K L f / s. Each starts after the fill of a wave of 24 like it, B
// first, and A ends first.
TEST(Waves, TwoClassesShareAChannel) {
  ItemClass a = streaming(0), b = streaming(0);
  a.steps = 40;
  a.read = Bytes(40 * 50'000);
  b.read = Bytes(80 * 20'000);
  Kernel kernel = one_group(a, 8, 4);
  kernel.classes.push_back(b);
  ItemGroup second;
  second.item_class = 1;
  second.count = 16;
  kernel.groups.push_back(second);
  const SimulationResult result = simulate(plan_of(kernel), memory_machine(8));

  const double x_a = 8 * 4 * 50'000 / kMemoryLatency, x_b = 16 * 4 * 20'000 / kMemoryLatency;
  const auto factor = [](double x) { return std::hypot(1, x / kMemoryPeak); };
  const auto start = [&](double bytes_a_step, double rounds) {
    const double t = 24 * 4 * bytes_a_step / kMemoryLatency / kMemoryPeak;
    return kMemoryLatency * (1 - (std::hypot(1, t) - t) / rounds);
  };
  const double start_a = start(50'000, 10), start_b = start(20'000, 20);
  const double item_a = 10 * kMemoryLatency, item_b = 20 * kMemoryLatency;  // unloaded
  const double end_a = start_a + item_a * factor(x_a + x_b);
  const double done_b = (start_a - start_b) / (item_b * factor(x_b)) + (end_a - start_a) / (item_b * factor(x_a + x_b));
  expect_time(result.total, end_a + (1 - done_b) * item_b * factor(x_b));
}

// Alike items of one wave end together, whatever the number of groups that they are dealt to.
TEST(Waves, GroupsOfOneClassAreOneWave) {
  Kernel whole = one_group(streaming(4096), 32, 4);
  Kernel dealt = whole;
  dealt.groups.assign(8, whole.groups[0]);
  for (ItemGroup& group : dealt.groups) group.count = 4;
  EXPECT_EQ(simulate(plan_of(whole), memory_machine(8)).total, simulate(plan_of(dealt), memory_machine(8)).total);
}

}  // namespace
}  // namespace moesim
