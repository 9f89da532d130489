// moesim sweep: rows, order, threads, going on after a kill, and input that is wrong.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

// A small model; points of a few milliseconds.
const Arguments kSmall = {
    "sweep", "--model", "olmoe-1b-7b", "--samples", "1", "--strategy", "grouped_gemm,stream_gemv", "--uncalibrated"};

Arguments small_with(const Arguments& more) { return joined(kSmall, more); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Rows of JSON Lines, without the first line.
std::vector<json> rows_of(const Arguments& more) {
  std::vector<json> rows;
  const std::string output = successful_output(small_with(more));
  for (const std::string& line : lines_of(output)) rows.push_back(json::parse(line));
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

std::string refused(const Arguments& arguments) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.output << run.errors;
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_EQ(lines_of(run.errors).size(), 1U) << run.errors;
  return run.errors;
}

TEST(Sweep, RowPerPointAndStrategyInTheGridsOrder) {
  const std::vector<json> rows =
      rows_of({"--vary", "device=h200,b200", "--vary", "concurrency=1,2", "--format", "jsonl"});
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("point"), i / 2);
    EXPECT_EQ(rows[i].at("device"), i < 4 ? "h200" : "b200");
    EXPECT_EQ(rows[i].at("concurrency"), i / 2 % 2 + 1);
    EXPECT_EQ(rows[i].at("strategy"), i % 2 == 0 ? "grouped_gemm" : "stream_gemv");
  }
}

// Each row is what `run` says of that point alone.
TEST(Sweep, PointsAreRunsOfTheirOwn) {
  const std::vector<json> rows =
      rows_of({"--vary", "hbm.bandwidth=3..6TB/s:3", "--vary", "grouped_gemm.block_m=16,32", "--vary", "experts=32,64",
               "--concurrency", "3", "--routing", "zipf:0.6", "--format", "jsonl"});
  ASSERT_EQ(rows.size(), 24U);
  const json& row = rows[2 * (1 * 4 + 1 * 2 + 0)];
  EXPECT_EQ(row.at("hbm.bandwidth"), "4.5 TB/s");
  EXPECT_EQ(row.at("strategy"), "grouped_gemm:block_m=32");
  const json study =
      successful_json({"run", "--model", "olmoe-1b-7b", "--samples", "1", "--strategy",
                       "grouped_gemm:block_m=32,stream_gemv", "--uncalibrated", "--set", "hbm.bandwidth=4.5TB/s",
                       "--model-override", "experts=32", "--concurrency", "3", "--routing", "zipf:0.6"});
  const json& alone = study.at("rows").at(0);
  for (const char* key :
       {"time_us_median", "time_us_p95", "bound_us_median", "distinct_experts_mean", "duplicate_share_mean",
        "memory_read_bytes_mean", "achieved_tb_per_s", "limited_by", "winner"}) {
    EXPECT_EQ(row.at(key), alone.at(key)) << key;
  }
}

TEST(Sweep, EveryFlagThatIsAnAxisTakesItsValues) {
  const std::vector<Arguments> axes = {{"model=olmoe-1b-7b"},
                                       {"device=h200"},
                                       {"concurrency=2"},
                                       {"strategy=stream_gemv"},
                                       {"routing=balanced"},
                                       {"tokens_per_request=2"},
                                       {"domains=2", "routing=zipf:1"},
                                       {"weights=fp8"},
                                       {"other_weights=fp8"},
                                       {"activations=bf16"},
                                       {"tp=2"},
                                       {"ep=2"},
                                       {"launch=stream"},
                                       {"clock=1.5GHz"},
                                       {"samples=2"},
                                       {"seed=7"}};
  for (const Arguments& names : axes) {
    Arguments more = {"--format", "jsonl"};
    if (!names.front().starts_with("concurrency")) more.insert(more.end(), {"--concurrency", "2"});
    for (const std::string& name : names) more.insert(more.end(), {"--vary", name});
    for (const json& row : rows_of(more)) EXPECT_TRUE(row.at("infeasible").is_null()) << names.front() << row.dump();
  }
  for (const json& row : rows_of({"--vary", "context=100,1000", "--vary", "kv_dtype=fp8", "--scope", "step",
                                  "--concurrency", "1", "--layers", "2", "--format", "jsonl"})) {
    EXPECT_GT(row.at("tokens_per_s").get<double>(), 0) << row.dump();
  }
}

