#include "workloads/strategies/stack_profiles.h"

#include <gtest/gtest.h>

#include <set>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"
#include "workloads/router.h"

namespace moesim {
namespace {

Parameters parameters(const char* stack, std::int64_t experts, std::int64_t topk, std::int64_t tokens,
                      const char* weights = "bf16") {
  return find_stack(stack)->parameters(
      {.experts = experts, .topk = topk, .tokens = tokens, .weights = parse_format(weights, "weights")});
}

TEST(StackProfiles, EveryProfileFitsItsStrategyAtEverySize) {
  std::set<std::string> names;
  for (const StackProfile& stack : stack_profiles()) {
    EXPECT_TRUE(names.insert(stack.name).second) << stack.name;
    EXPECT_EQ(find_stack(stack.name), &stack);
    const StrategyChoice choice = parse_strategy(stack.strategy);
    for (const std::string& weights : format_names()) {
      for (const std::int64_t tokens : {1, 64, 300, 100'000}) {
        for (const std::int64_t experts : {1, 8, 512}) {
          EXPECT_NO_THROW(check_parameters(*choice.strategy,
                                           stack.parameters({experts, 1, tokens, parse_format(weights, "weights")})))
              << stack.name << " " << weights << " " << tokens << " " << experts;
        }
      }
    }
  }
  EXPECT_EQ(find_stack("no-such-stack"), nullptr);
}

TEST(StackProfiles, VllmTritonTilesGrowWithTokens) {
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 32).at("block_m"), 16);
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 33).at("block_m"), 32);
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 33).at("num_stages"), 3);
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 65).at("block_n"), 128);
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 513).at("block_m"), 128);
  EXPECT_EQ(parameters("vllm-triton", 128, 8, 64, "fp8_block128").at("block_m"), 16);
}

TEST(StackProfiles, SglangTritonTilesChangeWhenThereAreMoreTokensThanExperts) {
  EXPECT_EQ(parameters("sglang-triton", 8, 2, 8).at("block_m"), 16);
  EXPECT_EQ(parameters("sglang-triton", 8, 2, 9).at("block_m"), 64);
  EXPECT_EQ(parameters("sglang-triton", 8, 2, 8, "fp8_block128").at("block_m"), 64);
}

// Mean rows of an expert rounded up to a power of two, halved, at least 8: two tiles as soon as there are 16 rows.
TEST(StackProfiles, TrtllmGenTakesTheSmallerNeighbourOfTheMeanRows) {
  EXPECT_EQ(parameters("trtllm-gen", 8, 2, 32).at("block_m"), 8);   // 8 rows
  EXPECT_EQ(parameters("trtllm-gen", 8, 2, 64).at("block_m"), 8);   // 16 rows: two tiles
  EXPECT_EQ(parameters("trtllm-gen", 8, 2, 68).at("block_m"), 16);  // 17 rows
  EXPECT_EQ(parameters("trtllm-gen", 8, 2, 4096).at("block_m"), 64);
}

// A stack's name is a strategy whose parameters follow the layer; what is given goes before the rule.
TEST(StackProfiles, AStackIsAStrategyByItsRules) {
  const HardwareModel hardware = load_hardware("h200");
  const MoeModel model = load_model("qwen3-30b-a3b");
  const RoutedBatch batch = draw_batch(parse_routing("balanced"), model.experts, model.topk, 48, 1, 0);
  const MoeLayer layer = shard_layer(model, batch, default_activations(model.expert_weights), 1, 1);
  const auto time = [&](const StrategyChoice& choice) {
    return std::get<Prediction>(predict(layer, hardware, choice)).time;
  };
  StrategyChoice by_hand = parse_strategy("grouped_gemm");
  by_hand.parameters = parameters("vllm-triton", model.experts, model.topk, batch.tokens);
  EXPECT_EQ(time(parse_strategy("vllm-triton")), time(by_hand));
  by_hand.parameters["block_m"] = 64;
  EXPECT_EQ(time(parse_strategy("vllm-triton:block_m=64")), time(by_hand));
  EXPECT_THROW(parse_strategy("vllm-triton:tile=64"), InputError);
  EXPECT_THROW(parse_strategy("vllm-tritn"), InputError);
}

}  // namespace
}  // namespace moesim
