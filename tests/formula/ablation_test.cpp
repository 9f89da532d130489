// What an effect costs, twice: by the blame of one run, and by running again without it.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

SimulateOptions leaving_out(Effect effect) {
  SimulateOptions options;
  options.without.add(effect);
  return options;
}

// On plans where the effect takes at least 20 % of the time, time - time without it is its blame to within 10 %.
void expect_agreement(const ExecutionPlan& plan, const Machine& machine, Effect effect, Blame blame) {
  const SimulationResult with = simulate(plan, machine);
  const SimulationResult without = simulate(plan, machine, leaving_out(effect));
  ASSERT_EQ(sum(with.attribution), with.total);
  ASSERT_EQ(sum(without.attribution), without.total);
  const double blamed_on = blamed(with.attribution, blame).as_double();
  EXPECT_GE(blamed_on, 0.2 * with.total.as_double());
  EXPECT_NEAR((with.total - without.total).as_double(), blamed_on, 0.1 * blamed_on)
      << blame_name(blame) << " of " << with.total.value() << " ps";
}

ItemClass reading(std::int64_t steps, std::int64_t stages, std::int64_t bytes_a_step) {
  ItemClass item;
  item.steps = steps;
  item.stages = static_cast<double>(stages);
  item.read = Bytes(steps * bytes_a_step);
  return item;
}

TEST(Ablation, Launch) {
  Machine machine = cached_machine(8);
  machine.launch_stream = nanoseconds(4000);
  machine.launch_graph = nanoseconds(1500);
  machine.launch_programmatic = nanoseconds(800);
  for (const LaunchMode mode : {LaunchMode::kStream, LaunchMode::kGraph, LaunchMode::kProgrammatic}) {
    const double share = mode == LaunchMode::kProgrammatic ? 1 : 3;
    const auto bytes = static_cast<std::int64_t>(16 * 1024 * share);
    const ExecutionPlan plan = chain_of(std::vector<Kernel>(10, one_group(reading(8, 4, bytes / 16), 16, 2)), mode);
    expect_agreement(plan, machine, Effect::kLaunch, Blame::kLaunch);
  }
}

TEST(Ablation, Padding) {
  for (const double useful : {0.125, 0.5, 0.75}) {
    ItemClass item = reading(40, 4, 256);
    item.pipe_seconds[0] = 4e-6;  // still above L / s when only the useful rows are issued
    item.useful_share = useful;
    expect_agreement(plan_of(one_group(item, 16, 1)), cached_machine(8), Effect::kPadding, Blame::kPadding);
  }
}

// Cache 100 times as fast as memory, and memory saturated: the second pass costs what it reads again.
TEST(Ablation, Rereads) {
  Machine machine = cached_machine(8);
  machine.channels[0].peak = BytesPerSecond(100 * kMemoryPeak);
  machine.channels[0].latency = nanoseconds(10);
  PlanBuilder builder(LaunchMode::kGraph);
  const ItemClass item = reading(64, 8, 64 * 1024);
  const RegionId region = builder.add_region("weights", item.read * 64);  // 256 MiB, 1 MiB of cache
  Kernel kernel = one_group(item, 64, 8, region);
  kernel.groups.push_back(kernel.groups[0]);
  builder.add_kernel(kernel);
  expect_agreement(builder.seal(), machine, Effect::kRereads, Blame::kMemoryRereads);
}

// A dependent chain beside latency, L / s and t_s / s, few bytes in flight.
TEST(Ablation, SerialStep) {
  for (const double serial_ns : {300.0, 600.0, 900.0}) {
    ItemClass item = reading(200, 1, 64);
    item.step_latency = nanoseconds(serial_ns);
    expect_agreement(plan_of(one_group(item, 16, 2)), cached_machine(8), Effect::kSerialStep, Blame::kSerialStep);
  }
}

// 40 items on 32 slots, each bound by its own latency: the last wave's slots are idle for three quarters.
TEST(Ablation, TailOfWaves) {
  expect_agreement(plan_of(one_group(reading(400, 4, 64), 40, 4)), cached_machine(8), Effect::kTail, Blame::kTail);
}

// One item in eight is ten times as long as the others, all in one wave.
TEST(Ablation, TailOfImbalance) {
  Kernel kernel = one_group(reading(40, 4, 64), 28, 4);
  ItemClass large = kernel.classes[0];
  large.steps *= 10;
  large.read = Bytes(large.read.value() * 10);
  kernel.classes.push_back(large);
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups[1].item_class = 1;
  kernel.groups[1].count = 4;
  expect_agreement(plan_of(kernel), cached_machine(8), Effect::kTail, Blame::kTail);
}

TEST(Ablation, Vector) {
  ItemClass item = reading(40, 4, 256);
  item.pipe_seconds[1] = 2e-6;
  const SimulationResult with = simulate(plan_of(one_group(item, 16, 1)), cached_machine(8));
  const SimulationResult without =
      simulate(plan_of(one_group(item, 16, 1)), cached_machine(8), leaving_out(Effect::kVector));
  // The pipe hides the latency that binds without it: 2 us a step against L / s = 0.25 us.
  EXPECT_NEAR(blamed(with.attribution, Blame::kVector).as_double(), 2 * 40 * 2e6, 100);
  EXPECT_NEAR((with.total - without.total).as_double(), 2 * 40 * (2e6 - 0.25e6), 2e4);
}

