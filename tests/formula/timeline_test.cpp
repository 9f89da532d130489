// What a listener hears: loads whose integrals over time are bytes, work and items; spans that say what bound their items.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/testkit/collector.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kSteps = 40;

struct Heard {
  SimulationResult result;
  Collector timeline;

  template <class Value>
  [[nodiscard]] double integral(const Value& value) const {  // over seconds
    double sum = 0;
    for (const MachineLoad& load : timeline.loads) sum += value(load) * to_seconds(load.to - load.from);
    return sum;
  }
};

Heard listen(const ExecutionPlan& plan, const Machine& machine, bool cohorts = true) {
  Heard heard;
  SimulateOptions options;
  options.cohorts = cohorts;
  options.listener = &heard.timeline;
  heard.result = simulate(plan, machine, options);
  return heard;
}

// Two kernels of several classes, waves and a helper, that stream, multiply, wait and write.
ExecutionPlan busy_plan(LaunchMode mode) {
  ItemClass stream;
  stream.steps = kSteps;
  stream.stages = 3;
  stream.read = Bytes(1'200'000);
  stream.first_share = 0.5;
  stream.resident_read = Bytes(40'000);
  stream.write = Bytes(8'000);
  stream.prologue_before = nanoseconds(300);
  stream.prologue_after = nanoseconds(500);
  stream.epilogue = nanoseconds(700);
  ItemClass product = stream;
  product.pipe_seconds[0] = 40e-9;
  product.useful_share = 0.25;
  Kernel first = one_group(stream, 37, 3);
  first.classes.push_back(product);
  ItemGroup second = first.groups[0];
  second.item_class = 1;
  second.count = 23;
  first.groups.push_back(second);
  second.count = 5;
  second.after = {0};
  first.groups.push_back(second);
  Kernel helper = one_group(product, 9, 1);
  helper.helper = true;
  return chain_of({first, helper}, mode);
}

Machine busy_machine() {
  Machine machine = cached_machine(4);
  machine.launch_graph = machine.launch_programmatic = microseconds(2);
  machine.dispatch_interval = nanoseconds(20);
  return machine;
}

class EveryLaunch : public testing::TestWithParam<LaunchMode> {
 protected:
  [[nodiscard]] Heard heard(bool cohorts = true) const {
    return listen(busy_plan(GetParam()), busy_machine(), cohorts);
  }
};

TEST_P(EveryLaunch, LoadsHaveNoGaps) {
  const Heard run = heard();
  EXPECT_EQ(run.timeline.started, 1);
  EXPECT_EQ(run.timeline.ended, 1);
  EXPECT_EQ(run.timeline.total, run.result.total);
  TimePoint at;
  for (const MachineLoad& load : run.timeline.loads) {
    EXPECT_EQ(load.from, at);
    EXPECT_LT(load.from, load.to);
    at = load.to;
  }
  EXPECT_EQ(at - TimePoint(), run.result.total);
}

// integral of a channel's rate = the bytes that pass it.
TEST_P(EveryLaunch, RatesIntegrateToBytes) {
  for (const bool cohorts : {true, false}) {
    const Heard run = heard(cohorts);
    double memory = 0, cache = 0;
    for (const KernelResult& kernel : run.result.kernels) {
      memory += (kernel.memory_read + kernel.written).as_double();
      cache += kernel.cache_read.as_double();
    }
    const double tolerance = cohorts ? 2e-3 : 1e-5;  // cohorts that end nearly together end together
    EXPECT_NEAR(run.integral([](const MachineLoad& l) { return l.rate[0]; }) / cache, 1, tolerance);
    EXPECT_NEAR(run.integral([](const MachineLoad& l) { return l.rate[1]; }) / memory, 1, tolerance);
  }
}

// integral of the items of a state = sum over the spans of their items' time in it.
TEST_P(EveryLaunch, ItemsIntegrateToSpans) {
  const Heard run = heard();
  double flowing = 0;
  std::int64_t items = 0;
  for (const Span& span : run.timeline.spans) {
    const auto count = static_cast<double>(span.items);
    flowing += count * to_seconds(span.drain - span.flow);
    items += span.items;
    EXPECT_NEAR(std::accumulate(span.blame.begin(), span.blame.end(), 0.0), 1, 1e-9);
  }
  const double waiting = run.integral([](const MachineLoad& l) { return static_cast<double>(l.waiting); });
  EXPECT_EQ(items, run.result.items);
  EXPECT_NEAR(run.integral([](const MachineLoad& l) { return static_cast<double>(l.flowing); }) / flowing, 1, 1e-6);
  // Items count from the moment at which a slot is theirs: dispatch itself takes a part of what waits.
  double prologues = 0;
  for (const Span& span : run.timeline.spans) {
    prologues += static_cast<double>(span.items) * to_seconds((span.flow - span.start) + (span.end - span.drain));
  }
  EXPECT_GE(waiting, prologues * (1 - 1e-6));
  EXPECT_NEAR(waiting / prologues, 1, 0.1);
  for (const MachineLoad& load : run.timeline.loads) {
    EXPECT_NEAR(std::accumulate(load.bound.begin(), load.bound.end(), 0.0),
                static_cast<double>(load.flowing + load.waiting), 1e-6);
  }
}

// Every item of a group belongs to one span.
TEST_P(EveryLaunch, SpansCoverEachGroupOnce) {
  const ExecutionPlan plan = busy_plan(GetParam());
  for (const bool cohorts : {true, false}) {
    const Heard run = listen(plan, busy_machine(), cohorts);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<int>> seen;
    TimePoint last;
    for (const Span& span : run.timeline.spans) {
      EXPECT_LE(last, span.end);
      last = span.end;
      std::vector<int>& items = seen[{span.kernel, span.group}];
      items.resize(static_cast<std::size_t>(plan.kernels()[span.kernel].groups[span.group].count));
      for (std::int64_t i = 0; i < span.items; ++i) ++items.at(static_cast<std::size_t>(span.first_item + i));
    }
    ASSERT_EQ(seen.size(), 4u);
    for (const auto& [group, items] : seen) EXPECT_THAT(items, testing::Each(1));
  }
}

// The blame rule shares an interval over all active items: weighted so, the items' own shares are the run's attribution.
TEST_P(EveryLaunch, BoundItemsIntegrateToTheAttribution) {
  const Heard run = heard();
  std::array<double, kBlameCount> shares{};
  for (const MachineLoad& load : run.timeline.loads) {
    const auto active = static_cast<double>(load.flowing + load.waiting);
    for (std::size_t b = 0; b < kBlameCount; ++b) {
      if (active > 0) shares[b] += load.bound[b] / active * (load.to - load.from).as_double();
    }
  }
  // The helper's items are bound like any others; its kernel's time is all "helper kernels".
  double bound = 0, kept = 0;
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    bound += shares[b];
    if (b != static_cast<std::size_t>(Blame::kLaunch) && b != static_cast<std::size_t>(Blame::kHelper)) {
      kept += run.result.attribution[b].as_double();
      EXPECT_GE(shares[b] + 1, run.result.attribution[b].as_double() * 0.999) << blame_name(static_cast<Blame>(b));
    }
  }
  const double launch = blamed(run.result.attribution, Blame::kLaunch).as_double();
  if (GetParam() == LaunchMode::kGraph) {
    EXPECT_NEAR(bound + launch, run.result.total.as_double(), 10);
    EXPECT_NEAR(bound - kept, blamed(run.result.attribution, Blame::kHelper).as_double(), 10);
  } else {  // items that wait for another kernel's end count, while the time is the launch's
    EXPECT_GE(bound + launch, run.result.total.as_double());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryLaunch, testing::Values(LaunchMode::kGraph, LaunchMode::kProgrammatic));

// Little's law: n items with s steps of b bytes in flight, bound by latency alone, hold n s b; the rate is that over L.
TEST(Loads, BytesInFlightByLittlesLaw) {
  ItemClass item;
  item.steps = 200;
  item.stages = 4;
  item.read = Bytes(200 * 100);
  const Heard run = listen(plan_of(one_group(item, 8, 2)), memory_machine(4));
  const double held = 8 * 4 * 100;
  for (const MachineLoad& load : run.timeline.loads) {
    if (load.flowing < 8) continue;
    EXPECT_NEAR(load.bytes_in_flight, held, 1e-6 * held);
    EXPECT_NEAR(load.rate[0] * kMemoryLatency, held, 1e-3 * held);
    EXPECT_NEAR(load.use[0], load.rate[0] / kMemoryPeak, 1e-9);
    EXPECT_EQ(load.on_chip_bytes, static_cast<double>(4 * kUnitBytes));
  }
  // Bound by a pipe, less is in flight: as much as comes in a latency.
  item.pipe_seconds[0] = 1e-6;  // beside the 0.25 us that a step would take
  const Heard slow = listen(plan_of(one_group(item, 4, 1)), memory_machine(4));
  for (const MachineLoad& load : slow.timeline.loads) {
    if (load.flowing < 4) continue;
    EXPECT_NEAR(load.bytes_in_flight, 4 * 100, 1);
    EXPECT_NEAR(load.matrix_use, 1, 1e-9);
  }
}

// The share of the matrix pipes that work, padding included: n items' steps x seconds / (units x time).
TEST(Loads, MatrixUseIsWorkOverTime) {
  ItemClass item;
  item.steps = kSteps;
  item.pipe_seconds[0] = 10e-9;
  item.step_latency = nanoseconds(40);
  item.useful_share = 0.5;
  const Heard run = listen(plan_of(one_group(item, 6, 1)), memory_machine(4));
  EXPECT_NEAR(run.integral([](const MachineLoad& l) { return l.matrix_use; }), 6 * kSteps * 10e-9 / 4, 1e-12);
}

// What binds a cohort's items: prologue and epilogue are fill, a wait is synchronisation, and the steps are the pipe's.
TEST(Spans, SayWhatBoundTheirItems) {
  ItemClass item;
  item.steps = 100;
  item.pipe_seconds[0] = 10e-9;  // 1000 ns
  item.prologue_before = nanoseconds(100);
  item.prologue_after = nanoseconds(150);
  item.epilogue = nanoseconds(250);
  Kernel kernel = one_group(item, 2, 2);
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups[1].after = {0};
  const Heard run = listen(plan_of(kernel), memory_machine(2));
  ASSERT_EQ(run.timeline.spans.size(), 4u);
  for (const Span& span : run.timeline.spans) {
    const auto share = [&](Blame blame) { return span.blame[static_cast<std::size_t>(blame)]; };
    // The second group is dispatched beside the first, and waits for its end after its own prologue_before.
    const double time = span.group == 0 ? 1500 : 2900;
    const double waits = span.group == 0 ? 0 : 1400;
    EXPECT_NEAR((span.end - span.start).as_double(), 1000 * time, 2);
    EXPECT_NEAR(share(Blame::kSynchronisation), waits / time, 1e-6);
    EXPECT_NEAR(share(Blame::kDispatchFill), 500 / time, 1e-6);
    EXPECT_NEAR(share(Blame::kMatrix) + share(Blame::kTail), (time - waits - 500) / time, 1e-6);
  }
}

// Categories of kernels sum to the run's, and no part is negative, whatever their fractions are.
TEST(RoundParts, EachCategorySumsExactly) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    const auto kernels = static_cast<std::size_t>(random.whole(1, 300));
    std::vector<std::array<double, kBlameCount>> parts(kernels);
    std::array<double, kBlameCount> sums{};
    double all = 0;
    for (auto& kernel : parts) {
      for (std::size_t b = 0; b < kBlameCount; ++b) {
        kernel[b] = random.chance(0.4) ? 0 : random.spread(0.01, random.chance(0.5) ? 1 : 1e9);
        sums[b] += kernel[b];
        all += kernel[b];
      }
    }
    const Attribution totals = round_attribution(sums, Duration(std::llround(all)));
    const std::vector<Attribution> rounded = round_parts(parts, totals);
    ASSERT_EQ(rounded.size(), kernels);
    const Blame moved = largest(totals);
    for (std::size_t b = 0; b < kBlameCount; ++b) {
      Duration sum;
      for (std::size_t k = 0; k < kernels; ++k) {
        sum += rounded[k][b];
        EXPECT_GE(rounded[k][b], Duration(0));
        if (b != static_cast<std::size_t>(moved)) {
          EXPECT_NEAR(rounded[k][b].as_double(), parts[k][b], 1);
        }
      }
      EXPECT_EQ(sum, totals[b]);
    }
  }
  EXPECT_TRUE(round_parts({}, {}).empty());
}

}  // namespace
}  // namespace moesim
