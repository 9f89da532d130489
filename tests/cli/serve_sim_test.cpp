// moesim serve-sim as a user sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

// Two layers, two seconds.
Arguments serve(const Arguments& more) {
  return joined({"serve-sim", "--model", "qwen3-30b-a3b", "--layers", "2", "--horizon", "2s", "--warm-up", "0.5s",
                 "--samples", "1"},
                more);
}

const Arguments kSearch = {"--deadline", "2ms", "--period", "20ms"};

TEST(ServeSim, SameSeedSameBytesAnotherSeedOthers) {
  const Arguments search = serve(joined(kSearch, {"--format", "json"}));
  const std::string once = successful_output(search);
  EXPECT_EQ(once, successful_output(search));
  EXPECT_NE(once, successful_output(joined(search, {"--seed", "2"})));
}

TEST(ServeSim, FindsTheMostSessionsThatMissFewEnough) {
  const json study = successful_json(serve(kSearch));
  for (const json& strategy : study.at("strategies")) {
    const double most = strategy.at("sustainable");
    EXPECT_GE(most, 1);
    bool at_it = false, beyond = false;
    for (const json& point : strategy.at("points")) {
      const double load = point.at("load"), missed = point.at("miss_share");
      if (load == most) at_it = missed <= 0.01;
      if (load == most + 1) beyond = missed > 0.01 || point.at("stopped_early");
      EXPECT_TRUE(load > most || missed <= 0.01) << load;
    }
    EXPECT_TRUE(at_it && beyond) << strategy.at("strategy");
  }
}

// It takes the fastest for every step, so that it is worse than none but for the order of random numbers: here exactly.
TEST(ServeSim, AutoIsAsGoodAsTheBestAndItsStepsSumUp) {
  const json study = successful_json(serve(kSearch));
  const json& strategies = study.at("strategies");
  ASSERT_EQ(strategies.at(2).at("strategy"), "auto");
  EXPECT_GE(strategies.at(2).at("sustainable"), strategies.at(0).at("sustainable"));
  EXPECT_GE(strategies.at(2).at("sustainable"), strategies.at(1).at("sustainable"));
  for (const json& point : strategies.at(2).at("points")) {
    std::int64_t by_strategy = 0, by_size = 0;
    for (const auto& [name, steps] : point.at("steps_by_strategy").items()) by_strategy += steps.get<std::int64_t>();
    for (const json& bin : point.at("steps_by_sequences")) by_size += bin.at(1).get<std::int64_t>();
    EXPECT_EQ(by_strategy, by_size);
  }
}

TEST(ServeSim, LittlesLawHoldsInWhatItPrints) {
  const json study = successful_json(serve({"--sessions", "4,12", "--strategy", "grouped_gemm"}));
  for (const json& point : study.at("strategies").at(0).at("points")) {
    const json& little = point.at("little");
    EXPECT_EQ(little.at("exact"), true);
    EXPECT_NEAR(little.at("turns_in_system").get<double>(),
                little.at("turns_per_s").get<double>() * little.at("seconds_in_system").get<double>(), 1e-4);
  }
}

TEST(ServeSim, OpenStreamsRequestsAndTracesRun) {
  const Arguments grouped = {"--strategy", "grouped_gemm"};
  const json open = successful_json(serve(joined(grouped, {"--sessions", "6", "--holding", "1s", "--jitter", "5ms"})));
  EXPECT_GT(open.at("strategies").at(0).at("points").at(0).at("sessions"), 6);
  const json requests = successful_json(serve(joined(grouped, {"--workload", "requests", "--rate", "5,50", "--prompt",
                                                               "uniform:50..300", "--output", "exponential:6"})));
  EXPECT_EQ(requests.at("strategies").at(0).at("points").size(), 2);
  EXPECT_GT(requests.at("strategies").at(0).at("points").at(1).at("per_token").at("p50_ms"), 0);
  const std::string trace =
      temp_file("arrivals.csv", "arrival_s,prompt_tokens,output_tokens,session\n0.6,64,3,a\n0.7,9,2,a\n0.6,5,1,b\n");
  const json traced = successful_json(serve(joined(grouped, {"--workload", "requests", "--arrivals", trace})));
  EXPECT_EQ(traced.at("strategies").at(0).at("points").at(0).at("turns"), 3);
  EXPECT_EQ(traced.at("strategies").at(0).at("points").at(0).at("sessions"), 2);
}