TEST(Sweep, KeepRescalesAndSaysSo) {
  const std::vector<json> rows =
      rows_of({"--vary", "experts=32,64,128,60", "--keep", "total", "--concurrency", "1", "--format", "jsonl"});
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[0].at("model_intermediate"), 2048);
  EXPECT_EQ(rows[2].at("model_intermediate"), 1024);
  EXPECT_EQ(rows[4].at("model_intermediate"), 512);
  EXPECT_EQ(rows[4].at("model_overrides"), "experts=128 topk=8 intermediate=512");
  EXPECT_THAT(rows[6].at("infeasible").dump(),
              HasSubstr("total parameters would change by +5.5 %"));  // 1152 for 1092.3
}

TEST(Sweep, PointsThatMakeNoSenseAreRowsWithTheirReason) {
  const std::vector<json> rows =
      rows_of({"--vary", "experts=4,64", "--vary", "device=h200,tpu7x", "--concurrency", "1", "--format", "jsonl"});
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_THAT(rows[0].at("infeasible").dump(), HasSubstr("at most 4 (experts)"));
  EXPECT_TRUE(rows[0].at("strategy").is_null());
  EXPECT_TRUE(rows[0].at("time_us_median").is_null());
  EXPECT_TRUE(rows[2].at("infeasible").is_null());
  EXPECT_EQ(rows[4].at("device"), "tpu7x");
  EXPECT_FALSE(rows[4].at("infeasible").is_null());
}

// The law's number is found anew for each model.
TEST(Sweep, MatchedRoutingIsOfEachPoint) {
  const std::vector<json> rows =
      rows_of({"--vary", "experts=32,64", "--match", "duplicates=30%@3", "--routing", "lognormal", "--concurrency", "3",
               "--format", "jsonl", "--model-override", "moe_layers=2"});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(rows[0].at("routing").dump(), HasSubstr("lognormal:"));
  EXPECT_THAT(rows[0].at("routing").dump(), HasSubstr("over 2 layers"));
  EXPECT_NE(rows[0].at("routing"), rows[2].at("routing"));
}

TEST(Sweep, CsvSaysTheSameAsJsonLines) {
  const Arguments grid = {"--vary", "experts=4,32", "--vary", "hbm.bandwidth=3TB/s", "--concurrency", "1,2"};
  const std::vector<json> rows = [&] {
    Arguments more = grid;
    more.insert(more.end(), {"--format", "jsonl"});
    return rows_of(more);
  }();
  const std::vector<std::string> lines = lines_of(successful_output(small_with(grid)));
  ASSERT_EQ(lines.size(), rows.size() + 1);
  for (const auto& item : rows.back().items()) EXPECT_THAT(lines[0], HasSubstr(item.key()));
  EXPECT_THAT(lines[0], StartsWith("point,request,experts,hbm.bandwidth,concurrency,strategy,winner,time_us_median,"));
  EXPECT_THAT(lines.back(),
              StartsWith("3," + rows.back().at("request").get<std::string>() + ",32,3 TB/s,2,stream_gemv,"));
  EXPECT_THAT(lines.back(), HasSubstr(rows.back().at("time_us_median").dump()));
}

TEST(Sweep, SameBytesOnAnyNumberOfThreads) {
  const Arguments grid = {"--vary", "experts=32,64", "--concurrency", "1-6", "--vary", "launch=graph,stream"};
  const auto with_threads = [&](const char* threads) {
    Arguments arguments = small_with(grid);
    arguments.insert(arguments.end(), {"--threads", threads});
    return successful_output(arguments);
  };
  const std::string one = with_threads("1");
  EXPECT_EQ(lines_of(one).size(), 2U * 2 * 2 * 6 + 1);
  EXPECT_EQ(one, with_threads("2"));
  EXPECT_EQ(one, with_threads("7"));
}

