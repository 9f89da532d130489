// moesim run: what it prints when all is well.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/timeline/attribution.h"
#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

std::string output_of(Arguments arguments) {
  arguments.insert(arguments.begin(), "run");
  return successful_output(arguments);
}

json json_of(Arguments arguments) {
  arguments.insert(arguments.begin(), "run");
  return successful_json(std::move(arguments));
}

// Rows of one concurrency by strategy.
std::map<std::string, json> rows_at(const json& study, int concurrency) {
  std::map<std::string, json> rows;
  for (const json& row : study.at("rows")) {
    if (row.at("concurrency") == concurrency) rows[row.at("strategy").get<std::string>()] = row;
  }
  return rows;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

const Arguments kSmall = {"--model", "mixtral-8x7b", "--concurrency", "1,4", "--samples", "3"};

Arguments small_with(const Arguments& more) { return joined(kSmall, more); }

TEST(Run, RecordsWhatWasOverriddenInTheModel) {
  const Arguments overridden = small_with({"--model-override", "hidden=1024", "--model-override", "topk=1"});
  const json study = json_of(overridden);
  EXPECT_EQ(study.at("model").at("overrides"), json({"hidden=1024", "topk=1"}));
  const json plain = json_of(kSmall);
  EXPECT_FALSE(plain.at("model").contains("overrides"));
  EXPECT_LT(study.at("rows").at(0).at("time_us_median").get<double>(),
            plain.at("rows").at(0).at("time_us_median").get<double>());
  EXPECT_THAT(output_of(overridden), HasSubstr("override hidden=1024\noverride topk=1\n"));
  Arguments csv = overridden;
  csv.insert(csv.end(), {"--format", "csv"});
  EXPECT_THAT(output_of(csv), AllOf(HasSubstr(",model_overrides\n"), HasSubstr(",hidden=1024 topk=1\n")));
}

// Latent experts between their projections; picks of zero experts, alone among a token's perhaps.
TEST(Run, ModelsOfEveryKindOfLayer) {
  for (const char* model : {"kimi-k3", "nemotron-3-super-120b-a12b-fp8", "longcat-flash", "deepseek-v4-flash",
                            "llama-4-scout", "arctic", "jamba-v0.1"}) {
    const json study = successful_json({"run", "--model", model, "--concurrency", "1,4", "--samples", "2", "--strategy",
                                        "grouped_gemm,stream_gemv", "--explain"});
    EXPECT_EQ(study.at("rows").size(), 4U) << model;
  }
  const json zero = successful_json({"run", "--model", "longcat-flash", "--model-override", "topk=1", "--concurrency",
                                     "1", "--samples", "64", "--strategy", "all"});
  for (const json& row : zero.at("rows")) EXPECT_GT(row.at("time_us_median").get<double>(), 0);
  EXPECT_LT(zero.at("rows").at(0).at("distinct_experts_mean").get<double>(), 1);
}

TEST(Run, NamesEverythingThatItWasMadeOf) {
  const json study = json_of(small_with({"--set", "hbm.bandwidth=6TB/s", "--seed", "7"}));
  EXPECT_EQ(study.at("schema"), "moesim.concurrency_study/1");
  EXPECT_EQ(study.at("tool").at("name"), "moesim");
  EXPECT_FALSE(study.at("tool").at("version").get<std::string>().empty());
  EXPECT_THAT(study.at("calibration").get<std::string>(), StartsWith("calibrated by h200.json ("));
  EXPECT_EQ(study.at("device").at("name"), "h200");
  EXPECT_THAT(study.at("device").at("hash").get<std::string>(), SizeIs(16));
  EXPECT_EQ(study.at("device").at("overrides"), json({"hbm.bandwidth=6TB/s"}));
  EXPECT_EQ(study.at("model").at("name"), "mixtral-8x7b");
  EXPECT_EQ(study.at("model").at("weights"), "bf16");
  EXPECT_EQ(study.at("model").at("moe_layers"), 1);
  EXPECT_EQ(study.at("scope"), "moe_layer");
  EXPECT_EQ(study.at("launch"), "graph");
  EXPECT_EQ(study.at("routing"), "uniform");
  EXPECT_EQ(study.at("samples"), 3);
  EXPECT_EQ(study.at("seed"), 7);
}

TEST(Run, EveryRowHasItsFigures) {
  const json study = json_of(kSmall);
  ASSERT_THAT(study.at("rows"), Not(IsEmpty()));
  for (const json& row : study.at("rows")) {
    SCOPED_TRACE(row.dump());
    ASSERT_TRUE(row.at("feasible").get<bool>());
    const auto median = row.at("time_ps_median").get<std::int64_t>();
    EXPECT_DOUBLE_EQ(row.at("time_us_median").get<double>(), static_cast<double>(median) / 1e6);
    EXPECT_GE(row.at("time_ps_p95").get<std::int64_t>(), median);
    EXPECT_GT(row.at("bound_fraction_median").get<double>(), 0);
    EXPECT_LE(row.at("bound_fraction_median").get<double>(), 1);
    EXPECT_GT(row.at("memory_read_bytes_mean").get<std::int64_t>(), 0);
    EXPECT_GT(row.at("achieved_tb_per_s").get<double>(), 0);
    EXPECT_LT(row.at("achieved_tb_per_s").get<double>(), 4.8);  // the device's datasheet peak
    EXPECT_TRUE(row.at("attribution").contains(row.at("limited_by").get<std::string>()));
  }
}

TEST(Run, AttributionSumsToTheTime) {
  const json study = json_of(kSmall);
  for (const json& row : study.at("rows")) {
    std::int64_t picoseconds = 0;
    double shares = 0;
    for (const auto& item : row.at("attribution_ps_sum").items()) picoseconds += item.value().get<std::int64_t>();
    for (const auto& item : row.at("attribution").items()) shares += item.value().get<double>();
    EXPECT_EQ(picoseconds, row.at("time_ps_sum").get<std::int64_t>());
    EXPECT_NEAR(shares, 1, 1e-4);
    EXPECT_THAT(row.at("attribution"), SizeIs(kBlameCount));
  }
}

TEST(Run, TheWinnerHasTheSmallestMedian) {
  const json study = json_of(small_with({"--strategy", "all"}));
  for (const int concurrency : {1, 4}) {
    const auto rows = rows_at(study, concurrency);
    std::string winner, fastest;
    for (const auto& [name, row] : rows) {
      if (row.at("winner").get<bool>()) winner += name;
      if (fastest.empty() || row.at("time_ps_median") < rows.at(fastest).at("time_ps_median")) fastest = name;
    }
    EXPECT_EQ(winner, fastest);
  }
}

TEST(Run, TheVerdictCoversAllConcurrenciesInOrder) {
  const json study = json_of({"--concurrency", "1-4,8,64", "--samples", "1"});
  std::vector<int> winners_at;
  for (const json& verdict : study.at("verdict")) {
    for (const int concurrency : {1, 2, 3, 4, 8, 64}) {
      if (concurrency < verdict.at("concurrency_from") || concurrency > verdict.at("concurrency_to")) continue;
      winners_at.push_back(concurrency);
      EXPECT_TRUE(rows_at(study, concurrency).at(verdict.at("winner").get<std::string>()).at("winner").get<bool>());
    }
    EXPECT_GE(verdict.at("lead_min").get<double>(), 1);
    EXPECT_LE(verdict.at("lead_min").get<double>(), verdict.at("lead_max").get<double>());
  }
  EXPECT_THAT(winners_at, ElementsAre(1, 2, 3, 4, 8, 64));
}

TEST(Run, AutoIsTheBestOfEachRoutingAndNoRivalOfWhatItChose) {
  const json study = json_of(small_with({"--strategy", "auto,all"}));
  for (const int concurrency : {1, 4}) {
    const auto rows = rows_at(study, concurrency);
    const json& autos = rows.at("auto");
    std::int64_t picked = 0;
    for (const auto& item : autos.at("picked_samples").items()) picked += item.value().get<std::int64_t>();
    EXPECT_EQ(picked, 3);
    for (const auto& [name, row] : rows) EXPECT_LE(autos.at("time_ps_sum"), row.at("time_ps_sum")) << name;
  }
  for (const json& verdict : study.at("verdict")) EXPECT_THAT(verdict.at("next_best"), Not(Contains("auto")));
}

TEST(Run, StrategiesSeeTheSameRoutings) {
  const json study = json_of(kSmall);
  for (const int concurrency : {1, 4}) {
    const auto rows = rows_at(study, concurrency);
    const json& first = rows.begin()->second;
    for (const auto& [name, row] : rows) {
      EXPECT_EQ(row.at("distinct_experts_mean"), first.at("distinct_experts_mean")) << name;
      EXPECT_EQ(row.at("bound_ps_median"), first.at("bound_ps_median")) << name;
    }
  }
}

TEST(Run, RoutingStatisticsAreThoseOfTheRouting) {
  // Eight experts dealt without repeats to four tokens of two.
  const json disjoint = json_of({"--model", "mixtral-8x7b", "--concurrency", "4", "--routing", "disjoint"});
  EXPECT_EQ(disjoint.at("rows").at(0).at("distinct_experts_mean"), 8);
  EXPECT_EQ(disjoint.at("rows").at(0).at("duplicate_share_mean"), 0);
  // All tokens on the same two: six of eight picks are duplicates.
  const json same = json_of({"--model", "mixtral-8x7b", "--concurrency", "4", "--routing", "same"});
  EXPECT_EQ(same.at("rows").at(0).at("distinct_experts_mean"), 2);
  EXPECT_EQ(same.at("rows").at(0).at("duplicate_share_mean"), 0.75);
  EXPECT_EQ(same.at("rows").at(0).at("rows_per_expert_mean"), 4);
}

TEST(Run, ATraceGivesTokensAndSamples) {
  const std::string trace = npy_file("trace.npy", "2, 3, 2", {0, 1, 0, 2, 0, 3, 4, 5, 4, 6, 4, 7});
  const json study = json_of({"--model", "mixtral-8x7b", "--routing", "trace:" + trace});
  EXPECT_EQ(study.at("samples"), 2);
  EXPECT_EQ(study.at("routing"), "trace:" + trace);
  EXPECT_EQ(study.at("rows").at(0).at("concurrency"), 3);
  EXPECT_EQ(study.at("rows").at(0).at("distinct_experts_mean"), 4);
}

TEST(Run, SameSeedSameBytes) {
  for (const char* format : {"table", "json", "csv"}) {
    const Arguments arguments = small_with({"--format", format});
    EXPECT_EQ(output_of(arguments), output_of(arguments));
  }
}

TEST(Run, AnotherSeedOtherRoutings) {
  const Arguments arguments = {"--model", "mixtral-8x7b", "--concurrency", "3", "--samples", "2"};
  Arguments other = arguments;
  other.insert(other.end(), {"--seed", "2"});
  EXPECT_NE(json_of(arguments).at("rows"), json_of(other).at("rows"));
}

TEST(Run, FirstSamplesDoNotDependOnHowManyThereAre) {
  const Arguments one = {"--model", "mixtral-8x7b", "--concurrency", "4", "--samples",
                         "1",       "--strategy",   "stream_gemv"};
  const Arguments list = {"--model", "mixtral-8x7b", "--concurrency", "1,4,9", "--samples",
                          "1",       "--strategy",   "stream_gemv"};
  EXPECT_EQ(rows_at(json_of(one), 4), rows_at(json_of(list), 4));
}

TEST(Run, CommasSeparateStrategiesAndTheirParameters) {
  const json study = json_of({"--model", "mixtral-8x7b", "--concurrency", "1", "--samples", "1", "--strategy",
                              "grouped_gemm:block_m=32,num_warps=8,stream_gemv", "--strategy", "gather_gemv"});
  std::vector<std::string> names;
  for (const json& row : study.at("rows")) names.push_back(row.at("strategy").get<std::string>());
  EXPECT_THAT(names, ElementsAre("grouped_gemm:block_m=32,num_warps=8", "stream_gemv", "gather_gemv"));
}

TEST(Run, MoreBandwidthIsFaster) {
  const Arguments arguments = {"--concurrency", "8", "--samples", "1", "--strategy", "stream_gemv"};
  Arguments wider = arguments;
  wider.insert(wider.end(), {"--set", "hbm.bandwidth=8TB/s"});
  EXPECT_LT(json_of(wider).at("rows").at(0).at("time_ps_median"),
            json_of(arguments).at("rows").at(0).at("time_ps_median"));
}

TEST(Run, AShardDoesLess) {
  const Arguments whole = {"--concurrency", "8", "--samples", "1", "--strategy", "grouped_gemm"};
  for (const char* flag : {"--tp", "--ep"}) {
    Arguments shard = whole;
    shard.insert(shard.end(), {flag, "8"});
    EXPECT_LT(json_of(shard).at("rows").at(0).at("memory_read_bytes_mean"),
              json_of(whole).at("rows").at(0).at("memory_read_bytes_mean"));
  }
}

TEST(Run, AnInfeasibleRowCarriesItsReason) {
  const std::string too_big = "grouped_gemm:block_n=512,block_k=1024,num_stages=16";
  const Arguments arguments = {"--concurrency", "1", "--samples", "1", "--strategy", too_big + ",stream_gemv"};
  const auto rows = rows_at(json_of(arguments), 1);
  EXPECT_FALSE(rows.at(too_big).at("feasible").get<bool>());
  EXPECT_THAT(rows.at(too_big).at("reason").get<std::string>(), HasSubstr("do not fit"));
  EXPECT_TRUE(rows.at("stream_gemv").at("winner").get<bool>());
  EXPECT_THAT(output_of(arguments), HasSubstr("infeasible: "));
}

TEST(Run, NothingFeasibleIsExitCodeThree) {
  const CommandOutput run = run_moesim({"run", "--strategy", "grouped_gemm:block_n=512,block_k=1024,num_stages=16"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, AllOf(StartsWith("moesim: no strategy is feasible: grouped_gemm"), HasSubstr("do not fit")));
}

TEST(Run, CsvHasAHeaderAndAsManyCellsInEachLine) {
  const auto lines = lines_of(output_of(small_with({"--format", "csv", "--strategy", "stream_gemv,gather_gemv"})));
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_THAT(lines[0], AllOf(StartsWith("concurrency,strategy,winner,time_us_median"), HasSubstr("device_hash")));
  for (const std::string& line : lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(lines[0].begin(), lines[0].end(), ','));
  }
}

TEST(Run, CsvQuotesAStrategyWithCommas) {
  EXPECT_THAT(output_of({"--concurrency", "1", "--samples", "1", "--format", "csv", "--strategy",
                         "grouped_gemm:block_m=16,num_warps=4"}),
              HasSubstr("\n1,\"grouped_gemm:block_m=16,num_warps=4\",1,"));
}

TEST(Run, TableNamesUnitsWinnerAndVerdict) {
  const std::string table = output_of(kSmall);
  for (const char* text :
       {"time µs", "p95 µs", "bound µs", "% of bound", "distinct", "dup %", "rows/expert", "MB", "TB/s", "limited by",
        "calibrated by h200.json", "error on models left out", "  *  ", "verdict", "times as fast as"}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
  for (const std::string& line : lines_of(table)) EXPECT_THAT(line, Not(testing::EndsWith(" ")));
}

TEST(Run, UncalibratedIgnoresTheOverlay) {
  const Arguments arguments = small_with({"--strategy", "stream_gemv"});
  const json fitted = json_of(arguments);
  const json plain = json_of(small_with({"--strategy", "stream_gemv", "--uncalibrated"}));
  EXPECT_EQ(plain.at("calibration"), "uncalibrated");
  EXPECT_THAT(plain.at("constants"), IsEmpty());
  EXPECT_TRUE(rows_at(plain, 1).at("stream_gemv").at("implementation").is_null());
  EXPECT_EQ(rows_at(plain, 1).at("stream_gemv").at("in_calibrated_range"), false);
  EXPECT_EQ(rows_at(fitted, 1).at("stream_gemv").at("implementation"), "triton-stream-gemv");
  EXPECT_EQ(rows_at(fitted, 1).at("stream_gemv").at("in_calibrated_range"), true);
  EXPECT_NE(rows_at(fitted, 1).at("stream_gemv").at("time_ps_median"),
            rows_at(plain, 1).at("stream_gemv").at("time_ps_median"));
  EXPECT_EQ(fitted.at("constants")[0].at("implementation"), "triton-stream-gemv");
  EXPECT_GT(fitted.at("constants")[0].at("held_out").at("median_abs_pct"), 0);
}

TEST(Run, ADeviceWithoutOverlayIsUncalibrated) {
  EXPECT_EQ(json_of(small_with({"--device", "b200"})).at("calibration"), "uncalibrated");
}

TEST(Run, AnImplementationIsChosenByName) {
  const std::string named = "stream_gemv:persistent=1,implementation=cuda-stream-block";
  const json study = json_of(small_with({"--strategy", named + ",stream_gemv:persistent=1"}));
  EXPECT_EQ(rows_at(study, 1).at(named).at("implementation"), "cuda-stream-block");
  EXPECT_EQ(rows_at(study, 1).at("stream_gemv:persistent=1").at("implementation"), "cuda-stream-gemv");
}

TEST(Run, AnUnknownImplementationHasTheDevicesConstantsAndTheOutputSaysSo) {
  const std::string unknown = "stream_gemv:implementation=warp-magic";
  const Arguments arguments = small_with({"--strategy", unknown});
  const json study = json_of(arguments);
  EXPECT_TRUE(rows_at(study, 1).at(unknown).at("implementation").is_null());
  EXPECT_EQ(rows_at(study, 1).at(unknown).at("time_ps_median"),
            rows_at(json_of(small_with({"--strategy", "stream_gemv", "--uncalibrated"})), 1)
                .at("stream_gemv")
                .at("time_ps_median"));
  EXPECT_THAT(output_of(arguments), AllOf(HasSubstr(unknown + "†"), HasSubstr("† not fitted")));
}

TEST(Run, TokensBeyondTheFitAreMarked) {
  const std::string table =
      output_of({"--model", "mixtral-8x7b", "--concurrency", "4,4096", "--samples", "1", "--strategy", "grouped_gemm"});
  EXPECT_THAT(table, AllOf(HasSubstr("grouped_gemm‡"), HasSubstr("‡ outside the calibrated range")));
  EXPECT_THAT(lines_of(table)[7], Not(HasSubstr("‡")));
}

TEST(Run, ExplainShowsWhereTheTimeGoes) {
  const Arguments arguments = small_with({"--explain", "--strategy", "expert_loop"});
  EXPECT_THAT(output_of(arguments),
              AllOf(HasSubstr("where the time goes"), HasSubstr("kernels of expert_loop at 1 token"),
                    HasSubstr("gemm1"), HasSubstr("waves")));
  const json study = json_of(arguments);
  // One sample of the first concurrency: its kernels' blame is that sample's time.
  const json explained = rows_at(study, 1).at("expert_loop");
  std::int64_t blamed = 0, last = 0;
  for (const json& kernel : explained.at("kernels_first_sample")) {
    for (const auto& item : kernel.at("attribution_ps").items()) blamed += item.value().get<std::int64_t>();
    last = std::max(last, kernel.at("end_ps").get<std::int64_t>());
    EXPECT_EQ(kernel.at("waves"),
              (kernel.at("items").get<std::int64_t>() + kernel.at("slots").get<std::int64_t>() - 1) /
                  kernel.at("slots").get<std::int64_t>());
  }
  EXPECT_EQ(blamed, last);
  EXPECT_FALSE(rows_at(study, 4).at("expert_loop").contains("kernels_first_sample"));
}

}  // namespace
}  // namespace moesim
