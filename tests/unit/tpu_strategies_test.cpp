// What the strategies of sequential grids make of a layer.
#include <gmock/gmock.h>

#include <algorithm>

#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"
#include "tests/testkit/models.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const HardwareModel& tpu7x() {
  static const HardwareModel hardware = load_hardware("tpu7x");
  return hardware;
}

// A layer of Qwen3.5-397B-FP8 whose token t picks the ten experts from first(t) on.
MoeLayer layer_of(std::int64_t tokens, std::int32_t apart, std::int64_t tp, std::int64_t ep) {
  const MoeModel model = load_model("qwen3.5-397b-a17b-fp8");
  RoutedBatch batch{tokens, model.topk, model.experts, {}};
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t k = 0; k < model.topk; ++k) batch.ids.push_back(static_cast<std::int32_t>(t * apart + k));
  }
  return shard_layer(model, batch, default_activations(model.expert_weights), tp, ep);
}

ExecutionPlan plan_of(const MoeLayer& layer, const std::string& strategy, Scope scope = Scope::kExpertFfn) {
  PredictOptions options;
  options.scope = scope;
  return std::get<ExecutionPlan>(lower_layer(layer, tpu7x(), parse_strategy(strategy), options));
}

std::string refusal(const MoeLayer& layer, const std::string& strategy, const HardwareModel& hardware = tpu7x()) {
  const Lowered lowered = lower_layer(layer, hardware, parse_strategy(strategy), {});
  const auto* reason = std::get_if<Infeasible>(&lowered);
  return reason == nullptr ? "" : reason->reason;
}

const Kernel& kernel_of(const ExecutionPlan& plan, const std::string& name) {
  return *std::ranges::find_if(plan.kernels(), [&](const Kernel& kernel) { return kernel.name == name; });
}

Prediction predicted(const MoeLayer& layer, const std::string& strategy, const HardwareModel& hardware = tpu7x()) {
  PredictOptions options;
  options.scope = Scope::kExpertFfn;
  return std::get<Prediction>(predict(layer, hardware, parse_strategy(strategy), options));
}

TEST(WrongGrid, IsAReasonNotAnError) {
  const MoeLayer layer = layer_of(1, 0, 8, 1);
  EXPECT_THAT(refusal(layer, "grouped_gemm"), HasSubstr("tpu7x has a sequential one"));
  EXPECT_THAT(refusal(layer, "tpu_gmm", load_hardware("h200")), HasSubstr("h200 has a parallel one"));
  const auto best = std::get<Prediction>(predict(layer, tpu7x(), parse_strategy("auto"), {}));
  EXPECT_THAT(best.strategy, HasSubstr("tpu_"));
}

TEST(TpuGmm, AGroupIsAStep) {
  const ExecutionPlan plan = plan_of(layer_of(3, 10, 8, 1), "tpu_gmm");
  EXPECT_EQ(kernel_of(plan, "gemm1").items(), 30);
  EXPECT_EQ(kernel_of(plan, "gemm2").items(), 30);
}

// 200 tokens on the same experts: two row tiles of 128 a group, or, cut as the rows are packed, those that a group's rows lie
// in: 2,000 rows are 16 tiles, and each of 9 boundaries between groups that is none between tiles adds a visit.
TEST(TpuGmm, RowsOfAGroupAreCutIntoTiles) {
  const MoeLayer layer = layer_of(200, 0, 8, 1);
  EXPECT_EQ(kernel_of(plan_of(layer, "tpu_gmm"), "gemm1").items(), 20);
  EXPECT_EQ(kernel_of(plan_of(layer, "tpu_gmm:aligned_tiles=1"), "gemm1").items(), 16 + 9);
}

// A group's second tile finds the weights on the chip, unless K is cut.
TEST(TpuGmm, WeightsStayForAGroupsNextTile) {
  const MoeLayer layer = layer_of(200, 0, 8, 1);
  const double matrix = layer.up_bytes().as_double();
  const auto read = [&](const std::string& strategy) {
    double sum = 0;
    const ExecutionPlan plan = plan_of(layer, strategy);
    const Kernel& kernel = kernel_of(plan, "gemm1");
    for (const ItemGroup& group : kernel.groups) sum += kernel.classes[group.item_class].read.as_double();
    return sum;
  };
  EXPECT_DOUBLE_EQ(read("tpu_gmm"), 10 * matrix);
  EXPECT_DOUBLE_EQ(read("tpu_gmm:tile_k=2048"), 20 * matrix);
}

