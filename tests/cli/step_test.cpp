// moesim run --scope step: a whole decode step as a user sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Arguments = std::vector<std::string>;

Arguments step_of(const Arguments& more) { return joined({"run", "--scope", "step"}, more); }

const Arguments kSmall = {"--model", "mixtral-8x7b", "--strategy", "grouped_gemm", "--concurrency",
                          "2",       "--layers",     "2"};

Arguments small_with(const Arguments& more) { return step_of(joined(kSmall, more)); }

void expect_refused(const Arguments& arguments, const std::string& weights, const std::string& way_out) {
  const CommandOutput run = run_moesim(step_of(arguments));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, AllOf(HasSubstr("weights " + weights), HasSubstr("KV cache and state"), HasSubstr(way_out)));
}

TEST(Step, WhatOneDeviceCannotHoldIsRefusedWithTheNumbers) {
  expect_refused({"--device", "b200"}, "398.6 GB", "b200 has 180.0 GB; --tp 4 would hold it");
  expect_refused({"--model", "deepseek-v3"}, "673.2 GB", "h200 has 141.0 GB; --tp 8 would hold it");
}

TEST(Step, ACacheThatDoesNotFitIsRefusedAtThatConcurrencyAlone) {
  const json study = successful_json(step_of(
      {"--model", "mixtral-8x7b", "--strategy", "grouped_gemm", "--concurrency", "1,64", "--context", "32768"}));
  EXPECT_EQ(study.at("rows").at(0).at("feasible"), true);
  EXPECT_EQ(study.at("rows").at(1).at("feasible"), false);
  EXPECT_THAT(study.at("rows").at(1).at("reason").get<std::string>(), HasSubstr("= 368.3 GB, h200 has 141.0 GB"));
}

TEST(Step, PartsSumToTheTime) {
  for (const Arguments& arguments :
       {Arguments{"--device", "b200", "--tp", "4"}, Arguments{"--model", "deepseek-v3", "--tp", "8"},
        Arguments{"--model", "mixtral-8x7b"}}) {
    Arguments all = step_of(arguments);
    all.insert(all.end(), {"--concurrency", "1", "--strategy", "grouped_gemm"});
    const json row = successful_json(all).at("rows").at(0);
    std::int64_t sum = 0;
    for (const auto& [part, time] : row.at("step").at("parts_ps_sum").items()) {
      EXPECT_GE(time.get<std::int64_t>(), 0) << part;
      sum += time.get<std::int64_t>();
    }
    EXPECT_EQ(sum, row.at("time_ps_sum"));
    EXPECT_NEAR(row.at("step").at("tokens_per_s_per_sequence").get<double>(),
                1e6 / row.at("time_us_median").get<double>(), 1e-3);
    EXPECT_GT(row.at("step").at("moe_share"), 0.3);
    EXPECT_LT(row.at("step").at("moe_share"), 1);
  }
}

TEST(Step, SaysWhatItWasMadeOf) {
  const json study = successful_json(small_with({"--context", "1000", "--kv-dtype", "fp8"}));
  EXPECT_EQ(study.at("scope"), "step");
  EXPECT_EQ(study.at("samples"), 1);
  EXPECT_EQ(study.at("model").at("moe_layers"), 2);
  EXPECT_EQ(study.at("step"), json({{"context", 1000}, {"kv_dtype", "fp8"}, {"layers", 2}, {"layers_of_model", 32}}));
  EXPECT_THAT(successful_output(small_with({})),
              AllOf(HasSubstr("decode step (2 of 32 layers, 2 of them MoE)"),
                    HasSubstr("context 4096 tokens, KV cache bf16"), HasSubstr("parts of a step, ms")));
}

TEST(Step, EachLayerHasARoutingOfItsOwn) {
  const json study = successful_json(
      step_of({"--model", "mixtral-8x7b", "--strategy", "grouped_gemm", "--concurrency", "4", "--explain"}));
  // Of 32 draws of 8 picks of 8 experts: a mean that no single draw has.
  const double distinct = study.at("rows").at(0).at("distinct_experts_mean").get<double>();
  EXPECT_GT(distinct, 4.5);
  EXPECT_LT(distinct, 6.5);
  EXPECT_NE(distinct, static_cast<double>(static_cast<int>(distinct)));
}

TEST(Step, ALayersKernelsAreThoseOfEveryOther) {
  const std::string two = successful_output(small_with({"--explain"}));
  EXPECT_THAT(two, AllOf(HasSubstr("rotate_and_store"), HasSubstr("lm_head"), HasSubstr("sample")));
}

