// The plan of a decode step: which kernels, for what, over which bytes.
#include "workloads/step/lower_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hwmodels/loader.h"
#include "tests/testkit/step_models.h"
#include "tests/testkit/steps.h"
#include "workloads/step/step_memory.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace testkit;

StepPlan plan_of(const DecodeStep& step, const HardwareModel& hardware) {
  StepPlanOrInfeasible result = lower_step(step, hardware, parse_strategy("grouped_gemm"), {});
  EXPECT_TRUE(std::holds_alternative<StepPlan>(result));
  return std::get<StepPlan>(std::move(result));
}

// Kernels of a step of these layers alone, without MoE layers' own.
std::vector<std::string> names_outside_moe(const StepPlan& plan) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < plan.parts.size(); ++k) {
    const StepPart part = plan.parts[k];
    const bool of_moe = part == StepPart::kRouting || part == StepPart::kExperts || part == StepPart::kSharedExperts;
    if (!of_moe) {
      names.push_back(plan.plan.kernels()[k].name);
    } else if (names.back() != "MoE") {
      names.emplace_back("MoE");
    }
  }
  return names;
}

std::int64_t count_of(const StepPlan& plan, const std::string& name) {
  return std::count_if(plan.plan.kernels().begin(), plan.plan.kernels().end(),
                       [&](const Kernel& kernel) { return kernel.name == name; });
}

class LowerStep : public testing::Test {
 protected:
  const HardwareModel h200 = load_hardware("h200");
};

TEST_F(LowerStep, LaunchesWhatItsHeadCommentLists) {
  MoeModel model = tiny_step_model();
  const StepPlan plan = plan_of(step_of(model, {.sequences = 2, .options = {.layers = 2}}), h200);
  EXPECT_THAT(
      names_outside_moe(plan),
      ElementsAre("embed", "add_norm", "qkv", "rotate_and_store", "attention", "attention_sum", "o", "add_norm",
                  "dense_up", "activation", "dense_down", "add_norm", "in_qkvz", "in_ba", "convolve", "state_update",
                  "gated_norm", "out", "add_norm", "MoE", "add_norm", "lm_head", "sample", "sample"));
}

TEST_F(LowerStep, LatentAttentionHasItsNormAndItsMatricesPerHead) {
  const MoeModel model = deepseek_v3_model();
  const StepPlan plan = plan_of(step_of(model, {.tp = 8, .options = {.layers = 1}}), h200);
  EXPECT_THAT(names_outside_moe(plan),
              ElementsAre("embed", "all_reduce", "add_norm", "qkv_a", "norm", "q_b", "absorbed_k", "rotate_and_store",
                          "attention", "attention_sum", "absorbed_v", "quantise", "o", "all_reduce", "add_norm",
                          "dense_up", "activation", "dense_down", "all_reduce", "add_norm", "lm_head", "gather_logits",
                          "sample", "sample"));
}

TEST_F(LowerStep, ADenseResidualStandsBesideTheExperts) {
  MoeModel model = tiny_step_model();
  model.decoder_layers[1].dense_intermediate = 512;
  const StepPlan plan = plan_of(step_of(model), h200);
  EXPECT_EQ(count_of(plan, "dense_up"), 2);
  EXPECT_EQ(count_of(plan, "router"), 3);
}

TEST_F(LowerStep, ALayerWithoutMixerOrFfnLaunchesNothingForIt) {
  MoeModel model = tiny_step_model();
  const std::size_t whole = plan_of(step_of(model), h200).parts.size();
  DecoderLayer& last = model.decoder_layers.back();
  last = {.mixer = last.mixer};
  const std::size_t without_ffn = plan_of(step_of(model), h200).parts.size();
  last = {};
  const std::size_t without = plan_of(step_of(model), h200).parts.size();
  EXPECT_LT(without_ffn, whole);
  EXPECT_LT(without, without_ffn);
}

TEST_F(LowerStep, HashRoutedLayersHaveNoRouter) {
  MoeModel model = tiny_step_model();
  model.decoder_layers[1].hash_routed = true;
  EXPECT_EQ(count_of(plan_of(step_of(model), h200), "router"), 2);
}

TEST_F(LowerStep, AnIndexerComesBeforeTheAttention) {
  MoeModel model = tiny_step_model();
  model.mixers[0].cached_values += 128;
  model.mixers[0].indexed_values = 128;
  model.mixers[0].window = 2048;
  const StepPlan plan = plan_of(step_of(model, {.options = {.layers = 1}}), h200);
  EXPECT_EQ(count_of(plan, "index"), 1);
  EXPECT_EQ(count_of(plan, "index_topk"), 1);
}

// The regions of weights, cache and state are what the closed form counts, to the byte.
TEST_F(LowerStep, ItsRegionsAreTheBytesOfTheClosedForm) {
  for (const MoeModel& model : {tiny_step_model(), mixtral_model(), deepseek_v3_model(), qwen35_model()}) {
    for (const StepShape& shape : {StepShape{.sequences = 1, .tp = 8}, StepShape{.sequences = 16, .tp = 8},
                                   StepShape{.sequences = 16, .ep = 8}}) {
      const DecodeStep step = step_of(model, shape);
      Bytes regions;
      const StepPlan plan = plan_of(step, h200);
      for (const Region& region : plan.plan.regions()) regions += region.bytes;
      EXPECT_EQ(regions.value(), bytes_read(step).value()) << model.name << " " << shape.sequences << " " << shape.tp;
    }
  }
}

TEST_F(LowerStep, CollectivesFollowTheShards) {
  const MoeModel model = tiny_step_model();
  EXPECT_EQ(count_of(plan_of(step_of(model), h200), "all_reduce"), 0);
  const StepPlan tensor = plan_of(step_of(model, {.tp = 2}), h200);
  EXPECT_EQ(count_of(tensor, "all_reduce"), 1 + 2 * 4);
  EXPECT_EQ(count_of(tensor, "gather_logits"), 1);
  EXPECT_EQ(count_of(tensor, "dispatch"), 0);
  const StepPlan expert = plan_of(step_of(model, {.sequences = 4, .ep = 2}), h200);
  EXPECT_EQ(count_of(expert, "all_reduce"), 0);
  EXPECT_EQ(count_of(expert, "dispatch"), 3);
  EXPECT_EQ(count_of(expert, "exchange_back"), 3);
}

TEST_F(LowerStep, ADeviceWithoutTheLinkIsRefused) {
  const MoeModel model = tiny_step_model();
  HardwareModel alone = h200;
  alone.constants[static_cast<std::size_t>(Hw::kLinkReduceLatency)].reset();
  EXPECT_THAT(refusal(step_of(model, {.tp = 2}), alone), HasSubstr("no link.reduce_latency in the file of h200"));
  EXPECT_THAT(refusal(step_of(model, {.sequences = 2, .ep = 2}), load_hardware("l40s")),
              HasSubstr("no link.exchange_latency in the file of l40s"));
}

}  // namespace
}  // namespace moesim
