// moesim route, and the routing flags of moesim run.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "tests/testkit/run_command.h"
#include "traces/routed_trace.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const Arguments kSmall = {"route", "--experts", "64", "--topk", "6", "--layers", "3", "--steps", "4", "--samples", "3"};

double mean_of(const json& point, const char* load) { return point.at(load).at("mean").get<double>(); }

TEST(Route, LoadsByConcurrency) {
  const json report = successful_json(with(kSmall, {"--concurrency", "1,8,64", "--routing", "zipf:0.8"}));
  EXPECT_EQ(report.at("routing"), "zipf:0.8");
  EXPECT_EQ(report.at("experts"), 64);
  EXPECT_EQ(report.at("layers"), 3);
  ASSERT_THAT(report.at("points"), SizeIs(3));
  const json& one = report.at("points")[0];
  EXPECT_EQ(one.at("batches"), 3 * 4 * 3);
  EXPECT_EQ(mean_of(one, "distinct_experts"), 6);
  EXPECT_EQ(mean_of(one, "duplicate_pct"), 0);
  const json& most = report.at("points")[2];
  EXPECT_GT(mean_of(most, "duplicate_pct"), 80);
  EXPECT_GT(mean_of(most, "max_over_mean"), 2);
  EXPECT_GT(most.at("distinct_experts").at("seed_deviation").get<double>(), 0);
  EXPECT_GE(most.at("experts_by_rows").at("0").get<double>(), 0);
  // Rows of all bins are the experts.
  double experts = 0;
  for (const auto& [name, count] : most.at("experts_by_rows").items()) experts += count.get<double>();
  EXPECT_NEAR(experts, 64, 1e-3);
}

TEST(Route, SameSeedSameBytesInEveryFormat) {
  for (const char* format : {"table", "json", "csv"}) {
    const Arguments command = with(kSmall, {"--routing", "lognormal:1", "--seed", "5", "--format", format});
    EXPECT_EQ(successful_output(command), successful_output(command));
  }
  EXPECT_NE(successful_output(with(kSmall, {"--routing", "lognormal:1", "--seed", "5"})),
            successful_output(with(kSmall, {"--routing", "lognormal:1", "--seed", "6"})));
}

TEST(Route, AMatchPrintsTheSkewThatItFinds) {
  const json report =
      successful_json({"route", "--match", "duplicates=5%@3", "--samples", "1", "--steps", "1", "--concurrency", "3"});
  ASSERT_THAT(report.at("match"), SizeIs(3));
  const json& zipf = report.at("match")[0];
  EXPECT_NEAR(zipf.at("parameter").get<double>(), 0.63, 0.03);
  EXPECT_NEAR(zipf.at("duplicate_pct").get<double>(), 5, 0.1);
  EXPECT_EQ(report.at("routing"), zipf.at("routing"));
  EXPECT_NEAR(report.at("match")[1].at("parameter").get<double>(), 1.02, 0.07);
  EXPECT_THAT(successful_output(with(kSmall, {"--routing", "lognormal", "--match", "duplicates=20%@4"})),
              AllOf(HasSubstr("\nrouting  lognormal:"), HasSubstr(" gives duplicates "), HasSubstr(" at 4 tokens\n")));
}

TEST(Route, GroupsOfTheModel) {
  const Arguments command = {"route", "--model",       "deepseek-v3", "--layers", "2",    "--steps",
                             "2",     "--concurrency", "4",           "--groups", "model"};
  EXPECT_EQ(successful_json(command).at("routing"), "uniform, groups 8/4 by sigmoid");
}

TEST(Route, StickyRequestsRepeatTheirExperts) {
  const auto repeated = [](const char* sticky) {
    return successful_json(with(kSmall, {"--concurrency", "64", "--sticky", sticky}))
        .at("points")[0]
        .at("repeated_pct")
        .get<double>();
  };
  EXPECT_NEAR(repeated("0"), 100 * 6 / 64.0, 2);
  EXPECT_NEAR(repeated("0.5"), 50 + 50 * 3 / 61.0, 3);
  EXPECT_EQ(repeated("1"), 100);
}

TEST(Route, ATraceIsWrittenWithItsSidecarAndReadBack) {
  const std::string path = temp_folder() + "trace.npy";
  const Arguments command = {"route", "--experts", "64",       "--topk",   "6",  "--layers",
                             "3",     "--steps",   "4",        "--out",    path, "--concurrency",
                             "5",     "--routing", "zipf:0.8", "--sticky", "0.3"};
  const json drawn = successful_json(command);
  EXPECT_EQ(drawn.at("trace"), path);
  const std::vector<RoutedBatch> batches = read_routed_trace(path, 64);
  ASSERT_THAT(batches, SizeIs(12));
  EXPECT_EQ(batches.front().tokens, 5);
  const json sidecar = json::parse(read_text_file(path.substr(0, path.size() - 4) + ".json", 1 << 20));
  EXPECT_EQ(sidecar.at("schema"), "moesim.routing/1");
  EXPECT_EQ(sidecar.at("routing"), "zipf:0.8, sticky 0.3");
  EXPECT_EQ(sidecar.at("shape"), json({4, 3, 5, 6}));

  const json recorded = successful_json({"route", "--experts", "64", "--topk", "6", "--routing", "trace:" + path});
  EXPECT_EQ(recorded.at("points")[0].at("batches"), 12);
  for (const char* load : {"distinct_experts", "gini", "tiles_m16"}) {
    EXPECT_EQ(recorded.at("points")[0].at(load).at("mean"), drawn.at("points")[0].at(load).at("mean"));
  }
}

