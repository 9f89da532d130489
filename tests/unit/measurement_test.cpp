#include "traces/measurement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kMicro = R"({"schema":"moesim.measurement/2","kind":"micro","benchmark":"graph_node","us":0.48})";

// A whole row; each test changes one place of it.
std::string moe_row() {
  return R"({"schema":"moesim.measurement/2","kind":"moe","device":"h200",)"
         R"("model":{"name":"toy","hidden":64,"intermediate":32,"experts":8,"topk":2,"gated":true},"tp":1,"ep":1,)"
         R"("weights":"bf16","activations":"bf16","tokens":3,"routing":"uniform","routed_trace":"routes/toy.npy",)"
         R"("mean_active_experts":4.5,"strategy":"stream_gemv",)"
         R"("implementation":{"name":"triton","up":{"block_n":2,"per":"token"},"fast":true,"scale":0.5,"tile":[16,64]},)"
         R"("launch":"graph","scope":"expert_ffn","stage":"total","us":12.5,"median_us":13,"p90_us":14.25,)"
         R"("sm_mhz":1980,"power_capped":true,)"
         R"("kernels":[{"name":"up","grid":[2,32,1],"block":[128,1,1],"registers":64,"shared_bytes":1024,"count":2},)"
         R"({"name":"down","grid":[384],"block":256,"cluster":[2,1,1]}]})";
}

std::string with(const std::string& from, const std::string& to) {
  std::string row = moe_row();
  const std::size_t at = row.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return row.replace(at, from.size(), to);
}

std::string write_file(const std::string& text) {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = testing::TempDir() + "measurement_" + test + ".jsonl";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::vector<MoeMeasurement> read(const std::string& text) { return read_measurements(write_file(text)); }

InputProblem problem_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "no InputError for " << text;
  return {};
}

TEST(Measurement, ReadsEveryField) {
  const auto rows = read(moe_row() + "\n");
  ASSERT_THAT(rows, SizeIs(1));
  const MoeMeasurement& m = rows[0];
  EXPECT_EQ(m.line, 1);
  EXPECT_EQ(m.device, "h200");
  EXPECT_EQ(m.model_name, "toy");
  EXPECT_EQ(m.hidden, 64);
  EXPECT_EQ(m.intermediate, 32);
  EXPECT_EQ(m.experts, 8);
  EXPECT_EQ(m.topk, 2);
  EXPECT_TRUE(m.gated);
  EXPECT_EQ(m.tp, 1);
  EXPECT_EQ(m.ep, 1);
  EXPECT_EQ(m.weights, "bf16");
  EXPECT_EQ(m.activations, "bf16");
  EXPECT_EQ(m.tokens, 3);
  EXPECT_EQ(m.routing, "uniform");
  EXPECT_EQ(m.mean_active_experts, 4.5);
  EXPECT_EQ(m.strategy, "stream_gemv");
  EXPECT_EQ(m.implementation, "triton");
  EXPECT_EQ(m.launch, "graph");
  EXPECT_EQ(m.scope, "expert_ffn");
  EXPECT_EQ(m.stage, "total");
  EXPECT_EQ(m.us, 12.5);
  EXPECT_EQ(m.p90_us, 14.25);
  EXPECT_EQ(m.sm_mhz, 1980.0);
  EXPECT_TRUE(m.power_capped);
}

TEST(Measurement, ParametersAreFlattened) {
  EXPECT_THAT(read(moe_row())[0].parameters,
              UnorderedElementsAre(Pair("up.block_n", "2"), Pair("up.per", "token"), Pair("fast", "true"),
                                   Pair("scale", "0.5"), Pair("tile.0", "16"), Pair("tile.1", "64")));
  EXPECT_THAT(
      read(with(R"(,"up":{"block_n":2,"per":"token"},"fast":true,"scale":0.5,"tile":[16,64])", ""))[0].parameters,
      IsEmpty());
}

