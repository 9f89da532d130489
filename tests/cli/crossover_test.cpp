// moesim sweep --crossover: borders, maps, dispatch tables, and what is refused.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

Arguments crossover(const std::string& axis, const Arguments& more) {
  return joined({"sweep", "--crossover", axis, "--model", "qwen3-30b-a3b", "--strategy", "stream_gemv,grouped_gemm",
                 "--samples", "2", "--scope", "expert_ffn"},
                more);
}

json study_of(const std::string& axis, const Arguments& more) { return successful_json(crossover(axis, more)); }

// What `run` says on both sides of the border is what the border says.
TEST(Crossover, LiesBetweenTwoWinnersOfRun) {
  const json study = study_of("concurrency=1..64", {});
  ASSERT_THAT(study.at("lines"), SizeIs(1));
  const json& line = study.at("lines")[0];
  bool found = false;
  for (std::size_t i = 1; i < line.at("places").size(); ++i) {
    const json &before = line.at("places")[i - 1], &after = line.at("places")[i];
    if (before.at("winner") == after.at("winner")) continue;
    found = true;
    EXPECT_EQ(after.at("tokens").get<int>(), before.at("tokens").get<int>() + 1);
    const json run = successful_json({"run", "--model", "qwen3-30b-a3b", "--strategy", "stream_gemv,grouped_gemm",
                                      "--samples", "2", "--scope", "expert_ffn", "--concurrency",
                                      before.at("at").get<std::string>() + "," + after.at("at").get<std::string>()});
    ASSERT_THAT(run.at("rows"), SizeIs(4));
    EXPECT_EQ(run.at("verdict")[0].at("winner"), before.at("winner"));
    EXPECT_EQ(run.at("verdict")[1].at("winner"), after.at("winner"));
    EXPECT_EQ(run.at("rows")[0].at("time_ps_median"), before.at("times_ps")[0]);
    EXPECT_EQ(run.at("rows")[3].at("time_ps_median"), after.at("times_ps")[1]);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(line.at("places").back().at("winner"), "grouped_gemm");
  EXPECT_THAT(line.at("sentence").get<std::string>(), HasSubstr("under the predicted error"));
}

TEST(Crossover, OfAnAxisOfRealNumbers) {
  const json study = study_of("hbm.bandwidth=1..20TB/s", {"--concurrency", "8"});
  const json& places = study.at("lines")[0].at("places");
  EXPECT_EQ(places.front().at("at"), "1 TB/s");
  EXPECT_EQ(places.back().at("at"), "20 TB/s");
  for (std::size_t i = 1; i < places.size(); ++i) {
    EXPECT_LT(places[i - 1].at("number").get<double>(), places[i].at("number").get<double>());
    EXPECT_GE(places[i - 1].at("times_ps")[1].get<double>() * 1.01, places[i].at("times_ps")[1].get<double>());
  }
}

TEST(Crossover, MapHasALineForEachPointOfTheGrid) {
  const Arguments more = {"--vary", "experts=64,128", "--vary", "launch=graph,stream"};
  const json study = study_of("concurrency=1..16", more);
  EXPECT_EQ(study.at("line_axes"), (json{"experts", "launch"}));
  ASSERT_THAT(study.at("lines"), SizeIs(4));
  EXPECT_EQ(study.at("lines")[1].at("coordinates"), (json{{"experts", "64"}, {"launch", "stream"}}));
  Arguments one = crossover("concurrency=1..16", {"--model-override", "experts=128", "--launch", "stream"});
  EXPECT_EQ(successful_json(one).at("lines")[0].at("places"), study.at("lines")[3].at("places"));
}

TEST(Crossover, DrawsAndListsTheSameStudy) {
  const std::string svg = successful_output(crossover("concurrency=1..16", {"--format", "svg"}));
  EXPECT_THAT(svg, AllOf(StartsWith("<svg "), EndsWith("</svg>\n"), HasSubstr("grouped_gemm")));
  const std::string csv = successful_output(crossover("concurrency=1..16", {"--format", "csv"}));
  EXPECT_THAT(csv, StartsWith("concurrency,tokens,"));
  const std::string page = temp_folder() + "page.html";
  const std::string table = successful_output(crossover("concurrency=1..16", {"--html", page}));
  EXPECT_THAT(table, HasSubstr("verdict"));
  EXPECT_THAT(file_text(page), StartsWith("<!DOCTYPE html>"));
}

// ------------------------------------------------------------------------------------------------ dispatch tables

bool has(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Dispatch, HeaderIsCAndCxxAndSaysWhatTheTableSays) {
  const std::string folder = temp_folder();
  successful_output(
      crossover("concurrency=1..256", {"--dispatch", folder + "my-table.json", "--dispatch", folder + "my-table.h"}));
  const json table = json::parse(file_text(folder + "my-table.json"));
  EXPECT_EQ(table.at("schema"), "moesim.dispatch/1");
  EXPECT_EQ(table.at("by"), "tokens");
  EXPECT_EQ(table.at("reference"), "grouped_gemm");
  const json& entries = table.at("entries");
  ASSERT_GE(entries.size(), 2U);
  EXPECT_EQ(entries.front().at("from"), 1);
  EXPECT_EQ(entries.back().at("to"), 256);
  for (std::size_t i = 1; i < entries.size(); ++i)
    EXPECT_EQ(entries[i].at("from"), entries[i - 1].at("to").get<int>() + 1);
  EXPECT_TRUE(entries.back().at("parameters").contains("block_m"));
  EXPECT_GT(entries.front().at("confidence").at("least"), 0.4);

  if (!has("gcc") || !has("g++")) GTEST_SKIP() << "no compiler at hand";
  const std::string source =
      temp_file("lookup.c",
                "#include <stdio.h>\n#include \"my-table.h\"\n#include \"my-table.h\"\n"
                "int main(void) {\n  long n;\n"
                "  for (n = 0; n <= 300; ++n) {\n    const my_table_entry *e = my_table_lookup(n);\n"
                "    printf(\"%ld %s %ld %.6g\\n\", n, e->text, e->block_m, e->confidence);\n  }\n"
                "  return MY_TABLE_STREAM_GEMV == my_table_table[0].strategy ? 0 : 1;\n}\n");
  for (const char* compiler :
       {"gcc -std=c99 -Wall -Wextra -Wpedantic -Werror", "g++ -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror"}) {
    const std::string binary = folder + "lookup", listing = folder + "listing.txt";
    ASSERT_EQ(std::system((std::string(compiler) + " -o '" + binary + "' '" + source + "'").c_str()), 0) << compiler;
    ASSERT_EQ(std::system(("'" + binary + "' > '" + listing + "'").c_str()), 0);
    std::istringstream lines(file_text(listing));
    int n = 0;
    for (std::string line; std::getline(lines, line); ++n) {
      const json* entry = &entries.front();
      for (const json& e : entries) {
        if (e.at("from") <= n) entry = &e;
      }
      EXPECT_THAT(line, StartsWith(std::to_string(n) + " " + entry->at("strategy").get<std::string>()));
      const json& tile = entry->at("parameters");
      EXPECT_THAT(line, HasSubstr(" " + std::to_string(tile.value("block_m", -1)) + " ")) << line;
    }
    EXPECT_EQ(n, 301);
  }
}

TEST(Dispatch, ByDistinctExperts) {
  const std::string file = temp_folder() + "table.json";
  successful_output(
      crossover("concurrency=1..64", {"--dispatch", file, "--by", "distinct_experts", "--reference", "stream_gemv"}));
  const json table = json::parse(file_text(file));
  EXPECT_EQ(table.at("by"), "distinct_experts");
  EXPECT_EQ(table.at("reference"), "stream_gemv");
  EXPECT_EQ(table.at("entries").front().at("from"), 8);  // of one token: top-k
  EXPECT_LE(table.at("entries").back().at("to"), 128);
  EXPECT_EQ(table.at("entries").front().at("gain_over_reference").at("least"), 1);
}

TEST(Dispatch, WithoutAnErrorConfidenceIsNotKnown) {
  const std::string file = temp_folder() + "table.json";
  successful_output(crossover("concurrency=1..8", {"--device", "b200", "--dispatch", file}));
  EXPECT_TRUE(json::parse(file_text(file)).at("entries")[0].at("confidence").is_null());
  successful_output(crossover("concurrency=1..8", {"--device", "b200", "--dispatch", file, "--error", "10%"}));
  const json assumed = json::parse(file_text(file));
  EXPECT_EQ(assumed.at("assumed_error"), 0.1);
  EXPECT_GT(assumed.at("entries")[0].at("confidence").at("least"), 0.3);
}

TEST(Crossover, SameBytesOnOneCoreAndOnAll) {
  if (!has("taskset")) GTEST_SKIP() << "no taskset at hand";
  const Arguments arguments = crossover("concurrency=1..32", {"--format", "json", "--vary", "topk=4,8"});
  const std::string listing = temp_folder() + "one.json";
  std::string command = "taskset -c 0 '" + std::string(MOESIM_BINARY) + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  const int status = std::system((command + " > '" + listing + "' 2>&1").c_str());
  if (status != 0) GTEST_SKIP() << "core 0 is not ours: " << file_text(listing);
  EXPECT_EQ(file_text(listing), successful_output(arguments));
}

TEST(Crossover, RefusesWrongInput) {
  const auto refused = [](const std::string& axis, const Arguments& more) {
    return error_line_of(crossover(axis, more));
  };
  EXPECT_THAT(refused("concurency=1..8", {}), HasSubstr("concurrency"));
  EXPECT_THAT(refused("device=h200,b200", {}), HasSubstr("an axis of numbers"));
  EXPECT_THAT(refused("hbm.bandwidth", {}), HasSubstr("LO..HI"));
  EXPECT_THAT(refused("concurrency=8..8", {}), HasSubstr("--crossover"));
  EXPECT_THAT(refused("concurrency=0..8", {}), HasSubstr("--crossover"));
  EXPECT_THAT(refused("concurrency", {"--vary", "concurrency=1,2"}), HasSubstr("--vary"));
  EXPECT_THAT(refused("concurrency", {"--concurrency", "4"}), HasSubstr("--concurrency"));
  EXPECT_THAT(refused("hbm.bandwidth=3..6TB/s", {"--concurrency", "1,2"}), HasSubstr("one, beside an axis"));
  EXPECT_THAT(refused("concurrency", {"--strategy", "auto"}), HasSubstr("auto"));
  EXPECT_THAT(refused("concurrency", {"--format", "html"}), HasSubstr("--format"));
  EXPECT_THAT(refused("concurrency", {"--error", "ten"}), HasSubstr("--error"));
  EXPECT_THAT(refused("concurrency", {"--by", "tokens"}), HasSubstr("--dispatch"));
  EXPECT_THAT(refused("concurrency", {"--out", "x.csv"}), HasSubstr("--out"));
  const std::string trace = npy_file("picks.npy", "1, 1, 8", {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(error_line_of({"sweep", "--crossover", "concurrency", "--model", "qwen3-30b-a3b", "--strategy",
                             "stream_gemv,grouped_gemm", "--routing", "trace:" + trace}),
              HasSubstr("the tokens of a trace do not vary"));
  EXPECT_THAT(error_line_of({"sweep", "--html", "page.html"}), HasSubstr("--crossover AXIS"));
}

TEST(Dispatch, RefusesWrongInputAndWritesNothing) {
  const std::string file = temp_folder() + "table.json";
  const auto refused = [&](const std::string& axis, const Arguments& more) {
    const std::string said = error_line_of(crossover(axis, more));
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_FALSE(std::filesystem::exists(file + ".part"));
    return said;
  };
  EXPECT_THAT(refused("hbm.bandwidth=3..6TB/s", {"--dispatch", file, "--concurrency", "4"}),
              HasSubstr("--crossover concurrency alone"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", file, "--vary", "topk=4,8"}), HasSubstr("--dispatch"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", file + "x"}), HasSubstr("NAME.json or NAME.h"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", file, "--by", "tokn"}), HasSubstr("tokens"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", file, "--reference", "grouped"}), HasSubstr("grouped_gemm"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", file, "--dispatch", file}), HasSubstr("each file once"));
  EXPECT_THAT(refused("concurrency", {"--dispatch", temp_folder() + "none/table.h"}), HasSubstr("--dispatch"));
}

TEST(Crossover, OfNothingFeasibleSaysWhy) {
  EXPECT_THAT(error_line_of({"sweep", "--crossover", "concurrency=1..4", "--device", "h200", "--strategy", "tpu_gmm",
                             "--samples", "1"},
                            3),
              HasSubstr("no strategy is feasible"));
}

}  // namespace
}  // namespace moesim