TEST(Route, RunTakesTheMatchedRouting) {
  const json run = successful_json({"run", "--routing", "zipf", "--match", "duplicates=5%@3", "--concurrency", "3",
                                    "--samples", "2", "--strategy", "grouped_gemm"});
  EXPECT_THAT(run.dump(), AllOf(HasSubstr("zipf:0.6"), HasSubstr("matched: duplicates ")));
}

TEST(Route, RunTakesDomainsGroupsAndChunks) {
  const Arguments run = {"run", "--model",   "deepseek-v3", "--concurrency", "16",          "--samples",
                         "4",   "--routing", "zipf:1",      "--strategy",    "grouped_gemm"};
  const auto distinct = [&](const Arguments& more) {
    return successful_json(with(run, more)).at("rows")[0].at("distinct_experts_mean").get<double>();
  };
  const double plain = distinct({});
  EXPECT_LT(distinct({"--tokens-per-request", "16", "--sticky-prefill", "0.8"}), 0.7 * plain);
  EXPECT_NE(distinct({"--groups", "model"}), plain);
  EXPECT_GT(distinct({"--domains", "8"}), plain);
  EXPECT_EQ(distinct({"--sticky", "0.5"}), plain) << "a single step does not show it";
}

std::string complaint_of(const Arguments& arguments) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.output << run.errors;
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, StartsWith("moesim: "));
  return run.errors;
}

TEST(Route, WrongInputNamesTheFlag) {
  struct Wrong {
    Arguments flags;
    const char* flag;
    const char* text;
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{{"--routing", "zpif:1"}, "--routing", "did you mean 'zipf'"},
                          {{"--routing", "zipf"}, "--routing", "zipf:S"},
                          {{"--match", "duplicates=5"}, "--match", "duplicates=SHARE@TOKENS"},
                          {{"--match", "duplicates=5%@3,lognomal"}, "--match", "did you mean 'lognormal'"},
                          {{"--match", "duplicates=99%@2,zipf"}, "--match", "a share that the law reaches"},
                          {{"--match", "duplicates=5%@3", "--routing", "zipf:1"}, "--match", "the law once"},
                          {{"--groups", "modl"}, "--groups", "did you mean 'model'"},
                          {{"--groups", "model"}, "--groups", "without --model"},
                          {{"--groups", "8/9"}, "--groups", "M of N groups"},
                          {{"--groups", "5/2"}, "--groups", "divide 64 experts"},
                          {{"--score", "sigmod", "--groups", "8/4"}, "--score", "did you mean 'sigmoid'"},
                          {{"--bias", "2"}, "--bias", "a number from 0 to 1"},
                          {{"--domains", "0"}, "--domains", "a whole number"},
                          {{"--same-domain"}, "--same-domain", "--domains of at least 2"},
                          {{"--sticky", "x"}, "--sticky", "a number from 0 to 1"},
                          {{"--sticky-prefill", "0.5"}, "--sticky-prefill", "--tokens-per-request"},
                          {{"--drift", "0.5"}, "--drift", "popularities"},
                          {{"--routing", "balanced", "--sticky", "0.5"}, "--routing", "dirichlet"},
                          {{"--seed", "-1"}, "--seed", "a whole number"},
                          {{"--stiky", "1"}, "--stiky", "did you mean '--sticky'"},
                          {{"--out", "/nowhere/trace.npy", "--concurrency", "4"}, "--out", "cannot be written"},
                          {{"--out", "trace.npy"}, "--out", "one, as in --concurrency 64"},
                          {{"--format", "xml"}, "--format", "table, json, csv"}}) {
    EXPECT_THAT(
        complaint_of(with({"route", "--experts", "64", "--topk", "6", "--steps", "1", "--layers", "1"}, wrong.flags)),
        AllOf(HasSubstr(wrong.flag), HasSubstr(wrong.text)));
  }
}

TEST(Route, WrongSizesAndTraces) {
  EXPECT_THAT(complaint_of({"route", "--experts", "64"}), HasSubstr("--topk"));
  EXPECT_THAT(complaint_of({"route", "--experts", "64", "--topk", "65"}), HasSubstr("from 1 to 64"));
  EXPECT_THAT(complaint_of({"route", "--model", "mixtral-8x7b", "--experts", "1"}), HasSubstr("top-k of mixtral-8x7b"));
  EXPECT_THAT(complaint_of({"route", "--model", "mixtral-8x77b"}), HasSubstr("mixtral-8x7b"));
  const std::string trace = npy_file("a.npy", "2, 3, 2", {0, 1, 2, 3, 0, 2, 1, 0, 3, 1, 2, 0});
  const Arguments route = {"route", "--experts", "4", "--topk", "2", "--routing", "trace:" + trace};
  EXPECT_EQ(successful_json(route).at("points")[0].at("batches"), 2);
  EXPECT_THAT(complaint_of(with(route, {"--steps", "2"})), HasSubstr("--steps"));
  EXPECT_THAT(complaint_of(with(route, {"--concurrency", "3"})), HasSubstr("--concurrency"));
  EXPECT_THAT(complaint_of({"route", "--experts", "4", "--topk", "3", "--routing", "trace:" + trace}),
              HasSubstr("2 experts a token"));
  EXPECT_THAT(complaint_of({"route", "--experts", "3", "--topk", "2", "--routing", "trace:" + trace}),
              HasSubstr("expert ids from 0 to 2"));
  EXPECT_THAT(complaint_of({"route", "--experts", "4", "--topk", "2", "--routing", "trace:none.npy"}),
              HasSubstr("none.npy"));
}

}  // namespace
}  // namespace moesim