TEST(Measurement, KernelsHaveTheirGridMultiplied) {
  const auto kernels = read(moe_row())[0].kernels;
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_EQ(kernels[0].name, "up");
  EXPECT_EQ(kernels[0].grid, 64);
  EXPECT_EQ(kernels[0].block, 128);
  EXPECT_EQ(kernels[0].registers, 64);
  EXPECT_EQ(kernels[0].shared_bytes, 1024);
  EXPECT_EQ(kernels[0].cluster, 1);
  EXPECT_EQ(kernels[0].count, 2);
  EXPECT_EQ(kernels[1].grid, 384);
  EXPECT_EQ(kernels[1].block, 256);
  EXPECT_EQ(kernels[1].cluster, 2);
  EXPECT_EQ(kernels[1].count, 1);
}

TEST(Measurement, RoutedTraceIsFoundBesideTheFile) {
  EXPECT_EQ(read(moe_row())[0].routed_trace, testing::TempDir() + "routes/toy.npy");
  EXPECT_EQ(read(with("routes/toy.npy", "/data/toy.npy"))[0].routed_trace, "/data/toy.npy");
}

TEST(Measurement, WhatFollowsTheTimeIsOptional) {
  std::string row = moe_row();
  row.erase(row.find(R"(,"median_us")"));
  const auto rows = read(row + "}");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_FALSE(rows[0].p90_us.has_value());
  EXPECT_FALSE(rows[0].sm_mhz.has_value());
  EXPECT_FALSE(rows[0].power_capped);
  EXPECT_THAT(rows[0].kernels, IsEmpty());
}

TEST(Measurement, UnknownKeysPass) {
  EXPECT_THAT(read(with(R"("tp":1)", R"("tp":1,"weather":{"x":[1]})")), SizeIs(1));
  EXPECT_THAT(read(with(R"("registers":64)", R"("registers":64,"spills":0)")), SizeIs(1));
}

TEST(Measurement, MicroRowsAreCheckedAndSkipped) {
  const auto rows = read(std::string(kMicro) + "\n" + moe_row() + "\r\n" + kMicro + "\n" + moe_row());
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].line, 2);
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(problem_of(R"({"schema":"moesim.measurement/2","kind":"micro","us":1})").found, "no key 'benchmark'");
}

TEST(Measurement, BlankLastLineIsFineABlankLineBetweenIsNot) {
  EXPECT_THAT(read(moe_row() + "\n\n"), SizeIs(1));
  EXPECT_THAT(problem_of(moe_row() + "\n\n" + moe_row()).file, HasSubstr(".jsonl:2"));
}

TEST(Measurement, EmptyOrMissingFile) {
  EXPECT_EQ(problem_of("").found, "an empty file");
  EXPECT_EQ(problem_of("\n \n").found, "an empty file");
  EXPECT_THROW(read_measurements("/no/such/file.jsonl"), InputError);
}

TEST(Measurement, ErrorsNameFileLineAndPointer) {
  const std::string bad = with(R"("hidden":64)", R"("hidden":"64")");
  const std::string path = write_file(moe_row() + "\n" + kMicro + "\n" + bad + "\n");
  try {
    read_measurements(path);
    FAIL() << "no InputError";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().file, path + ":3");
    EXPECT_EQ(error.problem().where, "/model/hidden");
    EXPECT_EQ(error.problem().found, "string '64'");
  }
}

TEST(Measurement, OtherSchemaSaysWhatWasFound) {
  const InputProblem problem = problem_of(with("measurement/2", "measurement/1"));
  EXPECT_EQ(problem.where, "/schema");
  EXPECT_EQ(problem.found, "string 'moesim.measurement/1'");
  EXPECT_THAT(problem.expected, HasSubstr("moesim.measurement/2"));
  EXPECT_EQ(problem_of("{}").found, "no key 'schema'");
}

