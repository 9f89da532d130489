// Cohorts are an optimisation: switched off, times agree within 0.5 %. And runs share nothing: in sequence or in
// threads they give the same results.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/property/cases.h"
#include "tests/testkit/collector.h"

namespace moesim::property {
namespace {

struct Point {
  const char* strategy;
  const char* model;
  std::int64_t tokens;
};
void PrintTo(const Point& p, std::ostream* out) { *out << p.strategy << " " << p.model << " " << p.tokens; }

class Cohorts : public testing::TestWithParam<Point> {};

Case case_of(const Point& point) {
  Case c;
  c.model = point.model;
  c.tokens = point.tokens;
  c.routing = "uniform";
  c.format = format_name(model_of(c.model).expert_weights);
  c.activations = format_name(default_activations(model_of(c.model).expert_weights));
  return c;
}

TEST_P(Cohorts, OffAgreesWithinHalfAPercent) {
  Case c = case_of(GetParam());
  for (const Scope scope : {Scope::kExpertFfn, Scope::kMoeLayer}) {
    if (kThinning > 1 && scope == Scope::kMoeLayer) continue;
    PredictOptions options = c.options();
    options.scope = scope;
    const MoeLayer layer = c.layer();
    const std::optional<Prediction> on = feasible(layer, device("h200"), GetParam().strategy, options);
    options.simulate.cohorts = false;
    const std::optional<Prediction> off = feasible(layer, device("h200"), GetParam().strategy, options);
    ASSERT_TRUE(on && off);
    EXPECT_NEAR(on->time.as_double(), off->time.as_double(), 0.005 * off->time.as_double()) << scope_name(scope);
    EXPECT_EQ(off->work_items, on->work_items);
    EXPECT_GE(off->cohorts, on->cohorts);
    EXPECT_EQ(sum(off->attribution), off->time);
  }
}

// gather_gemv copies 4 KiB an item: millions of them at 16 tokens of the largest model, so only small work here.
INSTANTIATE_TEST_SUITE_P(
    List, Cohorts,
    testing::Values(Point{"expert_loop", "qwen3.5-397b-a17b", 4}, Point{"expert_loop", "qwen3.5-397b-a17b", 16},
                    Point{"expert_loop", "mixtral-8x7b", 4}, Point{"expert_loop", "gpt-oss-20b", 8},
                    Point{"grouped_gemm", "qwen3.5-397b-a17b", 4}, Point{"grouped_gemm", "qwen3.5-397b-a17b", 16},
                    Point{"grouped_gemm", "mixtral-8x7b", 4}, Point{"grouped_gemm", "gpt-oss-20b", 8},
                    Point{"grouped_gemm_persistent", "qwen3.5-397b-a17b", 4},
                    Point{"grouped_gemm_persistent", "qwen3.5-397b-a17b", 16},
                    Point{"grouped_gemm_persistent", "mixtral-8x7b", 4},
                    Point{"grouped_gemm_persistent", "gpt-oss-20b", 8}, Point{"stream_gemv", "qwen3.5-397b-a17b", 4},
                    Point{"stream_gemv", "qwen3.5-397b-a17b", 16}, Point{"stream_gemv", "mixtral-8x7b", 4},
                    Point{"stream_gemv", "gpt-oss-20b", 8}, Point{"gather_gemv", "tiny", 16},
                    Point{"gather_gemv", "olmoe-1b-7b", 1}, Point{"gather_gemv", "qwen3-30b-a3b", 2}),
    [](const auto& instance) {
      std::string name = fmt::format("{}_{}_{}", instance.param.strategy, instance.param.model, instance.param.tokens);
      for (char& c : name) {
        if (c == '-' || c == '.') c = '_';
      }
      return name;
    });

// A listener observes: the same run with it has the same times.
TEST(Listener, DoesNotChangeTheResult) {
  for (const char* strategy : {"grouped_gemm", "grouped_gemm_persistent", "stream_gemv", "expert_loop"}) {
    const Case c = case_of({strategy, "qwen3.5-397b-a17b", 8});
    PredictOptions options = c.options();
    const std::optional<Prediction> without = feasible(c.layer(), device("h200"), strategy, options);
    testkit::Collector timeline;
    options.simulate.listener = &timeline;
    const std::optional<Prediction> with = feasible(c.layer(), device("h200"), strategy, options);
    ASSERT_TRUE(with && without);
    EXPECT_EQ(with->time, without->time) << strategy;
    EXPECT_EQ(with->attribution, without->attribution) << strategy;
    EXPECT_EQ(with->memory_read, without->memory_read) << strategy;
    EXPECT_EQ(with->cohorts, without->cohorts) << strategy;
    // The spans hold every item once, in order of its parts, and the last one ends with the run.
    std::int64_t items = 0;
    TimePoint last;
    for (const Span& span : timeline.spans) {
      items += span.items;
      EXPECT_LE(span.start, span.flow);
      EXPECT_LE(span.flow, span.drain);
      EXPECT_LE(span.drain, span.end);
      last = std::max(last, span.end);
    }
    EXPECT_EQ(items, with->work_items) << strategy;
    EXPECT_EQ(last - TimePoint(), with->time) << strategy;
  }
}

TEST(Threads, DifferentPredictionsAtOnceGiveTheSameResults) {
  const HardwareModel& h200 = device("h200");
  const HardwareModel& b200 = device("b200");
  std::vector<Case> cases;
  testkit::Random random(11);
  for (int i = 0; i < 40 / kThinning; ++i) cases.push_back(random_case(random));
  std::vector<MoeLayer> layers;
  for (const Case& c : cases) layers.push_back(c.layer());
  const std::span<const Strategy> strategies = strategy_catalogue();
  // No cache of the tests' own inside: those are not made for threads.
  const auto run = [&](const HardwareModel& hardware, std::vector<PredictionOrInfeasible>& results) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (const Strategy& strategy : strategies) {
        results.push_back(predict(layers[i], hardware, {&strategy, {}, "", strategy.name}, cases[i].options()));
      }
    }
  };
  std::vector<PredictionOrInfeasible> sequence[2], threads[2];
  run(h200, sequence[0]);
  run(b200, sequence[1]);
  std::thread first([&] { run(h200, threads[0]); });
  std::thread second([&] { run(b200, threads[1]); });
  first.join();
  second.join();
  for (int d = 0; d < 2; ++d) {
    ASSERT_EQ(sequence[d].size(), threads[d].size());
    for (std::size_t i = 0; i < sequence[d].size(); ++i) {
      const auto* a = std::get_if<Prediction>(&sequence[d][i]);
      const auto* b = std::get_if<Prediction>(&threads[d][i]);
      ASSERT_EQ(a == nullptr, b == nullptr);
      if (a == nullptr) continue;
      EXPECT_EQ(a->time, b->time);
      EXPECT_EQ(a->attribution, b->attribution);
      EXPECT_EQ(a->memory_read, b->memory_read);
    }
  }
}

}  // namespace
}  // namespace moesim::property
