// A core that works through a grid step by step while a ring of copies runs ahead of it. Of a ring of N places, b bytes a
// step, L latency, B peak rate, p the knee, w work and s sequencing of a step:
//     step = max( ((L / (N - 1))^p + (b / B)^p)^(1/p), s + w )
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::size_t kMatrix = static_cast<std::size_t>(PipeKind::kMatrix);

struct Step {
  double ring, bytes, work, sequence;  // work and sequence in seconds
};

Kernel ring_kernel(const Step& step, std::int64_t items, bool spans = true) {
  ItemClass item;
  item.read = Bytes(std::llround(step.bytes));
  item.stages = step.ring - 1;
  item.ring_spans_items = spans;
  item.pipe_seconds[kMatrix] = step.work;
  item.step_sequence = duration_from_seconds(step.sequence);
  Kernel kernel = one_group(item, items, 1);
  kernel.schedule = {Schedule::Kind::kPersistent, 1, 1};
  return kernel;
}

// Seconds of a step once the ring runs: what 200 steps more take.
double step_seconds(const Step& step, double knee, bool spans = true) {
  Machine machine = memory_machine(1);
  machine.channels.back().knee = knee;
  const auto total = [&](std::int64_t items) {
    return to_seconds(simulate(plan_of(ring_kernel(step, items, spans)), machine).total);
  };
  return (total(400) - total(200)) / 200;
}

double closed_form(const Step& step, double knee) {
  const double in_flight = kMemoryLatency / (step.ring - 1), stream = step.bytes / kMemoryPeak;
  const double longer = std::max(in_flight, stream), shorter = std::min(in_flight, stream);
  const double copies = longer * std::pow(1 + std::pow(shorter / longer, knee), 1 / knee);
  return std::max(copies, step.sequence + step.work);
}

TEST(Ring, AStepIsTheLongestOfCopiesAndWork) {
  for (const double knee : {2.0, 8.0, 64.0}) {
    for (const double ring : {2.0, 3.0, 5.0}) {
      for (const double bytes : {1e4, 2e5, 1e6, 8e6}) {
        for (const double work : {0.0, 0.3e-6, 2e-6}) {
          for (const double sequence : {0.0, 0.4e-6}) {
            const Step step{ring, bytes, work, sequence};
            EXPECT_NEAR(step_seconds(step, knee) / closed_form(step, knee), 1, 1e-4)
                << ring << " places, " << bytes << " bytes, " << work << " s of work, " << sequence << " s";
          }
        }
      }
    }
  }
}

// With a hard knee: alpha for the first copy, then the slower of bytes / beta and the work; what comes before the ring runs
// is between nothing and one latency.
TEST(Ring, TheWholePipelineIsLatencyAndSteps) {
  Machine machine = memory_machine(1);
  machine.channels.back().knee = 64;
  for (const double work : {0.0, 5e-6}) {
    const Step step{4, 2e6, work, 0};
    const double total = to_seconds(simulate(plan_of(ring_kernel(step, 50)), machine).total);
    const double steps = 50 * closed_form(step, 64);
    EXPECT_GE(total, steps * (1 - 1e-6));
    EXPECT_LE(total, (steps + kMemoryLatency) * (1 + 1e-6));
  }
}

// Items of one step that drain the ring wait a whole latency each.
TEST(Ring, ItemsThatDrainItHaveOneStepInFlight) {
  const Step step{4, 2e5, 0, 0};
  EXPECT_NEAR(step_seconds(step, 64, false) / kMemoryLatency, 1, 1e-4);
  EXPECT_NEAR(step_seconds(step, 64, true) / (kMemoryLatency / 3), 1, 1e-4);
}

TEST(Sequence, IsBlamedBesideThePipeThatWaitsForIt) {
  Kernel kernel = ring_kernel({3, 0, 3e-6, 1e-6}, 10);
  kernel.classes[0].stationary_share = 0.5;
  kernel.classes[0].useful_share = 0.25;
  const SimulationResult result = simulate(plan_of(kernel), memory_machine(1));
  EXPECT_NEAR(result.total.as_double(), 40e6, 10);
  EXPECT_NEAR(share_of(result, Blame::kSerialStep), 0.25, 1e-6);
  EXPECT_NEAR(share_of(result, Blame::kWeightLoad), 0.375, 1e-6);
  EXPECT_NEAR(share_of(result, Blame::kMatrix), 0.375 * 0.25, 1e-6);
  EXPECT_NEAR(share_of(result, Blame::kPadding), 0.375 * 0.75, 1e-6);
}

TEST(Sequence, AblationsTakeAwayWhatIsBlamed) {
  Kernel kernel = ring_kernel({3, 0, 3e-6, 1e-6}, 10);
  kernel.classes[0].stationary_share = 0.5;
  kernel.classes[0].useful_share = 0.25;
  SimulateOptions options;
  options.without = EffectSet(Effect::kSerialStep);
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(1), options).total.as_double(), 30e6, 10);
  options.without = EffectSet(Effect::kWeightLoad);
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(1), options).total.as_double(), 40e6 - 0.375 * 40e6, 10);
  options.without.add(Effect::kPadding);
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(1), options).total.as_double(), 10e6 + 0.375 * 0.25 * 40e6, 10);
  options.without = EffectSet(Effect::kPadding);
  EXPECT_NEAR(simulate(plan_of(kernel), memory_machine(1), options).total.as_double(), 40e6 - 0.375 * 0.75 * 40e6, 10);
}

}  // namespace
}  // namespace moesim
