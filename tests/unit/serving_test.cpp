// Serving studies of a tiny model: the same on any number of threads, the search against running every load.
#include "workloads/studies/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <sstream>

#include "hwmodels/loader.h"
#include "tests/testkit/step_models.h"
#include "traces/views/serving_views.h"

namespace moesim {
namespace {

constexpr Duration kMs(1'000'000'000);

ServingRequest request_of(const std::vector<const char*>& strategies) {
  ServingRequest request;
  request.engine.model = testkit::tiny_step_model();
  request.engine.activations = default_activations(request.engine.model.expert_weights);
  request.engine.hardware = load_hardware("h200");
  request.engine.options.scope = Scope::kStep;
  for (const char* name : strategies) request.engine.strategies.push_back(parse_strategy(name));
  request.engine.samples = 2;
  ServingSetup& setup = request.setup;
  setup.stream.period = kMs * 2;
  setup.stream.jitter = kMs;
  setup.stream.context = setup.context_limit = 2048;
  setup.goals.latency = kMs;
  setup.batch.sequences = 4;  // few compositions
  setup.horizon = kMs * 40;
  setup.warm_up = kMs * 4;
  return request;
}

std::string json_of(const ServingStudy& study) {
  std::ostringstream out;
  write_serving_json(study, out);
  return out.str();
}

TEST(Serving, AnyNumberOfThreadsGivesTheSameBytes) {
  const ServingRequest request = request_of({"grouped_gemm", "stream_gemv", "auto"});
  std::vector<std::string> texts;
  for (const std::size_t threads : {1U, 4U}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    texts.push_back(json_of(run_serving_study(request)));
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Serving, TheSearchFindsWhatRunningEveryLoadShows) {
  ServingRequest request = request_of({"grouped_gemm"});
  const StrategyServing found = run_serving_study(request).strategies.front();
  ASSERT_TRUE(found.sustainable && found.monotone);
  ASSERT_GE(*found.sustainable, 2);
  for (double load = 1; load <= *found.sustainable + 1; ++load) request.setup.loads.push_back(load);
  const StrategyServing all = run_serving_study(request).strategies.front();
  for (const ServingFigures& figures : all.points) {
    EXPECT_EQ(figures.miss_share() <= 0.01, figures.load <= *found.sustainable) << figures.load;
    EXPECT_TRUE(figures.little_exact);
  }
}

// Of each step auto takes the fastest, so that the same loads miss no more.
TEST(Serving, AutoTakesTheFastestOfEachStep) {
  ServingRequest request = request_of({"grouped_gemm", "stream_gemv", "auto"});
  request.setup.loads = {1, 4};
  const ServingStudy study = run_serving_study(request);
  for (std::size_t load = 0; load < 2; ++load) {
    const Duration of_auto = study.strategies[2].points[load].latency.p50;
    EXPECT_LE(of_auto, study.strategies[0].points[load].latency.p50);
    EXPECT_LE(of_auto, study.strategies[1].points[load].latency.p50);
  }
  EXPECT_LE(study.engine_runs, 2 * study.compositions);
}

TEST(Serving, MemoryLimitsClosedStreams) {
  ServingRequest request = request_of({"grouped_gemm"});
  const Bytes each = session_bytes(request.engine, request.setup.context_limit);
  EXPECT_GT(each, Bytes(0));
  request.setup.memory_share = 0;
  const Bytes weights = run_serving_study(request).weights;
  const double all = request.engine.hardware[Hw::kHbmCapacity];
  request.setup.memory_share = (weights.as_double() + 3.5 * each.as_double()) / all;
  const StrategyServing limited = run_serving_study(request).strategies.front();
  EXPECT_EQ(limited.sustainable, 3);
  EXPECT_TRUE(limited.memory_limited);
  request.setup.loads = {4};
  EXPECT_THAT(run_serving_study(request).strategies.front().infeasible->reason, testing::HasSubstr("4 sessions: 3 of"));
}

}  // namespace
}  // namespace moesim
