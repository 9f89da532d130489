// What a decode step holds and reads, against counts made by hand.
#include "workloads/step/step_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hwmodels/loader.h"
#include "tests/testkit/step_models.h"
#include "tests/testkit/steps.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace testkit;

constexpr std::int64_t kBytes16Bit = 2;

TEST(StepMemory, MixtralIsItsParametersAndItsCache) {
  const MoeModel model = mixtral_model();
  const StepMemory memory = memory_of(step_of(model, {.sequences = 2, .options = {.context = 1000}}));
  EXPECT_EQ(memory.attention.value(), kBytes16Bit * 32 * (6144 * 4096 + 4096 * 4096));
  EXPECT_EQ(memory.experts.value(), kBytes16Bit * 32 * 8 * 3 * 4096 * 14336);
  EXPECT_EQ(memory.routers.value(), kBytes16Bit * 32 * 8 * 4096);
  EXPECT_EQ(memory.head.value(), kBytes16Bit * 32000 * 4096);
  EXPECT_EQ(memory.rest, memory.head);  // embeddings
  EXPECT_EQ(memory.dense, Bytes(0));
  EXPECT_EQ(memory.shared, Bytes(0));
  EXPECT_EQ(memory.cache.value(), kBytes16Bit * 32 * 2 * 8 * 128 * 1000 * 2);
  EXPECT_EQ(memory.state, Bytes(0));
}

TEST(StepMemory, TiedEmbeddingsAreHeldOnce) {
  MoeModel model = mixtral_model();
  model.tied_embeddings = true;
  EXPECT_EQ(memory_of(step_of(model)).rest, Bytes(0));
}

