// What the HTML report is made of: the sentence on top, which measured rows stand beside a study, the data block, the page.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "tests/testkit/models.h"
#include "traces/views/concurrency_text.h"
#include "traces/views/measured_points.h"
#include "traces/views/report_data.h"
#include "traces/views/report_html.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

// ---------------------------------------------------------------------------------------------------- headline

Verdict verdict(std::int64_t from, std::int64_t to, const std::string& winner) {
  return {.from = from, .to = to, .winner = winner, .lead_min = 1.5, .lead_max = 1.5, .next_best = {"other"}};
}

TEST(Headline, OfOneVerdictIsItsSentence) {
  EXPECT_EQ(headline({verdict(1, 8, "a")}), "At 1 to 8 tokens a is fastest, 1.50 times as fast as other.");
}

TEST(Headline, OfSeveralNamesEachWinner) {
  EXPECT_EQ(headline({verdict(1, 1, "a"), verdict(2, 8, "b")}), "a is fastest at 1 token and b at 2 to 8 tokens.");
  EXPECT_EQ(headline({verdict(1, 2, "a"), verdict(4, 4, "b"), verdict(8, 16, "a")}),
            "a is fastest at 1 to 2 tokens, b at 4 tokens and a at 8 to 16 tokens.");
}

TEST(Headline, SaysWhereNothingIsFeasible) {
  EXPECT_EQ(headline({verdict(1, 2, "a"), verdict(4, 8, "")}),
            "a is fastest at 1 to 2 tokens and nothing is feasible at 4 to 8 tokens.");
  EXPECT_EQ(headline({verdict(1, 2, ""), verdict(4, 8, "a")}),
            "Nothing is feasible at 1 to 2 tokens and a is fastest at 4 to 8 tokens.");
}

// -------------------------------------------------------------------------------------------- measured points

ConcurrencyRequest tiny_request() {
  ConcurrencyRequest request;
  request.tool_version = "0";
  request.model = testkit::tiny_model();
  request.hardware = load_hardware("h200");
  request.activations = request.model.expert_weights;
  request.concurrencies = {1, 4};
  request.samples = 2;
  request.strategies = {parse_strategy("grouped_gemm"), parse_strategy("stream_gemv")};
  return request;
}

MoeMeasurement row_of(const ConcurrencyRequest& request) {
  MoeMeasurement row;
  row.file = "rows.jsonl";
  row.line = 7;
  row.device = request.hardware.name;
  row.hidden = request.model.hidden;
  row.intermediate = request.model.expert_intermediate;
  row.experts = request.model.experts;
  row.topk = request.model.topk;
  row.gated = request.model.gated;
  row.weights = format_name(request.model.expert_weights);
  row.activations = format_name(request.activations);
  row.tokens = 4;
  row.routing = "uniform";
  row.strategy = "stream_gemv";
  row.implementation = "triton-stream-gemv";
  row.launch = "graph";
  row.scope = "moe_layer";
  row.stage = "total";
  row.us = 12.5;
  return row;
}

TEST(MeasuredPoints, TakeRowsOfTheVeryLayer) {
  const ConcurrencyRequest request = tiny_request();
  MoeMeasurement by_alias = row_of(request);
  by_alias.device = "NVIDIA H200";
  const MeasuredPoints found = match_measured({row_of(request), by_alias}, request);
  ASSERT_THAT(found.points, SizeIs(2));
  EXPECT_EQ(request.strategies[found.points[0].strategy].text, "stream_gemv");
  EXPECT_THAT(found.left_out, IsEmpty());
  EXPECT_THAT(found.files, ElementsAre("rows.jsonl"));
}

struct LeftOut {
  const char* reason;
  void (*change)(MoeMeasurement& row);
};

const LeftOut kLeftOut[] = {
    {"of another device", [](MoeMeasurement& row) { row.device = "b200"; }},
    {"of a model of other sizes", [](MoeMeasurement& row) { ++row.hidden; }},
    {"of a model of other sizes", [](MoeMeasurement& row) { ++row.intermediate; }},
    {"of a model of other sizes", [](MoeMeasurement& row) { ++row.experts; }},
    {"of a model of other sizes", [](MoeMeasurement& row) { ++row.topk; }},
    {"of a model of other sizes", [](MoeMeasurement& row) { row.gated = !row.gated; }},
    {"of one stage", [](MoeMeasurement& row) { row.stage = "gemm1"; }},
    {"of tp 2 x ep 1", [](MoeMeasurement& row) { row.tp = 2; }},
    {"of tp 1 x ep 4", [](MoeMeasurement& row) { row.ep = 4; }},
    {"of mxfp4 weights", [](MoeMeasurement& row) { row.weights = "mxfp4"; }},
    {"of int8 activations", [](MoeMeasurement& row) { row.activations = "int8"; }},
    {"of scope expert_ffn", [](MoeMeasurement& row) { row.scope = "expert_ffn"; }},
    {"of launch stream", [](MoeMeasurement& row) { row.launch = "stream"; }},
    {"of zipf:1 routing", [](MoeMeasurement& row) { row.routing = "zipf:1"; }},
    {"with weights in the cache", [](MoeMeasurement& row) { row.warm = true; }},
    {"of other concurrencies", [](MoeMeasurement& row) { row.tokens = 5; }},
    {"of strategies that were not asked for", [](MoeMeasurement& row) { row.strategy = "gather_gemv"; }},
};

