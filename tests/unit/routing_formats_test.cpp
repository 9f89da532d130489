// Every format by its fixture (tests/data/routing, written by hand from the format's description), what is wrong in it, and
// the way out and back in.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "tests/testkit/traces.h"
#include "traces/routing_formats/catalogue.h"
#include "workloads/routed_trace.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testkit::base64;
using testkit::npy_text;
using testkit::routing_data;
using testkit::text_of;
using testkit::trace_file;
using testkit::words;

const TraceHints kHints = {.experts = 8, .topk = 2, .layers = 3, .tokens = {}};

struct Fixture {
  const char* file;
  const char* format;
  const char* model;
  const char* text;
  bool from_counts = false;
};

constexpr const char* kTwoSteps =
    "0.0: 0 1, 2 3\n0.1: 4 5, 6 7\n"
    "1.0: 7 6\n1.1: 0 3\n";
constexpr const char* kVllm =
    "0.0: 0 1, 2 3, 7 6\n0.1: 4 5, 6 7, 0 3\n"
    "1.0: 5 0, 6 2\n1.1: 1 2, 0 7\n"
    "2.0: 3 4\n2.1: 2 1\n";
constexpr const char* kCounted =
    "0.0: 0 1, 0 2, 0 3, 1 4\n"
    "0.1: 7 3, 7 4, 7 5, 7 6\n";

const Fixture kFixtures[] = {
    {"own.jsonl", "jsonl", "toy-8x2", "0.1: 0 1, 2 3, 7 6\n0.2: 4 5, 6 7, 0 3\n1.1: 5 0\n1.2: 1 2\n"},
    {"step_expert_routing_12_3.npz", "npz", "", "0.0: 0 1, 2 3, 7 6, 5 0\n"},
    {"vllm_lists.json", "vllm", "toy-8x2", kVllm},
    {"vllm_npy.json", "vllm", "toy-8x2", kVllm},
    {"vllm_shape.json", "vllm", "toy-8x2", kVllm},
    {"sglang.json", "sglang", "",
     "0.1: 0 1, 2 3, 7 6\n0.2: 4 5, 6 7, 0 3\n"
     "1.1: 5 0\n1.2: 1 2\n2.1: 3 4\n2.2: 2 1\n"},
    {"megatron_router_trace_rank0.jsonl", "megatron", "",
     "0.1: 0 1, 2 3, 7 6\n0.2: 4 5, 6 7, 0 3\n"
     "1.1: 5 0, 3 4\n1.2: 1 2, 2 1\n"},
    {"moe_cap_dump.jsonl", "moe_cap", "",
     "5.0: 0 1, 0 2, 0 3, 1 4\n5.1: 7 3, 7 4, 7 5, 7 6\n"
     "6.0: 0 1\n6.1: 2 7\n",
     true},
    {"moe_cap_record.jsonl", "moe_cap", "", "5.0: 0 1, 2 3, 4 0, 1 2\n6.0: 0 1, 2 3, 0 1\n", true},
    {"moe_routes.jsonl", "moe_routes", "toy-8x2", "0.3: 0 1, 2 3\n0.4: 4 5, 6 7\n1.3: 7 6\n1.4: 0 3\n"},
    {"mixtral_problems.jsonl", "mixtral_problems", "", kTwoSteps},
    {"device_rows.jsonl", "device_rows", "", "4.0: 0 1, 2 3\n4.1: 4 5, 6 7\n5.0: 7 6\n5.1: 0 3\n"},
    {"atlas.json", "atlas", "toy-8x2", "0.0: 0 1, 2 3\n0.1: 4 5, 6 7\n"},
    {"vference.json", "vference", "", kTwoSteps},
    {"activation_map.json", "activation_map", "", kCounted, true},
    {"eplb.json", "eplb", "", kCounted, true},
};