TEST(TpuGmm, EveryResidentGroupIsScannedBeforeTheFirstCopy) {
  HardwareModel slower = tpu7x();
  apply_override(slower, "sequence.scan=1020ns");
  const MoeLayer layer = layer_of(1, 0, 8, 1);
  const Duration more = predicted(layer, "tpu_gmm", slower).time - predicted(layer, "tpu_gmm").time;
  EXPECT_EQ(more.value(), 2 * 512 * 1'000'000);  // two calls, 1 us each
}

TEST(TpuGmm, SparseCoresGatherManyTokens) {
  const MoeLayer layer = layer_of(65, 1, 8, 1);
  EXPECT_EQ(plan_of(layer, "tpu_gmm").kernels().front().name, "permute_sparse");
  EXPECT_EQ(plan_of(layer, "tpu_gmm:one_hot_tokens=65").kernels().front().name, "permute_one_hot");
}

// Twice the tokens on the same experts: the same weights from memory, twice the products.
TEST(TpuStream, DuplicatesAreLoadedOnceAndMultipliedEach) {
  const MoeLayer one = layer_of(1, 0, 8, 1), two = layer_of(2, 0, 8, 1);
  const Prediction single = predicted(one, "tpu_stream"), both = predicted(two, "tpu_stream");
  const double weights = (one.up_bytes() + one.down_bytes()).as_double() * 10;
  EXPECT_NEAR(single.memory_read.as_double(), weights, 1);
  EXPECT_EQ(both.memory_read, single.memory_read);
  EXPECT_GT(both.time.as_double(), 1.5 * single.time.as_double());
  // On distinct experts twice the bytes, and where the work binds about the same time.
  const Prediction distinct = predicted(layer_of(2, 10, 8, 1), "tpu_stream");
  EXPECT_NEAR(distinct.memory_read.as_double(), 2 * weights, 1);
  EXPECT_GE(distinct.time, both.time);
}

TEST(TpuStream, IsOneCallWithoutPermutation) {
  const ExecutionPlan plan = plan_of(layer_of(4, 10, 8, 1), "tpu_stream");
  ASSERT_EQ(plan.kernels().size(), 1U);
  EXPECT_EQ(plan.kernels().front().items(), 40);
}

TEST(TpuStream, AnExpertTooLargeForItsPlaceIsCut) {
  const MoeLayer layer = layer_of(1, 0, 1, 8);  // 12.6 MB an expert
  EXPECT_EQ(kernel_of(plan_of(layer, "tpu_stream"), "stream").classes[0].steps, 2);
  EXPECT_EQ(kernel_of(plan_of(layer, "tpu_stream:ring=8"), "stream").classes[0].steps, 4);
  EXPECT_THAT(refusal(layer, "tpu_stream:ring=8,cuts=1"), HasSubstr("on-chip bytes"));
  EXPECT_THAT(refusal(layer_of(4000, 0, 1, 8), "tpu_stream"), HasSubstr("on-chip bytes"));
}

TEST(TpuStream, WhatIfsMoveTheWork) {
  const MoeLayer layer = layer_of(1, 0, 8, 1);
  const Prediction documented = predicted(layer, "tpu_stream");
  EXPECT_EQ(largest(documented.attribution), Blame::kWeightLoad);
  EXPECT_LT(predicted(layer, "tpu_stream:fp8_activations=1").time, documented.time);
  const Prediction gemv = predicted(layer, "tpu_stream:gemv=1");
  EXPECT_EQ(gemv.attribution[static_cast<std::size_t>(Blame::kWeightLoad)], Duration(0));
  EXPECT_GT(predicted(layer, "tpu_stream:gemv=1,ring=1").time, gemv.time);
}

TEST(Shards, TheSumOverDevicesIsAKernelOfItsOwn) {
  for (const char* strategy : {"tpu_gmm", "tpu_stream"}) {
    const ExecutionPlan sharded = plan_of(layer_of(1, 0, 8, 1), strategy, Scope::kMoeLayer);
    EXPECT_EQ(sharded.kernels().back().name, "all_reduce");
    const ExecutionPlan whole = plan_of(layer_of(1, 0, 1, 1), strategy, Scope::kMoeLayer);
    EXPECT_NE(whole.kernels().back().name, "all_reduce");
  }
}

// A device of an expert-parallel group that no pick falls on still writes its zeros.
TEST(Shards, AnIdleDeviceHasAPlan) {
  MoeLayer layer = layer_of(1, 0, 1, 8);
  std::ranges::fill(layer.rows, 0);
  std::ranges::fill(layer.token_picks, 0);
  layer.picks = layer.active = 0;
  for (const char* strategy : {"tpu_gmm", "tpu_stream"}) EXPECT_GT(plan_of(layer, strategy).kernels().size(), 0U);
}

}  // namespace
}  // namespace moesim