TEST(MeasuredPoints, CountWhatIsOfOtherThings) {
  const ConcurrencyRequest request = tiny_request();
  for (const auto& [reason, change] : kLeftOut) {
    MoeMeasurement row = row_of(request);
    change(row);
    const MeasuredPoints found = match_measured({row, row}, request);
    EXPECT_THAT(found.points, IsEmpty()) << reason;
    EXPECT_THAT(found.left_out, ElementsAre(Pair(reason, 2)));
  }
}

TEST(MeasuredPoints, AreOfTheStrategyThatNamesTheirImplementation) {
  ConcurrencyRequest request = tiny_request();
  StrategyChoice named = request.strategies.back();
  named.implementation = "triton-stream-gemv";
  request.strategies.back().implementation = "cuda-stream-gemv";
  request.strategies.push_back(named);
  const MeasuredPoints found = match_measured({row_of(request)}, request);
  ASSERT_THAT(found.points, SizeIs(1));
  EXPECT_EQ(found.points[0].strategy, request.strategies.size() - 1);
}

// -------------------------------------------------------------------------------------------------- data block

MemoryRate known_rate() {
  return {.step = Duration(500), .bytes_per_second = {1e12, 2.00049e12}, .peak = BytesPerSecond(4e12)};
}

struct Made {
  ConcurrencyRequest request;
  ConcurrencyStudy study;
  json data;
};

Made make_data(ConcurrencyRequest request) {
  request.explain = request.all_kernels = true;
  Made made{.request = std::move(request), .study = {}, .data = {}};
  made.study = run_concurrency_study(made.request);
  std::vector<LadderOrInfeasible> ladders;
  if (made.study.ladder) ladders.push_back(*made.study.ladder);
  made.data = json::parse(report_data({.request = made.request,
                                       .study = made.study,
                                       .ladders = ladders,
                                       .measured = match_measured({row_of(made.request)}, made.request),
                                       .memory_rates = {{}, {MemoryRate(), known_rate()}},
                                       .sensitivity = std::nullopt}));
  return made;
}

TEST(ReportData, HasTheStudysTimes) {
  const Made made = make_data(tiny_request());
  EXPECT_EQ(made.data.at("schema"), "moesim.report/1");
  EXPECT_EQ(made.data.at("headline"), headline(made.study.verdicts));
  ASSERT_THAT(made.data.at("points"), SizeIs(2));
  for (std::size_t p = 0; p < 2; ++p) {
    const ConcurrencyPoint& point = made.study.points[p];
    const json& shown = made.data.at("points")[p];
    EXPECT_EQ(shown.at("concurrency"), point.concurrency);
    EXPECT_EQ(shown.at("bound_ps"), point.bound_median.value());
    for (std::size_t s = 0; s < point.rows.size(); ++s) {
      const StrategyFigures& figures = *point.rows[s].figures();
      const json& row = shown.at("rows")[s];
      EXPECT_EQ(made.data.at("strategies")[row.at("strategy").get<std::size_t>()], point.rows[s].strategy);
      EXPECT_EQ(row.at("median_ps"), figures.time_median.value());
      std::int64_t sum = 0;
      for (const json& amount : row.at("attribution_ps_sum")) sum += amount.get<std::int64_t>();
      EXPECT_EQ(sum, row.at("sum_ps"));
      EXPECT_THAT(row.at("kernels").at("rows"), SizeIs(figures.kernels.size()));
      EXPECT_GT(figures.kernels.size(), 1u);
    }
  }
}

// All picks of all samples: 2 samples of 1 and of 4 tokens, top 2.
TEST(ReportData, CountsEveryRowOfEveryExpert) {
  const Made made = make_data(tiny_request());
  for (const json& point : made.data.at("points")) {
    std::int64_t picks = 0, experts = 0;
    for (const json& bin : point.at("experts_by_rows")) {
      picks += bin[0].get<std::int64_t>() * bin[1].get<std::int64_t>();
      experts += bin[1].get<std::int64_t>();
    }
    EXPECT_EQ(picks, point.at("concurrency").get<std::int64_t>() * 2 * 2);
    EXPECT_DOUBLE_EQ(static_cast<double>(experts) / 2, point.at("distinct_experts").get<double>());
  }
}

TEST(ReportData, HasALadderWhoseRungsSum) {
  const Made made = make_data(tiny_request());
  ASSERT_THAT(made.data.at("ladders"), SizeIs(1));
  const json& ladder = made.data.at("ladders")[0];
  for (const char* order : {"rungs", "reverse_rungs"}) {
    std::int64_t gain = 0;
    for (const json& rung : ladder.at(order)) {
      gain += rung.at("slower_ps").get<std::int64_t>() - rung.at("faster_ps").get<std::int64_t>();
      EXPECT_NE(rung.at("title"), "");
    }
    EXPECT_EQ(gain, ladder.at("slower_ps").get<std::int64_t>() - ladder.at("faster_ps").get<std::int64_t>());
  }
}