TEST(Step, ATracesBatchesGoToTheLayersInOrder) {
  // Two batches of two tokens with two experts each: layers 0 and 1, then again.
  const std::string trace = npy_file("two.npy", "2, 2, 2", {0, 1, 0, 1, 2, 3, 4, 5});
  const auto distinct = [&](const char* layers) {
    const json study = successful_json(step_of(
        {"--model", "mixtral-8x7b", "--strategy", "grouped_gemm", "--layers", layers, "--routing", "trace:" + trace}));
    EXPECT_EQ(study.at("samples"), 1);
    return study.at("rows").at(0).at("distinct_experts_mean").get<double>();
  };
  EXPECT_EQ(distinct("1"), 2);
  EXPECT_EQ(distinct("2"), 3);
  EXPECT_EQ(distinct("32"), 3);
}

TEST(Step, CsvHasThePartsOfAStepAlone) {
  EXPECT_THAT(successful_output(small_with({"--format", "csv"})),
              AllOf(HasSubstr("part_lm_head_share"), HasSubstr("tokens_per_s_per_sequence"), HasSubstr(",kv_dtype,")));
  EXPECT_THAT(successful_output({"run", "--model", "mixtral-8x7b", "--concurrency", "1", "--format", "csv"}),
              AllOf(Not(HasSubstr("part_")), Not(HasSubstr("kv_dtype"))));
}

TEST(Step, TheChartSaysThatItIsAStep) {
  EXPECT_THAT(successful_output(small_with({"--format", "svg"})), HasSubstr("time of one decode step on"));
}

TEST(Step, FormatsOfAllOtherMatricesCanBeSet) {
  const auto read = [](const Arguments& more) {
    return successful_json(small_with(more)).at("rows").at(0).at("memory_read_bytes_mean").get<double>();
  };
  const double wide = read({}), narrow = read({"--weights", "int8", "--other-weights", "int8"});
  EXPECT_LT(narrow, 0.6 * wide);
  EXPECT_GT(narrow, 0.5 * wide);
}

// gpt-fast's Mixtral, int8 weights alone, one A100-80GB at 330 W, batch 1, compiled: 97.92 tokens/s
// (meta-pytorch/gpt-fast 6ecad9b, mixtral-moe/README.md). Compiled, its gather by expert is fused into the product.
TEST(Step, GptFastsMixtralIsWithinAQuarter) {
  for (const char* clock : {"boost", "sustained"}) {
    const json study =
        successful_json(step_of({"--model", "mixtral-8x7b", "--device", "a100-80gb", "--concurrency", "1", "--strategy",
                                 "stream_gemv", "--weights", "int8", "--other-weights", "int8", "--activations", "bf16",
                                 "--context", "105", "--clock", clock}));
    EXPECT_NEAR(study.at("rows").at(0).at("step").at("tokens_per_s").get<double>() / 97.92, 1, 0.25) << clock;
  }
}

// -------------------------------------------------------------------------------------------------- wrong input

void expect_complaint(const Arguments& arguments, const testing::Matcher<const std::string&>& complaint) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, complaint);
}

TEST(StepWrongInput, FlagsOfAStepNeedOne) {
  for (const char* flag : {"--context", "--kv-dtype", "--layers"}) {
    expect_complaint({"run", flag, "1"},
                     AllOf(HasSubstr(flag), HasSubstr("--scope moe_layer"), HasSubstr("--scope step")));
  }
}

TEST(StepWrongInput, NumbersOutOfRange) {
  expect_complaint(small_with({"--context", "0"}), HasSubstr("a whole number from 1 to 100000000"));
  expect_complaint(step_of({"--model", "mixtral-8x7b", "--layers", "0"}), HasSubstr("a whole number from 1 to 32"));
  expect_complaint(step_of({"--model", "mixtral-8x7b", "--layers", "33"}), HasSubstr("a whole number from 1 to 32"));
  expect_complaint(step_of({"--layers", "al"}), HasSubstr("--layers"));
}

TEST(StepWrongInput, ACacheOfAnotherFormat) {
  expect_complaint(small_with({"--kv-dtype", "fp4"}), HasSubstr("one of bf16, fp16, fp8"));
}

TEST(StepWrongInput, ScopeIsMisspelt) {
  expect_complaint({"run", "--scope", "steps"}, HasSubstr("one of expert_ffn, moe_layer, step"));
}

TEST(StepWrongInput, AConfigWithoutAttention) {
  const std::string path =
      temp_file("model.json", R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128,)"
                              R"( "num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 2,)"
                              R"( "vocab_size": 1000})");
  expect_complaint(step_of({"--model", path}), HasSubstr("a model without attention"));
}

TEST(StepWrongInput, ADeviceWithoutTheExchangesOfItsShards) {
  const CommandOutput run = run_moesim(small_with({"--device", "l40s", "--ep", "2"}));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors, HasSubstr("no link.exchange_latency in the file of l40s"));
}

}  // namespace
}  // namespace moesim