TEST(StepMemory, AStateIsHeldOncePerSequenceAtAnyContext) {
  const MoeModel model = qwen35_model();
  const auto state = [&](std::int64_t sequences, std::int64_t context) {
    return memory_of(step_of(model, {.sequences = sequences, .options = {.context = context}})).state.value();
  };
  EXPECT_EQ(state(1, 100), 45 * 64 * 128 * 128 * 4);
  EXPECT_EQ(state(3, 100), 3 * state(1, 100));
  EXPECT_EQ(state(1, 100'000), state(1, 100));
}

TEST(StepMemory, LatentAttentionKeepsItsCacheWholeOnEveryDevice) {
  const MoeModel model = deepseek_v3_model();
  const StepMemory one = memory_of(step_of(model)), eight = memory_of(step_of(model, {.tp = 8}));
  EXPECT_EQ(one.cache.value(), kBytes16Bit * 61 * 576 * 4096);
  EXPECT_EQ(eight.cache, one.cache);
  EXPECT_EQ(eight.routers, one.routers);
  EXPECT_EQ(eight.head * 8, one.head);
}

TEST(StepMemory, DevicesShareMatricesHeadsExpertsAndSequences) {
  const MoeModel model = mixtral_model();
  const StepMemory one = memory_of(step_of(model, {.sequences = 8}));
  const StepMemory tensor = memory_of(step_of(model, {.sequences = 8, .tp = 4}));
  EXPECT_EQ(tensor.attention * 4, one.attention);
  EXPECT_EQ(tensor.experts * 4, one.experts);
  EXPECT_EQ(tensor.cache * 4, one.cache);
  EXPECT_EQ(memory_of(step_of(model, {.sequences = 8, .tp = 16})).cache * 8, one.cache);  // eight heads
  const StepMemory expert = memory_of(step_of(model, {.sequences = 8, .ep = 4}));
  EXPECT_EQ(expert.attention, one.attention);
  EXPECT_EQ(expert.experts * 4, one.experts);
  EXPECT_EQ(expert.cache * 4, one.cache);
}

TEST(StepMemory, AnEightBitCacheIsHalfAsLarge) {
  const MoeModel model = mixtral_model();
  const StepMemory narrow = memory_of(step_of(model, {.options = {.cache = {Dtype::kFp8, 0}}}));
  EXPECT_EQ(narrow.cache * 2, memory_of(step_of(model)).cache);
}

TEST(StepMemory, AWindowBoundsWhatIsHeldAndRead) {
  MoeModel model = mixtral_model();
  model.mixers[0].window = 1024;
  const auto of = [&](std::int64_t context) { return step_of(model, {.options = {.context = context}}); };
  EXPECT_EQ(memory_of(of(1000)).cache.value(), kBytes16Bit * 32 * 2048 * 1000);
  EXPECT_EQ(memory_of(of(5000)).cache.value(), kBytes16Bit * 32 * 2048 * 1024);
  EXPECT_EQ(bytes_read(of(5000)), bytes_read(of(1024)));
}

// A sparse indexer: all of the context is held, its index values are read, of the rest what is attended to.
TEST(StepMemory, AnIndexerReadsItsValuesOfAllTokens) {
  MoeModel model = deepseek_v3_model();
  model.mixers[0].cached_values += 128;
  model.mixers[0].indexed_values = 128;
  model.mixers[0].window = 2048;
  const auto of = [&](std::int64_t context) { return step_of(model, {.options = {.context = context}}); };
  EXPECT_EQ(memory_of(of(10'000)).cache.value(), kBytes16Bit * 61 * (576 + 128) * 10'000);
  EXPECT_EQ((bytes_read(of(10'000)) - bytes_read(of(9'000))).value(), kBytes16Bit * 61 * 128 * 1'000);
}

TEST(StepMemory, AStepReadsActiveExpertsAlone) {
  const MoeModel model = mixtral_model();
  const DecodeStep step = step_of(model);  // one token: two experts a layer
  const StepMemory memory = memory_of(step);
  EXPECT_EQ(bytes_read(step) * 4, (memory.weights() - memory.rest + memory.cache) * 4 - memory.experts * 3);
}

TEST(StepMemory, OnlyTheLayersSimulatedCount) {
  const MoeModel model = deepseek_v3_model();
  const StepMemory three = memory_of(step_of(model, {.options = {.layers = 3}}));
  EXPECT_EQ(three.experts, Bytes(0));
  EXPECT_EQ(three.dense, memory_of(step_of(model)).dense);
  EXPECT_EQ(memory_of(step_of(model, {.options = {.layers = 1000}})).all(), memory_of(step_of(model)).all());
}

TEST(StepMemory, WhatDoesNotFitIsRefusedWithTheNumbers) {
  const MoeModel model = qwen35_model();
  const HardwareModel b200 = load_hardware("b200");
  EXPECT_THAT(refusal(step_of(model), b200), AllOf(HasSubstr("weights 398.6 GB + KV cache and state 0.3 GB = 398.9 GB"),
                                                   HasSubstr("b200 has 180.0 GB"), HasSubstr("--tp 4 would hold it")));
  EXPECT_EQ(memory_shortage(step_of(model, {.tp = 4}), b200), std::nullopt);
}

// Tensor parallelism copies a latent cache; expert parallelism divides the sequences.
TEST(StepMemory, ALatentCacheThatDoesNotFitAsksForExpertParallelDevices) {
  const MoeModel model = deepseek_v3_model();
  const DecodeStep step = step_of(model, {.sequences = 64, .tp = 8, .options = {.context = 131'072}});
  EXPECT_THAT(refusal(step, load_hardware("h200")), HasSubstr("--ep 8 would hold it"));
}

TEST(StepMemory, NoWayOutIsNamedWhereThereIsNone) {
  const MoeModel model = tiny_step_model();
  EXPECT_THAT(refusal(step_of(model, {.options = {.context = 2'000'000'000}}), load_hardware("h200")),
              AllOf(HasSubstr("h200 has 141.0 GB"), Not(HasSubstr("--tp"))));
}

}  // namespace
}  // namespace moesim