TEST(ReportData, SaysWhyThereIsNoLadder) {
  const ConcurrencyRequest request = tiny_request();
  const ConcurrencyStudy study = run_concurrency_study(request);
  const json data = json::parse(report_data({.request = request,
                                             .study = study,
                                             .ladders = {Infeasible{"too wide"}},
                                             .measured = {},
                                             .memory_rates = {},
                                             .sensitivity = std::nullopt}));
  EXPECT_EQ(data.at("ladders")[0].at("reason"), "too wide");
}

TEST(ReportData, NamesEveryConstantOfTheDeviceAndItsSource) {
  ConcurrencyRequest request = tiny_request();
  apply_override(request.hardware, "hbm.bandwidth=6TB/s");
  request.overrides = {"hbm.bandwidth=6TB/s"};
  const Made made = make_data(request);
  std::size_t known = 0;
  for (const auto& constant : request.hardware.constants) known += constant.has_value() ? 1 : 0;
  const json& rows = made.data.at("inputs").at("device");
  EXPECT_THAT(rows, SizeIs(known));
  for (const json& row : rows) {
    EXPECT_NE(row.at("source"), "") << row;
    if (row.at("name") != "hbm.bandwidth") continue;
    EXPECT_EQ(row.at("value"), "6 TB/s");
    EXPECT_EQ(row.at("kind"), "override");
  }
}

TEST(ReportData, HasWhatWasMeasured) {
  const Made made = make_data(tiny_request());
  const json& point = made.data.at("measured").at("points").at(0);
  EXPECT_EQ(made.data.at("strategies")[point.at("strategy").get<std::size_t>()], "stream_gemv");
  EXPECT_EQ(point.at("us"), 12.5);
  EXPECT_EQ(point.at("place"), "rows.jsonl:7");
}

TEST(ReportData, HasTheMemorysRateWhereItIsKnown) {
  const json points = make_data(tiny_request()).data.at("points");
  EXPECT_FALSE(points[0].at("rows")[1].contains("memory_rate"));
  EXPECT_FALSE(points[1].at("rows")[0].contains("memory_rate"));
  EXPECT_EQ(points[1].at("rows")[1].at("memory_rate"),
            (json{{"step_ps", 500}, {"peak_tb_per_s", 4.0}, {"tb_per_s", {1.0, 2.0}}}));
}

TEST(ReportData, SaysPlainlyWhatIsNotFitted) {
  ConcurrencyRequest request = tiny_request();
  EXPECT_EQ(make_data(request).data.at("calibrated"), false);
  request.calibration = calibration_of_device("h200");
  const json data = make_data(request).data;
  EXPECT_EQ(data.at("calibrated"), true);
  ASSERT_THAT(data.at("accuracy"), SizeIs(2));
  for (const json& row : data.at("accuracy")) {
    EXPECT_GT(row.at("rows").get<int>(), 0);
    EXPECT_GT(row.at("p95_abs_pct").get<double>(), row.at("median_abs_pct").get<double>());
  }
  EXPECT_FALSE(data.at("inputs").at("fitted").empty());
}

TEST(ReportData, TakesNamesThatAreNoUtf8) {
  ConcurrencyRequest request = tiny_request();
  request.model.name =
      "a\xff"
      "b";
  EXPECT_EQ(make_data(request).data.at("model"),
            "a\uFFFD"
            "b");
}

TEST(ReportData, IsTheSameEachTime) {
  const Made one = make_data(tiny_request()), two = make_data(tiny_request());
  EXPECT_EQ(one.data.dump(), two.data.dump());
}

// -------------------------------------------------------------------------------------------------------- page

std::size_t count(const std::string& text, const std::string& piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

TEST(ReportPage, HoldsTheTextsAsText) {
  const std::string page = report_page("a <b> & {{data}}", R"({"name":"</script><script>{{title}}"})");
  EXPECT_THAT(page, HasSubstr("<title>a &lt;b&gt; &amp; {{data}}</title>"));
  EXPECT_THAT(page, HasSubstr(R"({"name":"\u003c/script>\u003cscript>{{title}}"})"));
  EXPECT_EQ(count(page, "</script>"), 3u);  // data, library, scripts
  EXPECT_EQ(count(page, "<script"), 3u);
}

TEST(ReportPage, EveryLimitHasALookOfItsOwn) {
  const std::string page = report_page("t", "{}");
  const std::size_t looks = page.find("const kEffectLooks = {");
  ASSERT_NE(looks, std::string::npos);
  const std::string table = page.substr(looks, page.find("};", looks) - looks);
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    EXPECT_THAT(table, HasSubstr(std::string(blame_key(static_cast<Blame>(b))) + ": ["));
  }
}

TEST(ReportPage, IsOneFileWithoutANetwork) {
  const std::string page = report_page("t", "{}");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("Mike Bostock"));
  EXPECT_THAT(page, HasSubstr("Redistribution and use in source and binary forms"));
  for (const char* outside : {" src=", "@import", "url(http", "<link", "<iframe"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

}  // namespace
}  // namespace moesim
