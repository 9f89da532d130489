// moesim report: a page whole or not at all. What the page shows is seen by tests/report.
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
using testing::SizeIs;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

Arguments small(const Arguments& more) {
  return joined({"report", "--model", "mixtral-8x7b", "--concurrency", "1,4", "--samples", "2"}, more);
}

json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

json report_of(const Arguments& more) {
  const std::string path = temp_file("page.html", "");
  Arguments arguments = small(more);
  arguments.insert(arguments.end(), {"--out", path});
  EXPECT_EQ(successful_output(arguments), path + "\n");
  return data_of(file_text(path));
}

TEST(Report, WritesOnePageAndNamesIt) {
  const std::string folder = temp_folder();
  const CommandOutput run = run_moesim(small({}), folder);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.output, "report.html\n");
  EXPECT_TRUE(std::filesystem::exists(folder + "report.html"));
  EXPECT_FALSE(std::filesystem::exists(folder + "report.html.part"));
}

TEST(Report, SameInputSameBytes) {
  const std::string one = temp_file("one.html", ""), two = temp_file("two.html", "");
  successful_output(small({"--out", one}));
  successful_output(small({"--out", two}));
  EXPECT_EQ(file_text(one), file_text(two));
  EXPECT_THAT(file_text(one), StartsWith("<!DOCTYPE html>"));
}

TEST(Report, HasTheTimesOfRun) {
  const json data = report_of({});
  const json study = successful_json({"run", "--model", "mixtral-8x7b", "--concurrency", "1,4", "--samples", "2"});
  std::size_t i = 0;
  for (const json& point : data.at("points")) {
    for (const json& row : point.at("rows")) {
      EXPECT_EQ(row.at("median_ps"), study.at("rows")[i].at("time_ps_median"));
      ++i;
    }
  }
  EXPECT_EQ(i, study.at("rows").size());
}

TEST(Report, ClimbsTheLadderAtEachConcurrency) {
  EXPECT_THAT(report_of({}).at("ladders"), SizeIs(2));
  const json data = report_of({"--ladder", "gather_gemv,stream_gemv"});
  for (const json& ladder : data.at("ladders")) {
    EXPECT_EQ(ladder.at("slower"), "gather_gemv");
    EXPECT_EQ(ladder.at("faster"), "stream_gemv");
  }
  EXPECT_EQ(data.at("ladders")[1].at("concurrency"), 4);
}

TEST(Report, OfOneStrategyHasNoLadder) {
  EXPECT_THAT(report_of({"--strategy", "grouped_gemm"}).at("ladders"), IsEmpty());
}

TEST(Report, TakesATraceAsRouting) {
  const std::string trace = npy_file("picks.npy", "3, 4, 2", {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 0, 1,  //
                                                              0, 1, 0, 2, 1, 2, 3, 4, 5, 6, 7, 0});
  const std::string page = temp_file("page.html", "");
  successful_output({"report", "--model", "mixtral-8x7b", "--routing", "trace:" + trace, "--out", page});
  const json data = data_of(file_text(page));
  EXPECT_EQ(data.at("samples"), 3);
  EXPECT_EQ(data.at("points")[0].at("concurrency"), 4);
}

TEST(Report, KeepsTheKernelsOfAStepAtItsFirstConcurrency) {
  const json data = report_of({"--scope", "step", "--layers", "2", "--strategy", "grouped_gemm,stream_gemv"});
  EXPECT_TRUE(data.at("points")[0].at("rows")[0].contains("kernels"));
  EXPECT_FALSE(data.at("points")[1].at("rows")[0].contains("kernels"));
  EXPECT_THAT(data.at("parts"), SizeIs(9));
  EXPECT_THAT(data.at("ladders"), SizeIs(1));
}

