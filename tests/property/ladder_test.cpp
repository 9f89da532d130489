// The speed-up ladder is exact, whatever is compared: rungs are differences of consecutive runs and sum to the gain.
#include "workloads/studies/ladder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "hwmodels/loader.h"
#include "tests/property/cases.h"
#include "workloads/studies/concurrency.h"

namespace moesim::property {
namespace {

struct Comparison {
  std::string model, device, one, other;
  std::int64_t tokens = 1;
  LaunchMode launch = LaunchMode::kGraph;
  Scope scope = Scope::kMoeLayer;
};
void PrintTo(const Comparison& c, std::ostream* out) {
  *out << fmt::format("{} and {} of {} on {}, {} tokens", c.one, c.other, c.model, c.device, c.tokens);
}

ConcurrencyRequest request_of(const Comparison& c) {
  ConcurrencyRequest request;
  request.model = model_of(c.model);
  request.activations = default_activations(request.model.expert_weights);
  request.hardware = device(c.device);
  request.calibration = calibration_of_device(c.device);
  request.options.scope = c.scope;
  request.options.launch = c.launch;
  request.step.layers = 2;
  return request;
}

Ladder ladder_of(const ConcurrencyRequest& request, const Comparison& c) {
  return std::get<Ladder>(ladder_between(request, c.tokens, strategy_choice(c.one), strategy_choice(c.other)));
}

void expect_exact(const std::vector<LadderRung>& rungs, const std::vector<LadderRun>& slower,
                  const std::vector<LadderRun>& faster, const Ladder& ladder) {
  ASSERT_EQ(rungs.size(), kEffectCount + 1);
  ASSERT_EQ(slower.size(), rungs.size());
  ASSERT_EQ(faster.size(), rungs.size());
  Duration of_slower, of_faster, gain;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    EXPECT_EQ(slower[i].left_out, i);
    const bool last = i + 1 == rungs.size();
    EXPECT_EQ(rungs[i].effect.empty(), last);
    EXPECT_EQ(rungs[i].slower, slower[i].time - (last ? Duration(0) : slower[i + 1].time));
    EXPECT_EQ(rungs[i].faster, faster[i].time - (last ? Duration(0) : faster[i + 1].time));
    of_slower += rungs[i].slower;
    of_faster += rungs[i].faster;
    gain += rungs[i].gain();
  }
  EXPECT_EQ(of_slower, ladder.slower_time);
  EXPECT_EQ(of_faster, ladder.faster_time);
  EXPECT_EQ(gain, ladder.gain());
}

class EveryLadder : public testing::TestWithParam<Comparison> {};

TEST_P(EveryLadder, IsExactInBothOrders) {
  const Ladder ladder = ladder_of(request_of(GetParam()), GetParam());
  EXPECT_GE(ladder.slower_time, ladder.faster_time);
  expect_exact(ladder.rungs, ladder.slower_runs, ladder.faster_runs, ladder);
  expect_exact(ladder.reverse_rungs, ladder.slower_reverse_runs, ladder.faster_reverse_runs, ladder);
  for (std::size_t i = 0; i < kEffectCount; ++i) {
    EXPECT_EQ(ladder.rungs[i].effect, ladder.reverse_rungs[kEffectCount - 1 - i].effect);
  }
}

// Both read the same weights, so what remains is the same stream.
TEST_P(EveryLadder, EndsInTheSameStream) {
  const Ladder ladder = ladder_of(request_of(GetParam()), GetParam());
  const LadderRung& rest = ladder.rungs.back();
  EXPECT_GT(rest.faster, Duration(0));
  EXPECT_NEAR(rest.slower.as_double() / rest.faster.as_double(), 1, 0.002);
  EXPECT_EQ(rest.slower, ladder.reverse_rungs.back().slower);
  EXPECT_EQ(rest.faster, ladder.reverse_rungs.back().faster);
}

// It goes from the slower to the faster, whichever is named first.
TEST_P(EveryLadder, DoesNotDependOnWhoIsNamedFirst) {
  Comparison swapped = GetParam();
  std::swap(swapped.one, swapped.other);
  const Ladder ladder = ladder_of(request_of(GetParam()), GetParam());
  const Ladder other = ladder_of(request_of(swapped), swapped);
  EXPECT_EQ(ladder.slower, other.slower);
  EXPECT_EQ(ladder.faster_time, other.faster_time);
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) EXPECT_EQ(ladder.rungs[i].gain(), other.rungs[i].gain());
}

// In the stated order no effect is worth having: leaving it out never makes a run slower by more than the 2.5 % that
// staggered items may win (formula.Ablation).
TEST_P(EveryLadder, EffectsCostTime) {
  const Ladder ladder = ladder_of(request_of(GetParam()), GetParam());
  for (const LadderRung& rung : ladder.rungs) {
    EXPECT_GE(rung.slower.as_double(), -0.025 * ladder.slower_time.as_double()) << rung.effect;
    EXPECT_GE(rung.faster.as_double(), -0.025 * ladder.faster_time.as_double()) << rung.effect;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ladders, EveryLadder,
    testing::Values(
        Comparison{"qwen3.5-397b-a17b-fp8", "h200", "grouped_gemm_persistent", "stream_gemv"},
        Comparison{"qwen3.5-397b-a17b-fp8", "h200", "stream_gemv", "grouped_gemm", 64},
        Comparison{"qwen3.5-397b-a17b-fp8", "h200", "gather_gemv", "stream_gemv:persistent=1", 4},
        Comparison{"qwen3-30b-a3b", "b200", "expert_loop", "grouped_gemm", 2, LaunchMode::kStream},
        Comparison{"mixtral-8x7b", "h200", "grouped_gemm", "gather_gemv:element_copy=0", 8, LaunchMode::kProgrammatic},
        Comparison{"gpt-oss-120b", "mi300x", "expert_loop", "stream_gemv", 3},
        Comparison{"tiny", "l4", "grouped_gemm_persistent", "expert_loop"},
        Comparison{"qwen3-30b-a3b", "h200", "grouped_gemm", "stream_gemv", 4, LaunchMode::kGraph, Scope::kStep},
        Comparison{"deepseek-v3", "h200", "grouped_gemm", "gather_gemv", 2, LaunchMode::kGraph, Scope::kExpertFfn}));

TEST(Ladder, WhatTheRequestLeavesOutCostsNothing) {
  const Comparison c{"tiny", "h200", "grouped_gemm", "stream_gemv", 2};
  ConcurrencyRequest request = request_of(c);
  request.options.simulate.without.add(Effect::kLaunch);
  const Ladder ladder = ladder_of(request, c);
  for (const LadderRung& rung : ladder.rungs) {
    if (rung.effect != effect_name(Effect::kLaunch)) continue;
    EXPECT_EQ(rung.slower, Duration(0));
    EXPECT_EQ(rung.faster, Duration(0));
  }
  EXPECT_LT(ladder.slower_time, ladder_of(request_of(c), c).slower_time);
}

TEST(Ladder, NamesTheStrategyThatIsInfeasible) {
  const Comparison c{"qwen3.5-397b-a17b-fp8", "h200",      "grouped_gemm", "stream_gemv", 1,
                     LaunchMode::kGraph,      Scope::kStep};
  ConcurrencyRequest request = request_of(c);
  request.step.layers.reset();
  const LadderOrInfeasible none = ladder_between(request, 1, strategy_choice(c.one), strategy_choice(c.other));
  EXPECT_THAT(std::get<Infeasible>(none).reason, testing::StartsWith("grouped_gemm: weights "));
}

}  // namespace
}  // namespace moesim::property
