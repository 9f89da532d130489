// moesim run --without, --ladder and the ladder of --explain.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/engine/effects.h"
#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

constexpr const char* kGrouped = "grouped_gemm_persistent";
constexpr const char* kStream = "stream_gemv";

Arguments run_with(const Arguments& more) { return joined({"run", "--concurrency", "1", "--samples", "1"}, more); }

json ladder_json_of(const Arguments& more) { return successful_json(run_with(more)).at("ladder"); }

// Time of the only strategy's only sample.
std::int64_t picoseconds(const std::string& strategy, const json& without) {
  Arguments arguments = {"--strategy", strategy};
  for (const json& effect : without) arguments.insert(arguments.end(), {"--without", effect.get<std::string>()});
  return successful_json(run_with(arguments)).at("rows").at(0).at("time_ps_sum").get<std::int64_t>();
}

// Each rung is the difference of two runs that a user can make.
TEST(LadderCommand, EachRungIsTheDifferenceOfTwoRuns) {
  const json ladder = ladder_json_of({"--ladder", fmt::format("{},{}", kGrouped, kStream)});
  EXPECT_EQ(ladder.at("slower"), kGrouped);
  EXPECT_EQ(ladder.at("faster"), kStream);
  for (const auto& [rungs, runs] : {std::pair{"rungs", "runs"}, std::pair{"reverse_rungs", "reverse_runs"}}) {
    std::int64_t gain = 0, slower_before = 0, faster_before = 0;
    ASSERT_EQ(ladder.at(rungs).size(), kEffectCount + 1);
    for (std::size_t i = 0; i < ladder.at(runs).size(); ++i) {
      const json& run = ladder.at(runs).at(i);
      ASSERT_EQ(run.at("without").size(), i);
      const std::int64_t slower = picoseconds(kGrouped, run.at("without"));
      const std::int64_t faster = picoseconds(kStream, run.at("without"));
      EXPECT_EQ(run.at("slower_ps"), slower) << run;
      EXPECT_EQ(run.at("faster_ps"), faster) << run;
      if (i > 0) {
        const json& rung = ladder.at(rungs).at(i - 1);
        EXPECT_EQ(rung.at("effect"), run.at("without").back());
        EXPECT_EQ(rung.at("gain_ps"), (slower_before - slower) - (faster_before - faster)) << rung;
        gain += rung.at("gain_ps").get<std::int64_t>();
      }
      slower_before = slower;
      faster_before = faster;
    }
    const json& rest = ladder.at(rungs).back();
    EXPECT_TRUE(rest.at("effect").is_null());
    EXPECT_EQ(rest.at("gain_ps"), slower_before - faster_before);
    EXPECT_EQ(gain + rest.at("gain_ps").get<std::int64_t>(), ladder.at("gain_ps"));
    EXPECT_LT(std::abs(rest.at("gain_share").get<double>()), 0.1);  // nothing is left unexplained
  }
}

TEST(LadderCommand, PrintsBothOrdersAndASentence) {
  const double factor = static_cast<double>(picoseconds(kGrouped, json::array())) /
                        static_cast<double>(picoseconds(kStream, json::array()));
  const std::string text = successful_output(run_with({"--ladder", fmt::format("{},{}", kStream, kGrouped)}));
  EXPECT_THAT(text,
              AllOf(HasSubstr("speed-up ladder from grouped_gemm_persistent to stream_gemv at 1 token"),
                    HasSubstr("the same in the reverse order"),
                    HasSubstr(fmt::format("stream_gemv is {:.2f} times as fast as grouped_gemm_persistent", factor)),
                    HasSubstr("Saved: "), Not(HasSubstr("where the time goes"))));
}

TEST(LadderCommand, ExplainTakesTheTwoFastest) {
  const json study =
      successful_json(run_with({"--strategy", "auto,expert_loop,grouped_gemm,stream_gemv", "--explain"}));
  EXPECT_EQ(study.at("ladder").at("slower"), "stream_gemv");
  EXPECT_EQ(study.at("ladder").at("faster"), "grouped_gemm");
  EXPECT_FALSE(successful_json(run_with({"--strategy", "stream_gemv", "--explain"})).contains("ladder"));
  EXPECT_FALSE(successful_json(run_with({})).contains("ladder"));
}

// With their parameters; what is not among the strategies is simulated too.
TEST(LadderCommand, TakesStrategiesAsStrategyDoes) {
  const json study = successful_json(
      run_with({"--strategy", "expert_loop", "--ladder", "grouped_gemm:block_m=32,num_warps=8,expert_loop"}));
  EXPECT_EQ(study.at("ladder").at("faster"), "grouped_gemm:block_m=32,num_warps=8");
  EXPECT_EQ(study.at("rows").size(), 2U);
}

TEST(LadderCommand, SaysWhyThereIsNone) {
  const std::string infeasible = "grouped_gemm:block_m=256,block_n=256,block_k=256";
  const CommandOutput run =
      run_moesim(run_with({"--strategy", "stream_gemv", "--ladder", infeasible + ",stream_gemv"}));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("speed-up ladder: none, since " + infeasible + ": "));
}

TEST(LadderCommand, OutputsSayWhatIsLeftOut) {
  const Arguments left_out = {"--strategy", "grouped_gemm", "--without", "tail,launch", "--without", "helpers"};
  EXPECT_THAT(successful_output(run_with(left_out)), HasSubstr("\nwithout  helpers, launch, tail\n"));
  const json study = successful_json(run_with(left_out));
  EXPECT_EQ(study.at("without"), json({"helpers", "launch", "tail"}));
  EXPECT_FALSE(successful_json(run_with({"--strategy", "grouped_gemm"})).contains("without"));
  Arguments csv = left_out;
  csv.insert(csv.end(), {"--format", "csv"});
  EXPECT_THAT(successful_output(run_with(csv)), AllOf(HasSubstr(",without\n"), HasSubstr(",helpers launch tail\n")));
}

// Picks of zero experts load nothing: with the helpers left out too, no kernel is left, and no time.
TEST(LadderCommand, NothingIsLeftOfALayerOfHelpers) {
  const Arguments nothing = {
      "run",       "--model", "longcat-flash", "--model-override", "topk=1", "--concurrency", "1", "--seed", "2",
      "--samples", "1",       "--without",     "helpers"};
  const json study = successful_json(nothing);
  for (const json& row : study.at("rows")) {
    EXPECT_EQ(row.at("time_ps_sum"), 0);
    EXPECT_EQ(row.at("bound_fraction_median"), 0);
    EXPECT_EQ(row.at("achieved_tb_per_s"), 0);
  }
  EXPECT_THAT(successful_output(nothing), AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

// Kernels that are not launched are not shown.
TEST(LadderCommand, HelpersLeftOutAreNoKernels) {
  const Arguments explained = {"--strategy", "grouped_gemm", "--explain", "--without", "helpers"};
  const json study = successful_json(run_with(explained));
  for (const json& kernel : study.at("rows").at(0).at("kernels_first_sample")) {
    EXPECT_EQ(kernel.at("attribution_ps").at("helper"), 0) << kernel;
    EXPECT_GT(kernel.at("items"), 0);
  }
  EXPECT_THAT(successful_output(run_with(explained)), Not(HasSubstr("\n  topk ")));
}

}  // namespace
}  // namespace moesim