// So that a page of very many concurrencies stays small.
TEST(Report, KeepsTheKernelsOfAtMostSixteenConcurrencies) {
  for (const auto& [list, last] : {std::pair("1-16", true), std::pair("1-17", false)}) {
    const std::string page = temp_file("page.html", "");
    successful_output({"report", "--model", "mixtral-8x7b", "--samples", "1", "--strategy", "grouped_gemm,stream_gemv",
                       "--concurrency", list, "--out", page});
    const json data = data_of(file_text(page));
    EXPECT_TRUE(data.at("points").front().at("rows")[0].contains("kernels"));
    EXPECT_EQ(data.at("points").back().at("rows")[0].contains("kernels"), last) << list;
    EXPECT_EQ(data.at("points").back().at("rows")[0].contains("memory_rate"), last) << list;
    EXPECT_THAT(data.at("ladders"), SizeIs(last ? 16 : 1));
  }
}

TEST(Report, ShowsMeasuredRowsOfThisLayer) {
  const std::string rows = temp_file(
      "rows.jsonl",
      R"({"schema":"moesim.measurement/2","kind":"moe","device":"h200","model":{"name":"mixtral-8x7b","hidden":4096,)"
      R"("intermediate":14336,"experts":8,"topk":2,"gated":true},"tp":1,"ep":1,"weights":"bf16","activations":"bf16",)"
      R"("tokens":4,"routing":"uniform","mean_active_experts":5.5,"routed_trace":"none.npy","strategy":"grouped_gemm",)"
      R"("implementation":{"name":"mine"},"launch":"graph","scope":"expert_ffn","stage":"total","us":321.5})"
      "\n");
  const json measured = report_of({"--measured", rows, "--scope", "expert_ffn"}).at("measured");
  ASSERT_THAT(measured.at("points"), SizeIs(1));
  EXPECT_EQ(measured.at("points")[0].at("us"), 321.5);
  const json none = report_of({"--measured", rows}).at("measured");
  EXPECT_THAT(none.at("points"), IsEmpty());
  EXPECT_EQ(none.at("left_out")[0], (json{{"reason", "of scope expert_ffn"}, {"rows", 1}}));
}

TEST(Report, OfNothingFeasibleWritesNothing) {
  const std::string path = temp_folder() + "page.html";
  EXPECT_THAT(error_line_of({"report", "--scope", "step", "--device", "l4", "--out", path}, 3),
              HasSubstr("no strategy is feasible: weights"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Report, LeavesAnOldPageWhereTheInputIsWrong) {
  const std::string path = temp_file("page.html", "old");
  EXPECT_THAT(error_line_of(small({"--out", path, "--measured", path + ".none"}), 2), HasSubstr("page.html.none"));
  EXPECT_EQ(file_text(path), "old");
}

TEST(Report, RefusesWhatItCannotWriteBeforeItWorks) {
  EXPECT_THAT(error_line_of(small({"--out", temp_folder() + "none/page.html"}), 2), HasSubstr("--out"));
  EXPECT_THAT(error_line_of(small({"--out", temp_folder()}), 2), HasSubstr("--out"));
}

TEST(Report, RefusesBrokenMeasurements) {
  const std::string rows = temp_file("rows.jsonl", "{\"schema\":\"moesim.measurement/2\",\"kind\":\"moe\"}\n");
  EXPECT_THAT(error_line_of(small({"--measured", rows}), 2), HasSubstr("rows.jsonl:1"));
}

TEST(Report, RefusesLaddersOfUnknownStrategies) {
  EXPECT_THAT(error_line_of(small({"--ladder", "grouped_gem,stream_gemv"}), 2), HasSubstr("grouped_gemm"));
  EXPECT_THAT(error_line_of(small({"--ladder", "grouped_gemm"}), 2), HasSubstr("--ladder"));
}

TEST(Report, HasNoFormats) { EXPECT_THAT(error_line_of(small({"--format", "json"}), 2), HasSubstr("--format")); }

}  // namespace
}  // namespace moesim
