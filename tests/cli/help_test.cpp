// Help, version, and that the examples of --help do what they say.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

const std::vector<std::string> kCommands = {"run",       "sweep",   "report",    "tune",      "sensitivity",
                                            "serve-sim", "route",   "validate",  "calibrate", "compare",
                                            "models",    "devices", "strategies"};

std::string help_of(const std::vector<std::string>& arguments) {
  const CommandOutput help = run_moesim(arguments);
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.errors, IsEmpty());
  return help.output;
}

// The lines "  moesim ARGUMENTS" as lists of arguments.
std::vector<std::vector<std::string>> examples_in(const std::string& help) {
  std::vector<std::vector<std::string>> examples;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  moesim ")) continue;
    std::istringstream words(line.substr(std::string("  moesim ").size()));
    examples.emplace_back();
    for (std::string word; words >> word;) examples.back().push_back(word);
  }
  return examples;
}

// Measured rows for the examples of `report`, `validate` and `calibrate`.
void write_measurements() {
  constexpr int kRows = 12;  // that a fit needs
  npy_file("routes.npy", "1, 2, 2", {0, 1, 2, 3});
  std::string rows;
  for (int i = 0; i < kRows; ++i) {
    rows += R"({"schema": "moesim.measurement/2", "kind": "moe", "device": "h200", "model": {"name": ")" +
            std::string(i % 2 == 0 ? "mixtral-8x7b" : "another") +
            R"(", "hidden": 4096, "intermediate": 14336, "experts": 8, "topk": 2, "gated": true}, "tp": 1, "ep": 1,)"
            R"( "weights": "bf16", "activations": "bf16", "tokens": 2, "routing": "uniform", "routed_trace":)"
            R"( "routes.npy", "mean_active_experts": 4, "strategy": "grouped_gemm", "implementation": {"name":)"
            R"( "triton-grouped", "block_m": 16}, "launch": "graph", "scope": "expert_ffn", "stage": "total",)"
            R"( "us": 340.0})"
            "\n";
  }
  std::string stream = rows.substr(0, rows.find('\n') + 1);  // a rival of the first row
  for (const auto& [from, to] :
       {std::pair("grouped_gemm", "stream_gemv"), std::pair("triton-grouped", "triton-stream-gemv")}) {
    stream.replace(stream.find(from), std::string(from).size(), to);
  }
  temp_file("measurements.jsonl", rows + stream);
}

TEST(Help, AloneItNamesAllSubcommands) {
  const std::string help = help_of({});
  for (const std::string& command : kCommands) EXPECT_THAT(help, HasSubstr("\n  " + command));
  EXPECT_EQ(help, help_of({"--help"}));
}

TEST(Help, VersionIsOneLine) { EXPECT_THAT(help_of({"--version"}), MatchesRegex("moesim [0-9]+\\.[0-9]+\\.[0-9]+\n")); }

TEST(Help, DefaultsAreNamed) {
  const std::string help = help_of({"run", "--help"});
  for (const char* text : {"[default: h200]", "[default: 1,2,3,4,8,16,32,64]", "[default: 8]", "[default: all]"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

// A trace and rules for the examples of `compare`.
void write_profile() {
  temp_file("trace.json.gz", read_source_file("tests/data/profiler/cuda_vllm.json"));  // its content tells
  temp_file("my_kernels.json",
            R"({"schema": "moesim.kernel_classes/1", "rules": [{"match": "^my_gemm", "class": "moe_gemm"}]})");
}

class HelpExamples : public testing::TestWithParam<std::string> {};

TEST_P(HelpExamples, Work) {
  const std::string folder = temp_folder();
  write_measurements();
  write_profile();
  const std::string help = GetParam().empty() ? help_of({"--help"}) : help_of({GetParam(), "--help"});
  const auto examples = examples_in(help);
  ASSERT_THAT(examples, Not(IsEmpty()));
  for (const auto& arguments : examples) {
    const CommandOutput run = run_moesim(arguments, folder);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto has = [&](const char* flag) { return std::ranges::find(arguments, flag) != arguments.end(); };
    const bool tiles = GetParam() == "tune" && has("--out");
    EXPECT_THAT(run.errors, MatchesRegex(has("--timeline") ? "moesim: .* slices, .* bytes\n"
                                         : tiles           ? "moesim: .*json, .* configurations\n"
                                                           : ""));
    EXPECT_THAT(run.output, Not(IsEmpty()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, HelpExamples,
                         testing::Values("", "run", "sweep", "report", "tune", "sensitivity", "serve-sim", "route",
                                         "validate", "compare", "models", "devices", "strategies"),
                         [](const auto& test) {
                           return test.param.empty() ? "program" : test.param == "serve-sim" ? "serve_sim" : test.param;
                         });

}  // namespace
}  // namespace moesim
