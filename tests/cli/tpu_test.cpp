// Devices with a sequential grid, as the program shows them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRows = "/validation/published/tpu7x-gmm-v2.jsonl";

std::vector<std::string> names_of(const json& study) {
  std::vector<std::string> names;
  for (const json& row : study.at("rows")) names.push_back(row.at("strategy"));
  return names;
}

TEST(Tpu, AllStrategiesAreThoseOfItsGrid) {
  const json study = successful_json({"run", "--device", "ironwood", "--tp", "8", "--concurrency", "1"});
  EXPECT_THAT(names_of(study), ElementsAre("tpu_gmm", "tpu_stream"));
  EXPECT_THAT(successful_output({"run", "--device", "h200", "--concurrency", "1"}), Not(HasSubstr("tpu_")));
}

TEST(Tpu, AutoTakesOneOfThem) {
  const json study = successful_json({"run", "--device", "tpu-v6e", "--strategy", "auto", "--concurrency", "2"});
  EXPECT_THAT(study.at("rows")[0].at("picked_samples").dump(), HasSubstr("tpu_"));
}

TEST(Tpu, AStrategyOfTheOtherGridIsInfeasible) {
  const CommandOutput out =
      run_moesim({"run", "--device", "tpu7x", "--strategy", "grouped_gemm", "--concurrency", "1"});
  EXPECT_EQ(out.exit_code, 3);
  EXPECT_THAT(out.errors, HasSubstr("tpu7x has a sequential one"));
}

TEST(Tpu, AWholeStepIsNotSimulated) {
  const CommandOutput out = run_moesim({"run", "--device", "tpu7x", "--scope", "step", "--concurrency", "1"});
  EXPECT_EQ(out.exit_code, 3);
  EXPECT_THAT(out.errors, HasSubstr("sequential grid"));
}

TEST(Tpu, ConstantsOfTheOtherGridAreUnknown) {
  const CommandOutput out = run_moesim({"run", "--device", "tpu7x", "--set", "llc.latency=1us"});
  EXPECT_EQ(out.exit_code, 2);
  EXPECT_THAT(out.errors, HasSubstr("llc.latency"));
  EXPECT_EQ(run_moesim({"run", "--device", "h200", "--set", "mxu.fill=1clk"}).exit_code, 2);
  EXPECT_EQ(run_moesim({"run", "--device", "tpu7x", "--set", "mxu.fill=20000clk"}).exit_code, 2);
}

TEST(Tpu, MicrobenchmarksOfParallelGridsAreLeftOut) {
  const std::string rows =
      temp_file("micro.jsonl",
                R"({"schema":"moesim.measurement/2","kind":"micro","device":"tpu7x","benchmark":"barrier","us":1})");
  const CommandOutput out =
      run_moesim({"validate", "--kind", "micro", "--device", "tpu7x", "--measurements", rows, "--format", "json"});
  EXPECT_EQ(out.exit_code, 0) << out.errors;
  EXPECT_THAT(out.output, HasSubstr("parallel grids"));
}

// The published times of gmm_v2 (validation/published/README.md): documented constants alone are within a quarter.
TEST(Tpu, PublishedGroupedProductsAreRead) {
  const json result =
      successful_json({"validate", "--device", "tpu7x", "--measurements", std::string(MOESIM_SOURCE_DIR) + kRows});
  EXPECT_EQ(result.at("overall").at("count"), 5);
  EXPECT_LT(result.at("overall").at("max_abs_pct"), 25);
  EXPECT_LT(result.at("overall").at("median_abs_pct"), 10);
}

}  // namespace
}  // namespace moesim