TEST(RoutingFormats, FixturesAreReadForWhatTheyAre) {
  for (const Fixture& fixture : kFixtures) {
    SCOPED_TRACE(fixture.file);
    EXPECT_STREQ(format_of(RoutingFile(routing_data(fixture.file), kHints)).name, fixture.format);
    const RoutedTrace trace = load_routed_trace(routing_data(fixture.file), kHints);
    EXPECT_EQ(text_of(trace), fixture.text);
    EXPECT_EQ(trace.model, fixture.model);
    EXPECT_EQ(trace.experts, 8);
    EXPECT_EQ(trace.topk, 2);
    EXPECT_EQ(trace.from_counts, fixture.from_counts);
    EXPECT_EQ(trace.warm_up, WarmUp());
    EXPECT_FALSE(trace.source.empty());
  }
}

TEST(RoutingFormats, EveryFormatButNpyHasAFixture) {
  for (const RoutingFormat& format : routing_formats()) {
    const bool found = std::any_of(std::begin(kFixtures), std::end(kFixtures),
                                   [&](const Fixture& fixture) { return std::string(fixture.format) == format.name; });
    EXPECT_TRUE(found || std::string(format.name) == "npy") << format.name;
  }
}

TEST(RoutingFormats, BatchesComeStepByStep) {
  const auto batches = read_routed_trace(routing_data("own.jsonl"), 8);
  ASSERT_EQ(batches.size(), 4U);
  EXPECT_THAT(batches[1].ids, ElementsAre(4, 5, 6, 7, 0, 3));
  EXPECT_EQ(batches[2].tokens, 1);
}

TEST(RoutingFormats, TheRecordersConvertedDumpIsOurJsonLines) {
  const RoutedTrace trace = load_routed_trace(routing_data("sglang_recorder.jsonl"), {});
  EXPECT_EQ(text_of(trace), "7.1: 0 1, 2 3, 1 2\n8.1: 3 0\n");
  EXPECT_EQ(trace.experts, 4);
}

// ---------------------------------------------------------------------------------------------- out and in again

RoutedTrace through(const RoutedTrace& trace, const std::string& name) {
  const std::string path = trace_file(name, "");
  for (const TraceFile& file : routed_trace_files(trace, path))
    std::ofstream(file.path, std::ios::binary) << file.bytes;
  return load_routed_trace(path, {});
}

TEST(RoutingFormats, WhatIsWrittenIsReadAsItWas) {
  for (const Fixture& fixture : kFixtures) {
    const RoutedTrace trace = load_routed_trace(routing_data(fixture.file), kHints);
    for (const char* ending : {".npy", ".npz", ".jsonl"}) {
      SCOPED_TRACE(std::string(fixture.file) + ending);
      const RoutedTrace again = through(trace, std::string(fixture.file) + ending);
      EXPECT_EQ(text_of(again), text_of(trace));
      EXPECT_EQ(again.model, trace.model);
      EXPECT_EQ(again.source, trace.source);
      EXPECT_EQ(again.experts, trace.experts);
      EXPECT_EQ(again.from_counts, trace.from_counts);
      EXPECT_THAT(again.notes, IsEmpty());
    }
  }
}

TEST(RoutingFormats, AlikeStepsAreAnArrayOfFourDimensions) {
  const std::string path = trace_file("in.npy", npy_text("2, 2, 1, 2", {0, 1, 2, 3, 4, 5, 6, 7}));
  const RoutedTrace trace = load_routed_trace(path, {.experts = 8, .topk = {}, .layers = {}, .tokens = {}});
  EXPECT_EQ(text_of(trace), "0.0: 0 1\n0.1: 2 3\n1.0: 4 5\n1.1: 6 7\n");
  const std::vector<TraceFile> files = routed_trace_files(trace, "x.npy");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_THAT(files[0].bytes, HasSubstr("(2, 2, 1, 2)"));
  EXPECT_EQ(files[1].path, "x.json");
  EXPECT_EQ(files[1].bytes, "{\"schema\":\"moesim.routing/1\",\"experts\":8,\"topk\":2,\"source\":\"" +
                                path.substr(path.rfind('/') + 1) + " (npy)\"}\n");
}