TEST(Sweep, GridFileIsTheSameRequest) {
  const std::string folder = temp_folder();
  const std::string grid = temp_file("grid.json", R"({"schema": "moesim.grid/1", "vary": {"experts": [32, 64]}})");
  const std::string out = folder + "out.csv";
  EXPECT_THAT(successful_output(small_with({"--grid", grid, "--concurrency", "1", "--out", out})),
              HasSubstr("out.csv: 2 points, "));
  EXPECT_THAT(successful_output(small_with({"--vary", "experts=32,64", "--concurrency", "1", "--out", out})),
              HasSubstr("out.csv: 2 points, 1 of them there before, "));
}

// ---------------------------------------------------------------------------------------------------------- going on

class SweepGoesOn : public testing::TestWithParam<const char*> {};

TEST_P(SweepGoesOn, AfterAKillToTheSameBytes) {
  const std::string folder = temp_folder();
  const std::string out = folder + "out." + GetParam(), whole = folder + "whole." + GetParam();
  const auto sweep_to = [&](const std::string& path) {
    return small_with({"--vary", "experts=64,32", "--concurrency", "1-40", "--out", path});
  };
  StartedCommand started(sweep_to(out));
  while (!std::filesystem::exists(out) || std::filesystem::file_size(out) < 4000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  started.send(SIGKILL);
  EXPECT_EQ(started.wait().exit_code, 128 + SIGKILL);
  const std::string there = file_text(out);

  EXPECT_THAT(successful_output(sweep_to(whole)), HasSubstr(": 80 points, "));
  const std::string all = file_text(whole);
  EXPECT_LT(there.size(), all.size());
  EXPECT_THAT(all, StartsWith(there));
  EXPECT_THAT(successful_output(sweep_to(out)),
              MatchesRegex(".*: 80 points, [0-9]+ of them there before, [0-9]+ bytes\n"));
  EXPECT_EQ(file_text(out), all);
}

TEST_P(SweepGoesOn, WhereverTheFileWasLeft) {
  const std::string out = temp_folder() + "out." + GetParam();
  const Arguments sweep = small_with({"--vary", "experts=64,32", "--concurrency", "1", "--out", out});
  EXPECT_EQ(run_moesim(sweep).exit_code, 0);
  const std::string all = file_text(out);
  const std::size_t first_line = all.find('\n') + 1, second_line = all.find('\n', first_line) + 1;
  const std::size_t third_line = all.find('\n', second_line) + 1;
  for (const std::size_t bytes : {std::size_t{0}, first_line / 2, first_line, first_line + 3, second_line,
                                  second_line + 20, third_line, all.size() - 1, all.size()}) {
    std::ofstream(out, std::ios::binary) << all.substr(0, bytes);
    EXPECT_EQ(run_moesim(sweep).errors, "");
    EXPECT_EQ(file_text(out), all) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SweepGoesOn, testing::Values("csv", "jsonl"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Sweep, InterruptLeavesAFileToGoOnWith) {
  const std::string folder = temp_folder();
  const Arguments sweep = small_with({"--concurrency", "1-200", "--out", folder + "out.csv"});
  StartedCommand started(sweep);
  while (!std::filesystem::exists(folder + "out.csv") || std::filesystem::file_size(folder + "out.csv") < 2000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  started.send(SIGINT);
  const CommandOutput interrupted = started.wait();
  EXPECT_EQ(interrupted.exit_code, 130);
  EXPECT_THAT(interrupted.output, IsEmpty());
  EXPECT_THAT(interrupted.errors,
              MatchesRegex("moesim: interrupted after [0-9]+ of 200 points; the same command goes on from there\n"));
  const std::string text = file_text(folder + "out.csv");
  EXPECT_EQ(text.back(), '\n');
}

TEST(Sweep, GoesOnWithItsOwnFileOnly) {
  const std::string folder = temp_folder();
  const std::string out = folder + "out.csv";
  const std::string device = temp_file("mine.json", read_source_file("hwmodels/devices/h200.json"));
  const Arguments sweep =
      small_with({"--device", device, "--vary", "experts=32,64", "--concurrency", "1", "--out", out});
  EXPECT_EQ(run_moesim(sweep).exit_code, 0);
  const std::string all = file_text(out);
  const auto refused_with = [&](const Arguments& more) {
    Arguments arguments = sweep;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string errors = refused(arguments);
    EXPECT_THAT(errors, HasSubstr("is not of this sweep"));
    EXPECT_EQ(file_text(out), all);
  };
  refused_with({"--seed", "2"});
  refused_with({"--set", "hbm.bandwidth=4TB/s"});
  refused_with({"--vary", "tp=1,2"});
  refused_with({"--format", "jsonl"});
  // The device's file under the same name.
  const std::string text = read_source_file("hwmodels/devices/h200.json");
  temp_file("mine.json", text + "\n");
  refused_with({});
  temp_file("mine.json", text);
  // A line that is another sweep's, twice there, or missing.
  const std::vector<std::string> lines = lines_of(all);
  const auto write = [&](const std::vector<std::string>& some) {
    std::string joined;
    for (const std::string& line : some) joined += line + "\n";
    std::ofstream(out, std::ios::binary) << joined;
    const std::string errors = refused(sweep);
    EXPECT_EQ(file_text(out), joined);
    return errors;
  };
  EXPECT_THAT(write({"my notes"}), HasSubstr("its first line"));
  EXPECT_THAT(write({lines[0], lines[1], "my notes"}), HasSubstr("line 3"));
  EXPECT_THAT(write({lines[0], lines[3], lines[4]}), HasSubstr("line 2, of point 1,"));
  EXPECT_THAT(write({lines[0], lines[1], lines[2], lines[3], lines[1]}), HasSubstr("line 5, of point 0,"));
}

// -------------------------------------------------------------------------------------------------------- wrong input

TEST(Sweep, WrongInputAbortsBeforeTheStart) {
  const std::string folder = temp_folder();
  const auto error_with = [](const Arguments& more) { return refused(small_with(more)); };
  EXPECT_THAT(error_with({"--vary", "expert=32"}), HasSubstr("did you mean 'experts'?"));
  EXPECT_THAT(error_with({"--vary", "tp=1", "--vary", "tp=2"}), HasSubstr("'tp' a second time"));
  EXPECT_THAT(error_with({"--vary", "concurrency=1", "--concurrency", "2"}), HasSubstr("one of the two"));
  EXPECT_THAT(error_with({"--keep", "total"}), HasSubstr("none of experts, topk and intermediate is varied"));
  EXPECT_THAT(error_with({"--keep", "totl", "--vary", "experts=32"}), HasSubstr("did you mean 'total'?"));
  EXPECT_THAT(error_with({"--grid", folder + "none.json"}), HasSubstr("none.json"));
  EXPECT_THAT(error_with({"--format", "json"}), HasSubstr("did you mean 'jsonl'?"));
  EXPECT_THAT(error_with({"--threads", "0"}), HasSubstr("--threads"));
  EXPECT_THAT(error_with({"--out", folder}), HasSubstr("cannot be written"));
  EXPECT_THAT(error_with({"--out", "/dev/full"}), HasSubstr("no plain file"));
  EXPECT_THAT(error_with({"--ladder", "grouped_gemm,stream_gemv"}), HasSubstr("--ladder"));
  EXPECT_THAT(error_with({"--launch", "grph"}), HasSubstr("did you mean 'graph'?"));
  EXPECT_THAT(error_with({"--vary", "tpu_gmm.tile_n=128"}), HasSubstr("a device that tpu_gmm is for"));
  EXPECT_THAT(error_with({"--vary", "expert_loop.block_m=16"}), AllOf(HasSubstr("found"), HasSubstr("expected")));
  // Sizes that no point can have.
  EXPECT_THAT(error_with({"--vary", "topk=65,66"}), HasSubstr("at most 64"));
}

TEST(Sweep, MpirunWithoutMpiOrOfAnotherOneIsRefused) {
  const CommandOutput run = run_program({MOESIM_BINARY, "sweep", "--concurrency", "1"},
                                        {"PMI_RANK=0", "PMI_SIZE=2", "ASAN_OPTIONS=detect_leaks=0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, AllOf(HasSubstr("2 processes by mpirun"), HasSubstr("MPI")));
}

}  // namespace
}  // namespace moesim