TEST(ServeSim, SaysHowStepsWereRoundedAndRunsThemAsTheyAreWhereAsked) {
  const Arguments two = serve({"--sessions", "2", "--strategy", "grouped_gemm", "--context", "100"});
  EXPECT_THAT(successful_output(two), HasSubstr("contexts levelled within a step, rounded up to 1024"));
  const std::string exact = successful_output(joined(two, {"--context-bucket", "exact"}));
  EXPECT_THAT(exact, HasSubstr("contexts exact"));
  const json rounded = successful_json(two), as_is = successful_json(joined(two, {"--context-bucket", "exact"}));
  EXPECT_GT(as_is.at("engine_runs"), rounded.at("engine_runs"));
}

TEST(ServeSim, WritesATimelineAReportAndAChart) {
  const std::string folder = temp_folder();
  const CommandOutput run = run_moesim(
      serve({"--sessions", "3", "--timeline", "serve.json", "--report", "serve.html", "--format", "svg"}), folder);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.output, StartsWith("<svg"));
  EXPECT_THAT(run.errors, HasSubstr("serve.json: "));
  EXPECT_GT(std::filesystem::file_size(folder + "serve.html"), 200'000U);
  EXPECT_GT(std::filesystem::file_size(folder + "serve.json"), 10'000U);
}

TEST(ServeSim, WhatMemoryDoesNotHoldIsInfeasible) {
  const CommandOutput weights = run_moesim({"serve-sim", "--model", "deepseek-v3", "--sessions", "1"});
  EXPECT_EQ(weights.exit_code, 3);
  EXPECT_THAT(weights.errors, HasSubstr("beside weights of"));
  const CommandOutput caches = run_moesim(serve({"--sessions", "100000"}));
  EXPECT_EQ(caches.exit_code, 3);
  EXPECT_THAT(caches.errors, HasSubstr("100000 sessions"));
}

struct Wrong {
  Arguments arguments;
  const char* says;
};

TEST(ServeSim, RefusesWhatMakesNoSense) {
  const std::string late = temp_file("late.jsonl", R"({"arrival_s": 3, "prompt_tokens": 5, "output_tokens": 1})");
  const std::string bad = temp_file("bad.jsonl", R"({"arrival_s": 3, "prompt": 5, "output_tokens": 1})");
  const std::string column = temp_file("bad.csv", "arrival_s,prompt_tokens,output_token\n1,2,3\n");
  const Wrong cases[] = {
      {{"--workload", "stream"}, "did you mean 'streams'"},
      {{"--period", "200"}, "--period"},
      {{"--period", "0ms"}, "above 0"},
      {{"--tokens-in", "0"}, "--tokens-in"},
      {{"--tokens-out", "many"}, "--tokens-out"},
      {{"--rate", "3"}, "--workload requests"},
      {{"--workload", "requests", "--sessions", "3"}, "--workload streams"},
      {{"--workload", "requests"}, "--rate"},
      {{"--workload", "requests", "--rate", "0"}, "--rate"},
      {{"--workload", "requests", "--arrivals", "nowhere.csv"}, "nowhere.csv"},
      {{"--workload", "requests", "--arrivals", late}, "--horizon"},
      {{"--workload", "requests", "--arrivals", bad}, "prompt"},
      {{"--workload", "requests", "--arrivals", column}, "output_token"},
      {{"--warm-up", "2s"}, "--warm-up"},
      {{"--misses", "101%"}, "--misses"},
      {{"--budget", "0"}, "--budget"},
      {{"--context-bucket", "exactly"}, "--context-bucket"},
      {{"--context-bucket", "exact", "--chunk-bucket", "8"}, "--chunk-bucket"},
      {{"--context", "9000"}, "--context"},
      {{"--tokens-per-request", "4"}, "--tokens-per-request"},
      {{"--routing", "trace:a.npy"}, "--routing"},
      {{"--timeline", "serve.txt"}, "--timeline"},
      {{"--report", "no/such/folder/serve.html"}, "--report"},
      {{"--format", "xml"}, "--format"},
      {{"--sessions", "0"}, "--sessions"},
      {{"--concurrency", "4"}, "--concurrency"},
  };
  for (const Wrong& wrong : cases) {
    const CommandOutput run = run_moesim(serve(wrong.arguments));
    EXPECT_EQ(run.exit_code, 2) << fmt::format("{}", fmt::join(wrong.arguments, " "));
    EXPECT_THAT(run.errors, HasSubstr(wrong.says)) << fmt::format("{}", fmt::join(wrong.arguments, " "));
    EXPECT_THAT(run.output, IsEmpty());
  }
}

}  // namespace
}  // namespace moesim
