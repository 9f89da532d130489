// moesim import --format routing, and what `run` makes of recorded routings.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"
#include "tests/testkit/traces.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testkit::routing_data;

std::vector<std::string> import_of(const std::string& in, const std::string& out,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"import", "--format", "routing", "--in", in, "--out", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ImportRouting, WritesAnArrayAndItsSidecar) {
  const std::string out = temp_folder() + "routing.npy";
  const std::string report = successful_output(import_of(routing_data("vllm_npy.json"), out, {"--experts", "8"}));
  EXPECT_THAT(report, HasSubstr("routing  steps 3, tokens of a step 1 to 3, layers 2, experts 2 of 8\n"));
  const RoutedTrace trace = load_routed_trace(out, {});
  EXPECT_EQ(testkit::text_of(trace),
            testkit::text_of(load_routed_trace(routing_data("vllm_npy.json"),
                                               {.experts = 8, .topk = {}, .layers = {}, .tokens = {}})));
  EXPECT_EQ(trace.source, "vllm_npy.json (vllm)");
}

TEST(ImportRouting, OneLayerAndAModelForWhatIsLeftOut) {
  const std::string out = temp_folder() + "routing.jsonl";
  successful_output(import_of(routing_data("vllm_shape.json"), out, {"--model", "mixtral-8x7b", "--layer", "1"}));
  EXPECT_EQ(testkit::text_of(load_routed_trace(out, {})), "0.1: 4 5, 6 7, 0 3\n1.1: 1 2, 0 7\n2.1: 2 1\n");
}

TEST(ImportRouting, NotesGoToStandardError) {
  const std::string out = temp_folder() + "routing.npy";
  const CommandOutput run = run_moesim(import_of(routing_data("vllm_lists.json"), out, {"--experts", "8"}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.errors, AllOf(HasSubstr("moesim: note: "), HasSubstr("tokens of zeros")));
}

TEST(ImportRouting, WrongInputWritesNothing) {
  const std::string folder = temp_folder();
  const std::string out = folder + "routing.npy";
  const std::string in = routing_data("vllm_npy.json");
  EXPECT_THAT(error_line_of(import_of(in, out)), HasSubstr("--experts"));
  EXPECT_THAT(error_line_of(import_of(in, out, {"--experts", "7"})),
              AllOf(HasSubstr("expert 7"), HasSubstr("[1, 1, 1]")));
  EXPECT_THAT(error_line_of(import_of(in, out, {"--experts", "8", "--layer", "2"})), HasSubstr("a layer of"));
  EXPECT_THAT(error_line_of(import_of(in, folder + "x.txt", {"--experts", "8"})), HasSubstr("ends in .npy"));
  EXPECT_THAT(error_line_of(import_of(in, out, {"--experts", "eight"})), HasSubstr("--experts"));
  EXPECT_THAT(error_line_of(import_of(in, out, {"--device", "h200"})), HasSubstr("--device"));
  EXPECT_THAT(error_line_of({"import", "--format", "routing"}), HasSubstr("--in"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(RunTrace, TakesAnyKnownFormat) {
  const CommandOutput run =
      run_moesim({"run", "--model", "mixtral-8x7b", "--routing", "trace:" + routing_data("own.jsonl"), "--strategy",
                  "grouped_gemm", "--format", "json", "--concurrency", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const json study = json::parse(run.output);
  EXPECT_EQ(study.at("samples"), 2);  // the step of three tokens, two layers
  EXPECT_EQ(study.at("rows").at(0).at("concurrency"), 3);
}

TEST(RunTrace, OneLayerOfIt) {
  const std::vector<std::string> run = {"run",
                                        "--model",
                                        "mixtral-8x7b",
                                        "--strategy",
                                        "grouped_gemm",
                                        "--routing",
                                        "trace:" + routing_data("own.jsonl"),
                                        "--concurrency",
                                        "3",
                                        "--trace-layer"};
  std::vector<std::string> second = run, ninth = run;
  second.emplace_back("2");
  ninth.emplace_back("9");
  EXPECT_EQ(successful_json(second).at("samples"), 1);
  EXPECT_THAT(error_line_of(ninth), AllOf(HasSubstr("--trace-layer: found 9"), HasSubstr(": 1, 2")));
  EXPECT_THAT(error_line_of({"run", "--trace-layer", "1"}), HasSubstr("--routing trace:FILE"));
}

TEST(RunTrace, TokensThatNoStepHas) {
  EXPECT_THAT(error_line_of({"run", "--model", "mixtral-8x7b", "--routing", "trace:" + routing_data("own.jsonl"),
                             "--concurrency", "2"}),
              AllOf(HasSubstr("--concurrency: found 2"), HasSubstr("1, 3")));
}

}  // namespace
}  // namespace moesim