Kernel random_kernel(Random& random, PlanBuilder& builder, bool alike) {
  Kernel kernel;
  kernel.name = "random";
  const std::int64_t a_unit = random.whole(1, 8);
  kernel.footprint = items_a_unit(a_unit);
  const std::int64_t classes = alike ? 1 : random.whole(1, 3);
  for (std::int64_t i = 0; i < classes; ++i) {
    ItemClass item =
        reading(random.whole(1, 64), random.whole(1, 8), static_cast<std::int64_t>(random.spread(16, 65536)));
    if (random.chance(0.2)) item.read = Bytes(0);
    if (random.chance(0.5)) item.resident_read = Bytes(random.whole(0, 1 << 16));
    if (random.chance(0.5)) item.write = Bytes(random.whole(0, 1 << 16));
    if (random.chance(0.2)) item.first_share = random.between(0.1, 1);
    for (double& seconds : item.pipe_seconds) seconds = random.chance(0.4) ? random.spread(1e-9, 1e-6) : 0;
    if (random.chance(0.5)) item.useful_share = random.between(0.05, 1);
    if (random.chance(0.5)) item.step_latency = nanoseconds(random.spread(10, 1000));
    if (random.chance(0.3)) item.step_issue = nanoseconds(random.spread(1, 300));
    if (random.chance(0.5)) item.first_prologue = nanoseconds(random.between(0, 600));
    if (random.chance(0.5)) item.prologue_after = nanoseconds(random.between(0, 600));
    if (random.chance(0.5)) item.epilogue = nanoseconds(random.between(0, 600));
    kernel.classes.push_back(item);
  }
  const std::int64_t groups = alike ? 1 : random.whole(1, 6);
  std::optional<RegionId> region;
  for (std::int64_t i = 0; i < groups; ++i) {
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(random.whole(0, classes - 1));
    group.count = random.whole(1, alike ? 300 : 60);
    const Bytes bytes = kernel.classes[group.item_class].read * group.count;
    if (bytes > Bytes(0)) {
      if (!region || random.chance(0.5)) region = builder.add_region("r", bytes);
      group.region = region;
    }
    kernel.groups.push_back(group);
  }
  return kernel;
}

struct Without {
  const char* name;
  Effect effect;
  double tolerance = 0.001;  // for cohorts that fall otherwise
};
void PrintTo(const Without& w, std::ostream* out) { *out << w.name; }
class EveryEffect : public testing::TestWithParam<Without> {};

struct Outcome {
  Duration with, without;
};

Outcome random_outcome(Random& random, bool alike, Effect effect) {
  Machine machine = cached_machine(random.whole(1, 16));
  machine.launch_graph = nanoseconds(random.between(0, 1000));
  machine.dispatch_interval = nanoseconds(random.between(0, 2));
  machine.caches[0].fill_weight = random.uniform();
  machine.memory_write_weight = random.between(1, 2);
  PlanBuilder builder(LaunchMode::kGraph);
  std::optional<KernelId> last;
  for (std::int64_t n = random.whole(1, 3); n > 0; --n) {
    const KernelId id = builder.add_kernel(random_kernel(random, builder, alike));
    if (last) builder.add_dependence(*last, id);
    last = id;
  }
  const ExecutionPlan plan = builder.seal();
  const SimulationResult with = simulate(plan, machine);
  const SimulationResult without = simulate(plan, machine, leaving_out(effect));
  EXPECT_EQ(sum(with.attribution), with.total);
  EXPECT_EQ(sum(without.attribution), without.total);
  return {with.total, without.total};
}

// Elsewhere the sign: no kernel of alike items gets slower by leaving an effect out. Dispatch and small items keep
// items out of step, so that some stream while others are in their prologues: what that wins is lost with them, up
// to 2.5 %.
TEST_P(EveryEffect, LeftOutNeverMakesAlikeItemsSlower) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Outcome outcome = random_outcome(random, true, GetParam().effect);
    EXPECT_LE(outcome.without.as_double(), outcome.with.as_double() * (1 + GetParam().tolerance)) << "round " << round;
  }
}

// Unlike items compete for slots and channels: with the others faster, the longest may get its slot later (Graham 1969)
// or a smaller share of a channel. So single plans may get slower, but not often and not on the whole.
TEST_P(EveryEffect, LeftOutMakesMixturesFasterOnTheWhole) {
  Random random(4);
  constexpr int kRounds = 300;
  double with = 0, without = 0;
  int slower = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Outcome outcome = random_outcome(random, false, GetParam().effect);
    with += outcome.with.as_double();
    without += outcome.without.as_double();
    slower += outcome.without.as_double() > outcome.with.as_double() * 1.001 ? 1 : 0;
  }
  EXPECT_LT(without, with);
  EXPECT_LE(slower, kRounds / 20);
}

INSTANTIATE_TEST_SUITE_P(Effects, EveryEffect,
                         testing::Values(Without{"Launch", Effect::kLaunch, 0.04}, Without{"Padding", Effect::kPadding},
                                         Without{"Rereads", Effect::kRereads},
                                         Without{"SerialStep", Effect::kSerialStep},
                                         Without{"Tail", Effect::kTail, 0.01},
                                         Without{"CacheBandwidth", Effect::kCacheBandwidth},
                                         Without{"Vector", Effect::kVector}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace moesim
