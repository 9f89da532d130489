// What an effect costs, twice: by the blame of one run, and by running again without it.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>
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

// What is left of the plan is as if the helpers had never been in it.
TEST(Ablation, Helpers) {
  Machine machine = cached_machine(8);
  machine.launch_stream = nanoseconds(4000);
  machine.launch_graph = nanoseconds(1500);
  machine.launch_programmatic = nanoseconds(800);
  ItemClass item = reading(8, 4, 4096);
  item.prologue_before = nanoseconds(200);
  const Kernel work = one_group(item, 16, 2);
  Kernel helper = one_group(reading(4, 2, 1024), 24, 4);
  helper.helper = true;
  for (const LaunchMode mode : {LaunchMode::kStream, LaunchMode::kGraph, LaunchMode::kProgrammatic}) {
    const SimulationResult all =
        simulate(chain_of({helper, work, helper, helper, work, helper}, mode), machine, leaving_out(Effect::kHelpers));
    EXPECT_EQ(all.total, simulate(chain_of({work, work}, mode), machine).total);
    EXPECT_EQ(sum(all.attribution), all.total);
    EXPECT_EQ(all.kernels[0].items, 0);
  }
  EXPECT_EQ(simulate(plan_of(helper), machine, leaving_out(Effect::kHelpers)).total, Duration(0));
}

