// Output of small fixed commands, byte for byte. What changes here changes for every user: look at the difference, then
// write the files anew with
//   MOESIM_UPDATE_GOLDEN=1 ctest --preset dev -L golden
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

struct GoldenCommand {
  const char* name;
  std::vector<std::string> arguments;
};

void PrintTo(const GoldenCommand& command, std::ostream* out) { *out << command.name; }

const GoldenCommand kGoldenCommands[] = {
    {"run_table", {"run", "--concurrency", "1,8,64", "--samples", "2", "--strategy", "all,auto"}},
    {"run_explain",
     {"run", "--model", "mixtral-8x7b", "--device", "b200", "--concurrency", "4", "--samples", "2", "--strategy",
      "grouped_gemm:block_m=32,expert_loop", "--explain"}},
    {"run_json",
     {"run",          "--model", "qwen3-30b-a3b",       "--device",    "h100-sxm", "--concurrency", "2",
      "--samples",    "2",       "--strategy",          "stream_gemv", "--scope",  "expert_ffn",    "--launch",
      "programmatic", "--set",   "hbm.bandwidth=4TB/s", "--explain",   "--format", "json"}},
    {"run_ladder",
     {"run", "--concurrency", "1", "--strategy", "grouped_gemm_persistent,stream_gemv", "--ladder",
      "grouped_gemm_persistent,stream_gemv"}},
    {"run_csv",
     {"run", "--model", "gpt-oss-20b", "--device", "mi300x", "--concurrency", "16", "--samples", "2", "--routing",
      "zipf:0.8", "--ep", "2", "--format", "csv"}},
    {"run_step",
     {"run", "--scope", "step", "--model", "mixtral-8x7b", "--tp", "2", "--context", "8192", "--concurrency", "1,16",
      "--strategy", "grouped_gemm,stream_gemv"}},
    {"run_uncertainty",
     {"run", "--model", "qwen3-30b-a3b", "--concurrency", "1,8,512", "--samples", "2", "--strategy",
      "grouped_gemm,stream_gemv,expert_loop,auto", "--uncertainty"}},
    {"run_uncertainty_elsewhere",
     {"run", "--model", "mixtral-8x7b", "--device", "b200", "--concurrency", "4", "--samples", "2", "--strategy",
      "grouped_gemm,stream_gemv", "--uncertainty"}},
    {"sensitivity",
     {"sensitivity", "--model", "qwen3-30b-a3b", "--concurrency", "12", "--samples", "1", "--strategy",
      "grouped_gemm,stream_gemv"}},
    {"serve_sim",
     {"serve-sim", "--model", "qwen3-30b-a3b", "--layers", "4", "--sessions", "4,24", "--jitter", "20ms", "--horizon",
      "2s", "--warm-up", "0.5s"}},
    {"compare_table",
     {"compare", "--measured", "tests/data/profiler/cuda_vllm.json", "--model", "qwen3-30b-a3b", "--samples", "2"}},
    {"compare_json",
     {"compare", "--measured", "tests/data/profiler/sections.json", "--model", "qwen3-30b-a3b", "--concurrency", "4",
      "--samples", "2", "--format", "json"}},
    {"compare_csv",
     {"compare", "--measured", "tests/data/profiler/rocm_graph.json", "--model", "gpt-oss-20b", "--samples", "2",
      "--format", "csv"}},
};

class Golden : public testing::TestWithParam<GoldenCommand> {};

TEST_P(Golden, OutputIsAsItWas) {
  const std::string path = fmt::format("tests/golden/data/{}.txt", GetParam().name);
  const std::string full_path = std::string(MOESIM_SOURCE_DIR) + "/" + path;
  const CommandOutput run = run_moesim(GetParam().arguments, MOESIM_SOURCE_DIR);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  if (std::getenv("MOESIM_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(std::filesystem::path(full_path).parent_path());
    std::ofstream(full_path, std::ios::binary) << run.output;
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(full_path)) << "no " << path << "; MOESIM_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(run.output, read_source_file(path))
      << "If the change is meant: MOESIM_UPDATE_GOLDEN=1 ctest -L golden, and commit " << path;
}

INSTANTIATE_TEST_SUITE_P(Commands, Golden, testing::ValuesIn(kGoldenCommands),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace moesim
