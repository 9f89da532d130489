// Steps of continuous batching: decodes and chunks of prompts in one plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hwmodels/loader.h"
#include "tests/testkit/step_models.h"
#include "tests/testkit/steps.h"
#include "workloads/step/lower_step.h"
#include "workloads/step/step_memory.h"

namespace moesim {
namespace {

using namespace testkit;

Kernel kernel_of(const DecodeStep& step, const HardwareModel& hardware, const std::string& name) {
  const StepPlanOrInfeasible plan = lower_step(step, hardware, parse_strategy("grouped_gemm"), {});
  for (const Kernel& kernel : std::get<StepPlan>(plan).plan.kernels()) {
    if (kernel.name == name) return kernel;
  }
  ADD_FAILURE() << "no kernel " << name;
  return {};
}

double read_by(const Kernel& kernel) {
  double sum = 0;
  for (const ItemGroup& group : kernel.groups) {
    sum += kernel.classes[group.item_class].read.as_double() * static_cast<double>(group.count);
  }
  return sum;
}

double issued_flops(const Kernel& kernel) {
  double sum = 0;
  for (const ItemGroup& group : kernel.groups) {
    sum += kernel.classes[group.item_class].issued_flops * static_cast<double>(group.count);
  }
  return sum;
}

class MixedStep : public testing::Test {
 protected:
  const MoeModel model = mixtral_model();
  const HardwareModel h200 = load_hardware("h200");
  const StepOptions one_layer = {.layers = 1};
};

TEST_F(MixedStep, OfDecodesAloneIsADecodeStepToThePicosecond) {
  for (const MoeModel& of : {mixtral_model(), qwen35_model(), tiny_step_model()}) {
    const StepOptions options{.context = 3000, .layers = 4};
    const DecodeStep plain = step_of(of, {.sequences = 6, .tp = 8, .options = options});
    DecodeStep mixed = plain;
    mixed.mixed = {{6, 1, 3000}};
    EXPECT_EQ(predicted(plain, h200).time, predicted(mixed, h200).time) << of.name;
    EXPECT_EQ(bytes_read(plain), bytes_read(mixed)) << of.name;
  }
}

// A tile of query rows streams the context up to its last token, in blocks of 64 tokens: 32 queries a token over 8 heads are
// 4 rows each, 32 tokens a tile of 128 rows. Chunk of 96 after 1000: tiles see 1032, 1064 and 1096 tokens.
TEST_F(MixedStep, AChunkAttendsCausallyInTiles) {
  const Kernel kernel = kernel_of(step_of(model, {.options = one_layer, .mixed = {{2, 96, 1096}}}), h200, "attention");
  const double values = 2.0 * 128, heads = 8, sequences = 2;
  EXPECT_NEAR(read_by(kernel), 2 * values * heads * sequences * (1032 + 1064 + 1096), 1e-5 * read_by(kernel));
  const auto blocks = [](double tokens) { return std::ceil(tokens / 64) * 64; };
  const double issued = 2 * 128 * values * heads * sequences * (blocks(1032) + blocks(1064) + blocks(1096));
  // Parts of a split hold whole blocks, the last perhaps fewer than it is given time for.
  EXPECT_GE(issued_flops(kernel), issued);
  EXPECT_LE(issued_flops(kernel), 1.5 * issued);
  double distinct = 0;
  for (const ItemGroup& group : kernel.groups) {
    const ItemClass& item = kernel.classes[group.item_class];
    distinct += item.read.as_double() * item.first_share * static_cast<double>(group.count);
  }
  EXPECT_NEAR(distinct, 2 * values * heads * sequences * 1096, 1e-4 * distinct);
}

TEST_F(MixedStep, AWindowLimitsWhatATileStreams) {
  MoeModel windowed = model;
  windowed.mixers.front().window = 256;
  const Kernel kernel =
      kernel_of(step_of(windowed, {.options = one_layer, .mixed = {{1, 32, 5000}}}), h200, "attention");
  EXPECT_NEAR(read_by(kernel), 2 * 256.0 * 8 * (256 + 31), 64);  // bytes of an item are whole
}

TEST_F(MixedStep, TheHeadSeesTheLastTokenOfEachSequenceAlone) {
  const DecodeStep step = step_of(model, {.options = one_layer, .mixed = {{3, 1, 500}, {2, 40, 700}}});
  EXPECT_EQ(step.tokens(), 83);
  EXPECT_EQ(step.sampled(), 5);
  EXPECT_EQ(
      kernel_of(step, h200, "qkv").classes.front().useful_flops,
      kernel_of(step_of(model, {.sequences = 83, .options = one_layer}), h200, "qkv").classes.front().useful_flops);
  EXPECT_EQ(
      kernel_of(step, h200, "lm_head").classes.front().useful_flops,
      kernel_of(step_of(model, {.sequences = 5, .options = one_layer}), h200, "lm_head").classes.front().useful_flops);
}

TEST_F(MixedStep, ExpertParallelDevicesShareSequences) {
  const DecodeStep step = step_of(model, {.ep = 2, .mixed = {{3, 1, 500}, {2, 40, 700}}});
  EXPECT_EQ(step.tokens(), 2 + 40);
  EXPECT_EQ(step.sampled(), 2 + 1);
}

TEST_F(MixedStep, MemoryHoldsEachSequencesOwnContext) {
  const StepMemory memory = memory_of(step_of(model, {.mixed = {{3, 1, 500}, {2, 40, 700}}}));
  EXPECT_EQ(memory.cache.value(), 2 * 2048 * (3 * 500 + 2 * 700) * 32);
}

TEST_F(MixedStep, LongerChunksAndMoreOfThemTakeLonger) {
  Duration last;
  for (const std::int64_t tokens : {1, 16, 128, 1024}) {
    const Duration time = predicted(step_of(model, {.options = one_layer, .mixed = {{2, tokens, 2048}}}), h200).time;
    EXPECT_GE(time, last) << tokens;
    last = time;
  }
  const Duration decodes = predicted(step_of(model, {.options = one_layer, .mixed = {{8, 1, 2048}}}), h200).time;
  const Duration both =
      predicted(step_of(model, {.options = one_layer, .mixed = {{8, 1, 2048}, {1, 512, 2048}}}), h200).time;
  EXPECT_GT(both, decodes);
}

TEST_F(MixedStep, BoundsHoldForChunksOfAllKindsOfMixers) {
  for (const MoeModel& of : {mixtral_model(), qwen35_model(), deepseek_v3_model(), tiny_step_model()}) {
    const DecodeStep step =
        step_of(of, {.tp = 8, .options = {.layers = 4}, .mixed = {{4, 1, 900}, {2, 33, 1500}, {1, 700, 700}}});
    const Prediction prediction = predicted(step, h200);
    EXPECT_GE(prediction.time, prediction.bound) << of.name;
  }
}

}  // namespace
}  // namespace moesim