// Prologues, the wait for first bytes and the epilogue of one wave.
TEST(Ablation, Fill) {
  ItemClass item = reading(40, 4, 64);
  item.first_prologue = nanoseconds(3000);
  item.prologue_before = nanoseconds(500);
  item.prologue_after = nanoseconds(700);
  item.epilogue = nanoseconds(900);
  const ExecutionPlan plan = plan_of(one_group(item, 16, 2));
  expect_agreement(plan, cached_machine(8), Effect::kFill, Blame::kDispatchFill);
  // Without it nothing but K-steps at L / s.
  const SimulationResult without = simulate(plan, cached_machine(8), leaving_out(Effect::kFill));
  EXPECT_NEAR(without.total.as_double(), 40 * kMemoryLatency * 1e12 / 4, 1e-3 * without.total.as_double());
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

// What the first kernel wrote is too large for the cache, so the second reads it from memory.
TEST(Ablation, Copies) {
  PlanBuilder builder(LaunchMode::kGraph);
  ItemClass writer;
  writer.write = Bytes(1 << 22);
  const ItemClass reader = reading(64, 8, 64 * 1024);
  const RegionId copy = builder.add_region("copy", writer.write * 64);  // 256 MiB, 1 MiB of cache
  Kernel first = one_group(writer, 64, 8);
  first.groups[0].write_region = copy;
  const KernelId wrote = builder.add_kernel(first);
  builder.add_dependence(wrote, builder.add_kernel(one_group(reader, 64, 8, copy)));
  const ExecutionPlan plan = builder.seal();
  const SimulationResult with = simulate(plan, cached_machine(8));
  const SimulationResult without = simulate(plan, cached_machine(8), leaving_out(Effect::kCopies));
  EXPECT_EQ(with.kernels[1].memory_read, reader.read * 64);
  EXPECT_EQ(without.kernels[1].memory_read, Bytes(0));
  EXPECT_EQ(without.kernels[0].end, with.kernels[0].end);
  EXPECT_EQ(simulate(plan, cached_machine(8), leaving_out(Effect::kRereads)).total, with.total);
  const double bytes = (reader.read * 64).as_double();
  const auto seconds = [](const SimulationResult& r) { return to_seconds(r.kernels[1].end - r.kernels[1].start); };
  EXPECT_GE(seconds(with), bytes / kMemoryPeak);
  EXPECT_LT(seconds(without), 0.2 * bytes / kMemoryPeak);
  EXPECT_GE(seconds(without), bytes / kCachePeak);
}

// 16 items of four steps of 64 bytes in flight ask for 4 GB/s of 1 TB/s; without limit they get all of it. Issue and
// asynchronous copies are part of what limits them.
TEST(Ablation, InFlight) {
  ItemClass item = reading(40, 4, 64);
  item.step_issue = nanoseconds(100);
  item.load_latency = nanoseconds(400);
  const ExecutionPlan plan = plan_of(one_group(item, 16, 2));
  const SimulationResult with = simulate(plan, memory_machine(8));
  const SimulationResult without = simulate(plan, memory_machine(8), leaving_out(Effect::kInFlight));
  const double stream = 16 * 40 * 64 / kMemoryPeak;
  EXPECT_GE(to_seconds(with.total), 40 * 1.5e-6 / 4);
  // The first bytes still take their latency: that is fill.
  EXPECT_NEAR(to_seconds(without.total), stream + kMemoryLatency, 0.01 * stream);
  SimulateOptions no_fill = leaving_out(Effect::kInFlight);
  no_fill.without.add(Effect::kFill);
  EXPECT_NEAR(to_seconds(simulate(plan, memory_machine(8), no_fill).total), stream, 1e-4 * stream);
}

// Memory saturated: time is what the bytes weigh.
TEST(Ablation, ByteWeightAndWrites) {
  for (const double weight : {1.25, 2.0}) {
    ItemClass item = reading(400, 64, 64 * 1024);
    item.read_weight = weight;
    item.write = Bytes(item.read.value() / 4);
    const ExecutionPlan plan = plan_of(one_group(item, 64, 8));
    const double all = to_seconds(simulate(plan, memory_machine(8)).total);
    const double no_weight = to_seconds(simulate(plan, memory_machine(8), leaving_out(Effect::kByteWeight)).total);
    const double no_writes = to_seconds(simulate(plan, memory_machine(8), leaving_out(Effect::kWrites)).total);
    EXPECT_NEAR(all / no_weight, (weight + 0.25) / 1.25, 0.01);
    EXPECT_NEAR(all / no_writes, (weight + 0.25) / weight, 0.01);
  }
}

// The end of the ladder: what memory delivers once, at its highest rate.
TEST(Ablation, NothingLeftIsTheStreamOfTheBytes) {
  SimulateOptions options;
  for (const Effect effect : all_effects()) options.without.add(effect);
  for (const double knee : {1.0, 1.5, 2.0, 64.0}) {
    Machine machine = cached_machine(8);
    machine.launch_graph = nanoseconds(1500);
    machine.dispatch_interval = nanoseconds(2);
    machine.memory_write_weight = 2;
    for (Channel& channel : machine.channels) channel.knee = knee;
    ItemClass item = reading(40, 2, 4096);
    item.pipe_seconds = {3e-6, 2e-6, 1e-6};
    item.useful_share = 0.5;
    item.step_latency = nanoseconds(600);
    item.step_issue = nanoseconds(100);
    item.load_latency = nanoseconds(400);
    item.first_prologue = item.prologue_after = item.epilogue = nanoseconds(800);
    item.read_weight = 1.5;
    item.write = item.resident_read = Bytes(100'000);
    Kernel helper = one_group(item, 100, 4);
    helper.helper = true;
    Kernel twice = one_group(item, 40, 4);
    PlanBuilder builder(LaunchMode::kGraph);
    const RegionId copy = builder.add_region("copy", item.read * 40);
    twice.groups[0].region = builder.add_region("weights", item.read * 40);
    twice.groups.push_back(twice.groups[0]);
    twice.groups[1].write_region = copy;
    helper.groups[0].region = twice.groups[0].region;
    std::optional<KernelId> last;
    for (const Kernel& kernel : {helper, twice, one_group(item, 40, 8, copy)}) {
      const KernelId id = builder.add_kernel(kernel);
      if (last) builder.add_dependence(*last, id);
      last = id;
    }
    const double stream = (item.read * 40).as_double() / kMemoryPeak;
    EXPECT_NEAR(to_seconds(simulate(builder.seal(), machine, options).total), stream, 1e-4 * stream) << knee;
  }
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

TEST(Ablation, Matrix) {
  ItemClass item = reading(40, 4, 256);
  item.pipe_seconds[0] = 2e-6;
  item.useful_share = 0.25;
  const ExecutionPlan plan = plan_of(one_group(item, 16, 1));
  const SimulationResult with = simulate(plan, cached_machine(8));
  const SimulationResult without = simulate(plan, cached_machine(8), leaving_out(Effect::kMatrix));
  // Useful rows and others: all of the pipe's time, but for the latency that binds without it.
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
    item.read_weight = 1 + 0.25 * static_cast<double>(i);
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
  double slower = 0.05;      // of mixtures
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
    Kernel kernel = random_kernel(random, builder, alike);
    kernel.helper = n == 2;
    const KernelId id = builder.add_kernel(std::move(kernel));
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
// to 2.5 %. With bytes in flight without limit alike items are all in step, whatever was dispatched when: up to 7 %.
TEST_P(EveryEffect, LeftOutNeverMakesAlikeItemsSlower) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Outcome outcome = random_outcome(random, true, GetParam().effect);
    EXPECT_LE(outcome.without.as_double(), outcome.with.as_double() * (1 + GetParam().tolerance)) << "round " << round;
  }
}

// Unlike items compete for slots and channels: with the others faster, the longest may get its slot later (Graham 1969)
// or a smaller share of a channel. Without a tail items are small, and those that read again no longer run beside those
// that read before. So single plans may get slower, but not often and not on the whole.
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
  EXPECT_LE(slower, kRounds * GetParam().slower);
}

INSTANTIATE_TEST_SUITE_P(
    Effects, EveryEffect,
    testing::Values(Without{"Helpers", Effect::kHelpers}, Without{"Fill", Effect::kFill, 0.04},
                    Without{"Launch", Effect::kLaunch, 0.04}, Without{"Padding", Effect::kPadding},
                    Without{"Matrix", Effect::kMatrix}, Without{"Vector", Effect::kVector},
                    Without{"SerialStep", Effect::kSerialStep}, Without{"Rereads", Effect::kRereads},
                    Without{"CacheBandwidth", Effect::kCacheBandwidth}, Without{"Tail", Effect::kTail, 0.01, 0.12},
                    Without{"InFlight", Effect::kInFlight, 0.08}, Without{"ByteWeight", Effect::kByteWeight},
                    Without{"Writes", Effect::kWrites}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace moesim
