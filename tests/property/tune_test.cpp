// A search that stops hopeless configurations finds what trying each of them finds.
#include "workloads/studies/tune.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/property/cases.h"
#include "workloads/studies/samples.h"

namespace moesim::property {
namespace {

ConcurrencyRequest request_for(const std::string& strategy, const std::string& model, const std::string& on) {
  ConcurrencyRequest request;
  request.model = model_of(model);
  request.activations = default_activations(request.model.expert_weights);
  request.hardware = device(on);
  request.routing = parse_routing("zipf:0.8");
  request.strategies = {parse_strategy(strategy)};
  request.samples = 2;
  return request;
}

struct ByHand {
  Duration best{0};
  std::int64_t near = 0, feasible = 0;
};

// Every configuration to the end, each on its own.
ByHand try_each(const TuneRequest& request, std::int64_t tokens) {
  std::vector<Duration> totals;
  for (std::size_t i = 0; i < size_of(request.space); ++i) {
    StrategyChoice choice = request.base.strategies.front();
    const MoeLayer layer = sample_of(request.base, tokens, 0).moe_layers.front();
    if (spills(*choice.strategy, configuration(request.space, i), layer, request.base.hardware)) continue;
    for (const auto& [name, value] : configuration(request.space, i)) choice.parameters[name] = value;
    Duration total;
    bool feasible = true;
    for (std::size_t s = 0; s < static_cast<std::size_t>(request.base.samples) && feasible; ++s) {
      const DecodeStep sample = sample_of(request.base, tokens, s);
      const PredictionOrInfeasible one = predict_sample(sample, request.base, choice, {});
      feasible = std::holds_alternative<Prediction>(one);
      if (feasible) total += std::get<Prediction>(one).time;
    }
    if (feasible) totals.push_back(total);
  }
  ByHand result;
  result.feasible = static_cast<std::int64_t>(totals.size());
  result.best = *std::ranges::min_element(totals);
  for (const Duration total : totals) {
    if (total.as_double() <= std::round(result.best.as_double() * (1 + kNear))) ++result.near;
  }
  return result;
}

TEST(Tune, FindsWhatTryingEachFinds) {
  for (const auto& [strategy, model, on] :
       {std::tuple{"vllm-triton", "olmoe-1b-7b", "h200"}, std::tuple{"grouped_gemm", "mixtral-8x7b", "a100-80gb"},
        std::tuple{"stream_gemv", "gpt-oss-20b", "b200"}}) {
    TuneRequest request;
    request.base = request_for(strategy, model, on);
    request.base.concurrencies = {1, 7, 48};
    request.space = tile_space(*request.base.strategies.front().strategy, request.base.model.expert_weights);
    for (ParameterRange& range : request.space) {
      while (range.values.size() > 2) range.values.erase(range.values.begin() + 1);
    }
    std::erase_if(request.space, [](const ParameterRange& range) { return range.name == "group_m"; });
    const TuneStudy study = run_tune_study(request);
    for (const TunePoint& point : study.points) {
      SCOPED_TRACE(std::string(strategy) + " " + model + " " + std::to_string(point.tokens));
      // The default may lie outside the space.
      ByHand expected = try_each(request, point.tokens);
      ASSERT_TRUE(point.best && point.by_default);
      const Duration mean(std::llround(expected.best.as_double() / 2));
      EXPECT_EQ(point.best->time, std::min(mean, point.by_default->time));
      const bool inside = std::ranges::all_of(request.space, [&](const ParameterRange& range) {
        return point.by_default->tile.contains(range.name) &&
               std::ranges::binary_search(range.values, point.by_default->tile.at(range.name));
      });
      if (mean <= point.by_default->time && inside) {
        EXPECT_EQ(point.near_best, expected.near);
      }
      EXPECT_EQ(point.simulated + point.stopped + point.alike + point.spilling + point.too_large,
                static_cast<std::int64_t>(size_of(request.space)) + (inside ? 0 : 1));
    }
  }
}

TEST(Tune, SameResultAgain) {
  TuneRequest request;
  request.base = request_for("sglang-triton", "olmoe-1b-7b", "h200");
  request.base.concurrencies = {1, 64};
  request.space = {{"block_m", {16, 64}}, {"block_n", {32, 128}}, {"group_m", {1, 16}}, {"num_stages", {2, 3, 4}}};
  const TuneStudy first = run_tune_study(request), second = run_tune_study(request);
  for (std::size_t i = 0; i < first.points.size(); ++i) {
    EXPECT_EQ(first.points[i].best->tile, second.points[i].best->tile);
    EXPECT_EQ(first.points[i].stopped, second.points[i].stopped);
    EXPECT_EQ(first.points[i].near_best, second.points[i].near_best);
  }
  // At one token no expert has two row blocks: GROUP_M makes no difference.
  EXPECT_EQ(first.points[0].alike, 12);
}

TEST(Tune, DeviatesOnlyForEnough) {
  TuneRequest request;
  request.base = request_for("vllm-triton", "olmoe-1b-7b", "h200");
  request.base.concurrencies = {16};
  request.space = {{"block_n", {32, 64, 128}}, {"block_k", {64, 128, 256}}};
  const TunePoint free = run_tune_study(request).points.front();
  ASSERT_NE(free.best->tile, free.by_default->tile);
  EXPECT_EQ(free.chosen->tile, free.best->tile);
  EXPECT_TRUE(free.deviates());
  request.min_gain = gain_over(free.by_default->time, free.best->time) + 0.001;
  const TunePoint bound = run_tune_study(request).points.front();
  EXPECT_EQ(bound.best->tile, free.best->tile);
  EXPECT_EQ(bound.chosen->tile, free.by_default->tile);
  EXPECT_FALSE(bound.deviates());
}

// Row blocks that take turns read an expert's weights once where the cache does not hold them from one to the next.
TEST(Tune, RowBlocksThatTakeTurnsReadWeightsOnce) {
  Case c;
  c.model = "mixtral-8x7b";
  c.routing = "balanced";
  c.format = c.activations = "bf16";
  c.tokens = 256;
  c.scope = Scope::kExpertFfn;
  const MoeLayer layer = c.layer();
  const auto with = [&](const char* strategy) { return *feasible(layer, device("h200"), strategy, c.options()); };
  const Prediction apart = with("grouped_gemm:block_m=16,group_m=1");
  const Prediction together = with("grouped_gemm:block_m=16,group_m=64");
  const Bytes matrices = (layer.up_bytes() + layer.down_bytes()) * layer.active;
  EXPECT_GT(apart.memory_read.as_double(), matrices.as_double() * 1.9);  // some read beside those before them
  EXPECT_LT(together.memory_read.as_double(), matrices.as_double() * 1.01);
  EXPECT_LT(together.time, apart.time);
  EXPECT_EQ(together.work_items, apart.work_items);
}

}  // namespace
}  // namespace moesim::property