TEST(Measurement, LinesThatAreNotObjects) {
  EXPECT_EQ(problem_of("[1]").found, "an array");
  EXPECT_EQ(problem_of(moe_row().substr(0, 100)).where.substr(0, 6), "line 1");
  EXPECT_THAT(problem_of(moe_row() + moe_row()).where, HasSubstr("line 1"));  // a newline forgotten
}

TEST(Measurement, NamesFromAListHaveANearestOne) {
  EXPECT_EQ(problem_of(with(R"("kind":"moe")", R"("kind":"mo")")).nearest, "moe");
  EXPECT_EQ(problem_of(with(R"("graph")", R"("graphs")")).nearest, "graph");
  EXPECT_EQ(problem_of(with(R"("expert_ffn")", R"("expert_fnn")")).nearest, "expert_ffn");
}

TEST(Measurement, EachRequiredKeyIsMissed) {
  for (const char* key : {"device",      "model",          "hidden",  "intermediate", "experts",
                          "topk",        "gated",          "tp",      "ep",           "weights",
                          "activations", "tokens",         "routing", "routed_trace", "mean_active_experts",
                          "strategy",    "implementation", "launch",  "scope",        "stage",
                          "us",          "grid",           "block"}) {
    const InputProblem problem = problem_of(with(fmt::format("\"{}\":", key), fmt::format("\"x-{}\":", key)));
    EXPECT_THAT(problem.found, HasSubstr(fmt::format("no key '{}'", key)));
  }
}

TEST(Measurement, ValuesOutOfRange) {
  const std::vector<std::pair<std::string, std::string>> slips = {
      {R"("us":12.5)", R"("us":0)"},
      {R"("us":12.5)", R"("us":-1)"},
      {R"("us":12.5)", R"("us":1e999)"},
      {R"("us":12.5)", R"("us":1e13)"},
      {R"("us":12.5)", R"("us":null)"},
      {R"("us":12.5)", R"("us":"12.5")"},
      {R"("p90_us":14.25)", R"("p90_us":0)"},
      {R"("sm_mhz":1980)", R"("sm_mhz":0)"},
      {R"("power_capped":true)", R"("power_capped":1)"},
      {R"("tokens":3)", R"("tokens":0)"},
      {R"("tokens":3)", R"("tokens":10000001)"},
      {R"("tokens":3)", R"("tokens":2.5)"},
      {R"("experts":8)", R"("experts":65537)"},
      {R"("experts":8)", R"("experts":0)"},
      {R"("topk":2)", R"("topk":9)"},
      {R"("topk":2)", R"("topk":0)"},
      {R"("gated":true)", R"("gated":"yes")"},
      {R"("hidden":64)", R"("hidden":0)"},
      {R"("intermediate":32)", R"("intermediate":-32)"},
      {R"("tp":1)", R"("tp":33)"},
      {R"("ep":1)", R"("ep":9)"},
      {R"("mean_active_experts":4.5)", R"("mean_active_experts":6.5)"},  // 3 tokens of 2
      {R"("mean_active_experts":4.5)", R"("mean_active_experts":-1)"},
      {R"("device":"h200")", R"("device":"")"},
      {R"("stage":"total")", R"("stage":7)"},
      {R"("implementation":{"name")", R"("implementation":{"nom")"},
      {R"("fast":true)", R"("up.per":true)"},  // what "up" flattens to
      {R"([2,32,1])", R"([2,32,1,1])"},
      {R"([2,32,1])", R"([])"},
      {R"([2,32,1])", R"([2,0,1])"},
      {R"([2,32,1])", R"([4294967296,4294967296,1])"},
      {R"("registers":64)", R"("registers":-1)"},
      {R"("count":2)", R"("count":0)"},
      {R"("kernels":[)", R"("kernels":[3,)"},
  };
  for (const auto& [right, wrong] : slips) {
    EXPECT_THAT(problem_of(with(right, wrong)).file, HasSubstr(".jsonl:1")) << wrong;
  }
}

}  // namespace
}  // namespace moesim