TEST(RoutingFormats, WritingTwiceGivesTheSameBytes) {
  const RoutedTrace trace = load_routed_trace(routing_data("own.jsonl"), {});
  for (const char* path : {"a.npy", "a.npz", "a.jsonl"}) {
    const auto first = routed_trace_files(trace, path), second = routed_trace_files(trace, path);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].bytes, second[i].bytes) << path;
  }
}

TEST(RoutingFormats, ManyExpertsNeedWideWords) {
  const std::string lines =
      "{\"schema\":\"moesim.routing/1\",\"experts\":40000}\n{\"step\":0,\"layer\":0,\"ids\":[[39999,0]]}\n";
  const RoutedTrace trace = load_routed_trace(trace_file("in.jsonl", lines), {});
  EXPECT_EQ(text_of(through(trace, "out.npy")), "0.0: 39999 0\n");
}

// ---------------------------------------------------------------------------------------------- counts

TraceHints with_tokens(std::int64_t tokens) { return {.experts = {}, .topk = 2, .layers = {}, .tokens = tokens}; }

TEST(RoutingFormats, CountsKeepTheirRowsPerExpert) {
  const RoutedTrace trace = load_routed_trace(routing_data("eplb.json"), kHints);
  EXPECT_THAT(rows_per_expert(trace.steps[0].layers[0]), ElementsAre(3, 2, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(rows_per_expert(trace.steps[0].layers[1]), ElementsAre(0, 0, 0, 1, 1, 1, 1, 4));
}

TEST(RoutingFormats, RowsThatLackGoToTheEmptiest) {
  const RoutedTrace trace = load_routed_trace(trace_file("odd.json", "[[2, 2, 1, 0]]"),
                                              TraceHints{.experts = {}, .topk = 2, .layers = {}, .tokens = {}});
  EXPECT_THAT(rows_per_expert(trace.steps[0].layers[0]), ElementsAre(2, 2, 1, 1));
}

TEST(RoutingFormats, CountsAreScaledToTokens) {
  // 10:6:3:1 of 20 picks on 100 tokens: 100 of the first, capped there, 60, 30, 10.
  const std::string path = trace_file("loads.json", "[[10, 6, 3, 1]]");
  const RoutedTrace trace = load_routed_trace(path, with_tokens(100));
  EXPECT_THAT(rows_per_expert(trace.steps[0].layers[0]), ElementsAre(100, 60, 30, 10));
  const RoutedTrace hot = load_routed_trace(trace_file("hot.json", "[[97, 1, 1, 1]]"), with_tokens(4));
  EXPECT_THAT(rows_per_expert(hot.steps[0].layers[0]), ElementsAre(4, 2, 1, 1));
}

TEST(RoutingFormats, LoadsInAnArrayAreToldByTheUser) {
  const std::string path = trace_file("loads.npy", npy_text("2, 8", {3, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 4}));
  EXPECT_EQ(text_of(load_routed_trace("eplb=" + path, kHints)), kCounted);
  EXPECT_THROW(load_routed_trace(path, kHints), InputError);
  std::ofstream(path.substr(0, path.size() - 4) + ".json")
      << R"({"schema":"moesim.routing/1","data":"counts","topk":2,"experts":8})";
  EXPECT_EQ(text_of(load_routed_trace(path, {})), kCounted);
}

// ---------------------------------------------------------------------------------------------- wrong input

InputProblem problem_of(const std::string& path, const TraceHints& hints = kHints) {
  try {
    load_routed_trace(path, hints);
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "no InputError for " << path;
  return {};
}

struct Wrong {
  const char* file;
  const char* from;
  const char* to;
  const char* place;  // after the path: ":2: /ids/0/1"
  const char* found;
};

const Wrong kWrong[] = {
    {"own.jsonl", "[0,1]", "[0,8]", ":2: /ids/0/1", "expert 8"},
    {"own.jsonl", "[0,1]", "[0,-1]", ":2: /ids/0/1", "expert -1"},
    {"own.jsonl", "[2,3]", "[3,3]", ":2: /ids/1/1", "expert 3 a second time"},
    {"own.jsonl", "[2,3]", "[2,3,4]", ":2: /ids/1/0", "3 experts in a row"},
    {"own.jsonl", "[2,3]", "[2,\"3\"]", ":2: /ids/1/1", "string '3'"},
    {"own.jsonl", "\"layer\":2", "\"layer\":1", ":3: ", "step 0, layer 1 a second time"},
    {"own.jsonl", "\"layer\":2", "\"leyer\":2", ":3: /leyer", "unknown key 'leyer'"},
    {"own.jsonl", "\"experts\":8", "\"experts\":9", ":1: /experts", "9 experts"},
    {"own.jsonl", "\"topk\":2", "\"topk\":3", ":2: /ids/0/0", "2 experts in a row"},
    {"own.jsonl", "routing/1", "routing/2", ":1: /schema", "string 'moesim.routing/2'"},
    {"own.jsonl", "[[5,0]]", "[[5,0],[6,1]", ":4: line 1, column 39", "'}'"},
    {"vllm_lists.json", "[7, 6]", "[7, 9]", ": /prompt_routed_experts/2/0/1", "expert 9"},
    {"vllm_lists.json", "[[7, 6], [0, 3]]", "[[7, 6]]", ": /prompt_routed_experts/2", "a list of 1"},
    {"vllm_lists.json", "[7, 6]", "[7]", ": /prompt_routed_experts/2/0", "a list of 1"},
    {"vllm_lists.json", "[7, 6]", "7", ": /prompt_routed_experts/2/0", "number 7"},
    {"vllm_lists.json", "[[6, 2], [0, 7]]", "[[6, 2]]", ": step 1, layer 1", "1 tokens"},
    {"vllm_npy.json", "k05VTVBZ", "k05VTVB", ": /prompt_routed_experts", " characters"},
    {"vllm_npy.json", "k05VTVBZ", "k05VTVB*", ": /prompt_routed_experts", "'*' at character 7"},
    {"vllm_npy.json", "k05VTVBZ", "kO5VTVBZ", ": /prompt_routed_experts", "does not begin with"},
    {"vllm_shape.json", "\"int16\"", "\"int32\"", ": /prompt_routed_experts/data", "24 bytes"},
    {"vllm_shape.json", "\"int16\"", "\"float16\"", ": /prompt_routed_experts/dtype", "string 'float16'"},
    {"vllm_shape.json", "\"base64\"", "\"hex\"", ": /prompt_routed_experts/encoding", "string 'hex'"},
    {"sglang.json", "AAAA", "AAAB", ": /meta_info/routed_experts [0, 1, ", "expert 1073741824"},
    {"sglang.json", "\"prompt_tokens\": 3", "\"prompt_tokens\": -3", ": /meta_info/prompt_tokens", "number -3"},
    {"sglang.json", "/////", "////", ": /meta_info/routed_experts", " characters"},
    {"megatron_router_trace_rank0.jsonl", "[7, 6]", "[7, 8]", ":1: /top_indices/2/1", "expert 8"},
    {"megatron_router_trace_rank0.jsonl", "\"num_tokens\": 3", "\"num_tokens\": 4", ":1: /num_tokens", "number 4"},
    {"megatron_router_trace_rank0.jsonl", "\"topk\": 2", "\"topk\": 3", ":1: /top_indices/0/0", "2 experts in a row"},
    {"megatron_router_trace_rank0.jsonl", "\"layer\": 2", "\"layr\": 2", ":2: ", "no key 'layer' (but 'layr')"},
    {"moe_cap_dump.jsonl", "[3, 2, 1", "[5, 0, 1", ":1: /expert_counts/0/0", "5 rows of one expert"},
    {"moe_cap_dump.jsonl", "[3, 2, 1", "[3, -2, 1", ":1: /expert_counts/0/1", "number -2"},
    {"moe_cap_dump.jsonl", "[3, 2, 1", "[3, 1", ":1: /expert_counts/0/0", "7 experts"},
    {"moe_cap_record.jsonl", "4.0", "7.0", ":2: /expert_activation", "7 distinct experts"},
    {"moe_cap_record.jsonl", "\"batch_size\": 3", "\"batch\": 3", ":2: ", "no key 'batch_size'"},
    {"moe_routes.jsonl", "[2, 3]", "[2, 2]", ":3: /topk_ids", "expert 2 a second time"},
    {"moe_routes.jsonl", "[2, 3]", "[]", ":3: /topk_ids", "an array"},
    {"moe_routes.jsonl", "\"top_k\": 2", "\"top_k\": 3", ":2: /topk_ids", "2 experts in a row"},
    {"moe_routes.jsonl", "\"token_idx\": 1", "\"token_idx\": 1.5", ":3: /token_idx", "number 1.5"},
    {"mixtral_problems.jsonl", "[2, 3]", "[2, 8]", ":3: /experts", "expert 8"},
    {"mixtral_problems.jsonl", "\"token_idx\": 1", "\"token_idx\": 0", ":3: /token_idx", "number 0"},
    {"device_rows.jsonl", "[0, 1], \"topk", "[0], \"topk", ":1: /origin_rows", "an array"},
    {"device_rows.jsonl", "[2, 3]", "[2, 9]", ":1: /topk_experts/1/1", "expert 9"},
    {"atlas.json", "\"expert_idx\": 3", "\"expert_idx\": 2", ": /activations/3/expert_idx", "expert 2 a second time"},
    {"atlas.json", "\"num_experts\": 8", "\"num_experts\": 9", ": /num_experts", "9 experts"},
    {"vference.json", "trace.v1", "trace.v2", ": /format", "string 'vference.route-trace.v2'"},
    {"vference.json", "[2, 3]", "[2, 2]", ": /records/0/expert_ids/1/1", "expert 2 a second time"},
    {"activation_map.json", "\"1\": {", "\"one\": {", ": /layers/one", "an object"},
    {"activation_map.json", "[3, 2, 1", "[3, 2.5, 1", ": /layers/0/hits/1", "number 2.5"},
    {"eplb.json", "[3, 2, 1", "[3, 2e18, 1", ": /0/1", "number 2e+18"},
    {"eplb.json", "[3, 2, 1", "[9, 2, 1", ": /0/0", "9 rows of one expert"},
};

TEST(RoutingFormats, WhatIsWrongIsNamedByItsPlace) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(fmt::format("{}: {} -> {}", wrong.file, wrong.from, wrong.to));
    std::string text = read_text_file(routing_data(wrong.file), 1 << 20);
    const std::size_t at = text.find(wrong.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(wrong.from).size(), wrong.to);
    const std::string path = trace_file(wrong.file, text);
    const InputProblem problem = problem_of(path);
    const std::string place = fmt::format("{}: {}", problem.file, problem.where);
    EXPECT_THAT(place, HasSubstr(path + wrong.place));
    EXPECT_THAT(problem.found, HasSubstr(wrong.found));
    EXPECT_FALSE(problem.expected.empty());
  }
}

TEST(RoutingFormats, WhatAFileLeavesOutIsAskedFor) {
  EXPECT_THAT(problem_of(routing_data("vllm_lists.json"), {}).expected, HasSubstr("--experts"));
  EXPECT_THAT(problem_of(routing_data("eplb.json"), {}).expected, HasSubstr("--topk"));
  EXPECT_THAT(problem_of(routing_data("sglang.json"), {.experts = 8, .topk = 2, .layers = {}, .tokens = {}}).expected,
              HasSubstr("--layers"));
  const InputProblem layers =
      problem_of(routing_data("sglang.json"), {.experts = 8, .topk = 2, .layers = 4, .tokens = {}});
  EXPECT_THAT(layers.expected, HasSubstr("a multiple of 32"));
  EXPECT_THAT(problem_of(routing_data("own.jsonl"), {.experts = 16, .topk = {}, .layers = {}, .tokens = {}}).expected,
              HasSubstr("16"));
}

TEST(RoutingFormats, UnknownFilesAreNoRouting) {
  EXPECT_THAT(problem_of(trace_file("a.json", R"({"weights": [1]})")).expected, HasSubstr("vllm"));
  EXPECT_EQ(problem_of(trace_file("b.jsonl", "\n\n")).found, "an empty file");
  EXPECT_THAT(problem_of(trace_file("c.json", "[[[0.5]]]")).found, HasSubstr("0.5"));
  EXPECT_THAT(problem_of(trace_file("d.json", "{\"choices\": [")).where, HasSubstr("line 1"));
  EXPECT_THAT(problem_of(trace_file("e.json", "[[1, 1]]\n[[1, 1]]\n")).found, HasSubstr("more than one line"));
  EXPECT_EQ(problem_of(trace_file("f.json", R"({"choices": []})")).found, "no routed token");
  EXPECT_EQ(problem_of("/no/such/file").found, "No such file or directory");
}

TEST(RoutingFormats, Archives) {
  const auto problem = [](const std::string& bytes) { return problem_of(trace_file("a.npz", bytes)); };
  EXPECT_EQ(problem("PK\x03\x04 an archive").expected, "a .npz archive");
  std::string whole = read_text_file(routing_data("step_expert_routing_12_3.npz"), 1 << 20);
  EXPECT_EQ(problem(whole.substr(0, whole.size() - 5)).expected, "a .npz archive");
  std::string damaged = whole;
  const std::size_t stated_crc = damaged.find("PK\x01\x02") + 16;
  damaged[stated_crc] = static_cast<char>(damaged[stated_crc] ^ 1);
  EXPECT_THAT(problem(damaged).found, HasSubstr("CRC"));
  std::string shorter = whole;
  const std::size_t stated_size = shorter.find("PK\x01\x02") + 24;
  shorter[stated_size] = static_cast<char>(shorter[stated_size] - 8);
  EXPECT_EQ(problem(shorter).where, "data.npy");
  std::string bomb = whole;
  bomb[stated_size + 3] = '\x7f';
  EXPECT_THAT(problem(bomb).found, HasSubstr("bytes unpacked"));
}

// ---------------------------------------------------------------------------------------------- sidecars and encodings

InputProblem sidecar_problem(const std::string& sidecar) {
  const std::string path = trace_file("a.npy", npy_text("1, 2, 3, 2", {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
  std::ofstream(path.substr(0, path.size() - 4) + ".json") << sidecar;
  return problem_of(path);
}

TEST(RoutingFormats, ASidecarMustFitItsArray) {
  const std::string schema = R"({"schema":"moesim.routing/1")";
  EXPECT_EQ(sidecar_problem(schema + R"(,"layers":[3,4,5]})").where, "/layers");
  EXPECT_EQ(sidecar_problem(schema + R"(,"steps":[3,4]})").where, "/steps");
  EXPECT_EQ(sidecar_problem(schema + R"(,"step_tokens":[1,1]})").where, "/step_tokens");
  EXPECT_EQ(sidecar_problem(schema + R"(,"shape":[1,2,3,4]})").where, "/shape");
  EXPECT_EQ(sidecar_problem(schema + R"(,"experts":9})").where, "/experts");
  EXPECT_EQ(sidecar_problem(schema + R"(,"expert":8})").where, "/expert");
  EXPECT_EQ(sidecar_problem(schema + R"(,"data":"logits"})").where, "/data");
  EXPECT_EQ(sidecar_problem(schema + R"(,"data":"counts","layers":[3,4]})").where, "/data");
}

TEST(RoutingFormats, ASidecarNamesLayersAndDividesSteps) {
  const std::string path = trace_file("a.npy", npy_text("1, 2, 3, 2", {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
  std::ofstream(path.substr(0, path.size() - 4) + ".json")
      << R"({"schema":"moesim.routing/1","model":"m","experts":8,"layers":[3,5],"steps":[7,9],"step_tokens":[2,1]})";
  const RoutedTrace trace = load_routed_trace(path, {});
  EXPECT_EQ(text_of(trace), "7.3: 0 1, 2 3\n7.5: 6 7, 0 1\n9.3: 4 5\n9.5: 2 3\n");
  EXPECT_EQ(text_of(only_layer(trace, 5)), "7.5: 6 7, 0 1\n9.5: 2 3\n");
}

TEST(RoutingFormats, ASidecarMaySayHowARoutingWasMade) {
  const std::string path = trace_file("a.npy", npy_text("1, 2, 1, 2", {0, 1, 2, 3}));
  std::ofstream(path.substr(0, path.size() - 4) + ".json")
      << R"({"schema":"moesim.routing/1","model":null,"experts":8,"source":"moesim route","seed":1,"routing":"uniform",)"
      << R"("shape":[1,2,1,2],"dimensions":["steps","layers","tokens","k"]})";
  const RoutedTrace trace = load_routed_trace(path, {});
  EXPECT_EQ(text_of(trace), "0.0: 0 1\n0.1: 2 3\n");
  EXPECT_EQ(trace.source, "moesim route");
}

TEST(RoutingFormats, AJsonFileOfAnotherSchemaIsNoSidecar) {
  const std::string path = trace_file("a.npy", npy_text("1, 2", {0, 1}));
  std::ofstream(path.substr(0, path.size() - 4) + ".json") << R"({"schema":"else","experts":3})";
  EXPECT_EQ(text_of(load_routed_trace(path, kHints)), "0.0: 0 1\n");
}

TEST(RoutingFormats, SGLangsBatchesOfRequestsRunSideBySide) {
  const auto request = [](const std::vector<std::int64_t>& ids, int prompt) {
    return fmt::format(R"({{"meta_info": {{"prompt_tokens": {}, "routed_experts": "{}"}}}})", prompt,
                       base64(words(ids, 4)));
  };
  const std::string path =
      trace_file("a.json", "[" + request({0, 1, 2, 3, 4, 5}, 1) + ", " + request({6, 7, 1, 0}, 1) + "]");
  const RoutedTrace trace = load_routed_trace(path, {.experts = 8, .topk = 2, .layers = 1, .tokens = {}});
  EXPECT_EQ(text_of(trace), "0.0: 0 1, 6 7\n1.0: 2 3, 1 0\n2.0: 4 5\n");
}

TEST(RoutingFormats, ShortRowsArePaddedInEveryRow) {
  const auto answer = [](const std::vector<std::int64_t>& ids) {
    return R"({"meta_info": {"routed_experts": ")" + base64(words(ids, 4)) + R"("}})";
  };
  const TraceHints hints = {.experts = 8, .topk = 3, .layers = 1, .tokens = {}};
  EXPECT_EQ(text_of(load_routed_trace(trace_file("a.json", answer({0, 1, -1, 2, 3, -1})), hints)), "0.0: 0 1, 2 3\n");
  EXPECT_EQ(problem_of(trace_file("b.json", answer({0, 1, -1, 2, 3, 4})), hints).found, "3 experts in a row");
  EXPECT_EQ(problem_of(trace_file("c.json", answer({0, 1, -2})), hints).found, "expert -2");
}

TEST(RoutingFormats, ALogThatBreaksOffLosesItsLastStepAlone) {
  std::string text = read_text_file(routing_data("moe_routes.jsonl"), 1 << 20);
  text.erase(text.rfind("{\"type\""));
  const RoutedTrace trace = load_routed_trace(trace_file("a.jsonl", text), kHints);
  EXPECT_EQ(text_of(trace), "0.3: 0 1, 2 3\n0.4: 4 5, 6 7\n");
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("last step")));
}

}  // namespace
}  // namespace moesim
