// Parts of a decode step against their closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"
#include "tests/testkit/step_models.h"
#include "tests/testkit/steps.h"

namespace moesim {
namespace {

using namespace testkit;

const KernelResult& result_of(const Prediction& prediction, const std::string& name) {
  const auto it = std::find_if(prediction.kernels.begin(), prediction.kernels.end(),
                               [&](const KernelSummary& kernel) { return kernel.name == name; });
  EXPECT_NE(it, prediction.kernels.end()) << name;
  return it->result;
}

Duration busy(const Prediction& prediction, const std::string& name) {
  const KernelResult& result = result_of(prediction, name);
  return result.end - result.start;
}

// bytes / highest rate <= time <= that, the read latency hidden but for the ends, and a few microseconds of launch, fill
// and tail.
TEST(StepFormula, TheHeadStreamsItsMatrix) {
  const MoeModel model = mixtral_model();
  const HardwareModel h200 = load_hardware("h200");
  const Prediction prediction = predicted(step_of(model, {.options = {.layers = 1}}), h200);
  const double bytes = 2.0 * 32000 * 4096;
  EXPECT_EQ(result_of(prediction, "lm_head").memory_read, Bytes(static_cast<std::int64_t>(bytes)));
  const double bound = bytes / highest_read_rate(h200);
  EXPECT_GE(to_seconds(busy(prediction, "lm_head")), bound);
  EXPECT_LE(to_seconds(busy(prediction, "lm_head")), bound + 5e-6);
}

TEST(StepFormula, AttentionStreamsTheCache) {
  const MoeModel model = mixtral_model();
  const HardwareModel h200 = load_hardware("h200");
  const DecodeStep step = step_of(model, {.sequences = 8, .options = {.context = 32'768, .layers = 1}});
  const Prediction prediction = predicted(step, h200);
  const double bytes = 2.0 * 2048 * 32'768 * 8;
  EXPECT_EQ(result_of(prediction, "attention").memory_read, Bytes(static_cast<std::int64_t>(bytes)));
  const double bound = bytes / highest_read_rate(h200);
  EXPECT_GE(to_seconds(busy(prediction, "attention")), bound);
  EXPECT_LE(to_seconds(busy(prediction, "attention")), 1.25 * bound);
}

// All heads share the latent cache: two reads' worth of products a value and head, more than 8-bit values take to come.
TEST(StepFormula, LatentAttentionOfManySequencesIsMatrixWork) {
  const MoeModel model = deepseek_v3_model();
  const HardwareModel h200 = load_hardware("h200");
  const DecodeStep step =
      step_of(model, {.sequences = 64, .options = {.context = 8192, .cache = {Dtype::kFp8, 0}, .layers = 1}});
  const Prediction prediction = predicted(step, h200);
  const double flops = 2.0 * 128 * (576 + 512) * 8192 * 64;
  const double work = flops / (4096.0 * 132 * 1.98e9);
  EXPECT_GE(to_seconds(busy(prediction, "attention")), work);
  EXPECT_LE(to_seconds(busy(prediction, "attention")), 1.5 * work);
}

// latency + 2 (n - 1) / n x bytes / (bandwidth x share), rounded to the picosecond.
TEST(StepFormula, AllReduceIsLatencyAndBytes) {
  const MoeModel model = tiny_step_model();
  HardwareModel hw = load_hardware("h200");
  apply_override(hw, "link.bandwidth=100GB/s");
  apply_override(hw, "link.reduce_latency=3us");
  apply_override(hw, "link.reduce_fraction=0.5");
  const Prediction prediction = predicted(step_of(model, {.sequences = 64, .tp = 4}), hw);
  const double bytes = 64.0 * 256 * 2;
  EXPECT_EQ(busy(prediction, "all_reduce"), duration_from_seconds(3e-6 + 2 * 0.75 * bytes / 50e9));
  EXPECT_EQ(busy(prediction, "gather_logits"), duration_from_seconds(3e-6 + 0.75 * 64 * 4096 * 2 / 50e9));
}

// latency + (n - 1) / n x tokens x k x hidden x bytes / (bandwidth x share): 16-bit states out and back.
TEST(StepFormula, ExchangesAreLatencyAndBytesOfThePicks) {
  const MoeModel model = tiny_step_model();
  HardwareModel hw = load_hardware("h200");
  apply_override(hw, "link.bandwidth=100GB/s");
  apply_override(hw, "link.exchange_latency=10us");
  apply_override(hw, "link.exchange_fraction=0.5");
  const Prediction prediction = predicted(step_of(model, {.sequences = 64, .ep = 4}), hw);
  const double bytes = 16.0 * 2 * 256 * 2;  // a quarter of the sequences, two experts each
  EXPECT_EQ(busy(prediction, "dispatch"), duration_from_seconds(10e-6 + 0.75 * bytes / 50e9));
  EXPECT_EQ(busy(prediction, "exchange_back"), busy(prediction, "dispatch"));
}

TEST(StepFormula, NarrowActivationsAreDispatchedInEightBitsWithScales) {
  MoeModel model = tiny_step_model();
  model.expert_weights = {Dtype::kFp8Block128, 0};
  HardwareModel hw = load_hardware("h200");
  apply_override(hw, "link.bandwidth=100GB/s");
  apply_override(hw, "link.exchange_latency=10us");
  apply_override(hw, "link.exchange_fraction=0.5");
  const Prediction prediction = predicted(step_of(model, {.sequences = 64, .ep = 4}), hw);
  EXPECT_EQ(busy(prediction, "dispatch"), duration_from_seconds(10e-6 + 0.75 * 16 * 2 * 256 * (1 + 4.0 / 128) / 50e9));
}

// A plan inside another: the same kernels, one after another, take the sum of their times where no cache helps.
TEST(StepFormula, AppendedPlansRunAfterWhatStandsBefore) {
  const Machine machine = memory_machine(4);
  ItemClass item;
  item.steps = 4;
  item.read = Bytes(1 << 16);
  const auto plan = [&] { return chain_of({one_group(item, 4, 1), one_group(item, 8, 1)}); };
  const SimulationResult alone = simulate(plan(), machine);
  PlanBuilder builder(LaunchMode::kGraph);
  const KernelId first = builder.append(plan(), std::nullopt);
  EXPECT_EQ(builder.append(plan(), first), KernelId(3));
  const ExecutionPlan both = builder.seal();
  EXPECT_EQ(both.regions().size(), 2 * plan().regions().size());
  const SimulationResult twice = simulate(both, machine);
  EXPECT_EQ(twice.total, alone.total * 2);
  EXPECT_EQ(twice.kernels[2].start, twice.kernels[1].end);
}

}  // namespace
}  // namespace moesim
