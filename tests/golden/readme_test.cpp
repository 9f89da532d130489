// Examples in documents show what the program really prints, and the README's picture is what the program really draws.
// Written anew with
//   MOESIM_UPDATE_GOLDEN=1 ctest --preset dev -L golden
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

const std::string kRoot = std::string(MOESIM_SOURCE_DIR) + "/";
const std::string kExample = "<!-- example: moesim ";
const std::string kFence = "```\n";
const std::string kPicture = "docs/qwen3.5-397b-a17b-fp8-h200.svg";

bool updating() { return std::getenv("MOESIM_UPDATE_GOLDEN") != nullptr; }

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(kRoot + path, std::ios::binary) << text;
}

class Document : public testing::TestWithParam<const char*> {};

TEST_P(Document, ExamplesAreRealOutput) {
  std::string text = read_source_file(GetParam());
  std::size_t examples = 0;
  for (std::size_t example = text.find(kExample); example != std::string::npos; ++examples) {
    const std::size_t command = example + kExample.size();
    const std::string arguments = text.substr(command, text.find(" -->", command) - command);
    const std::size_t begin = text.find(kFence, command) + kFence.size();
    const std::size_t end = text.find(kFence, begin);
    ASSERT_NE(end, std::string::npos);

    const CommandOutput run = run_moesim(words(arguments));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const std::string block = "$ moesim " + arguments + "\n" + run.output;
    if (!updating()) {
      EXPECT_EQ(text.substr(begin, end - begin), block);
    }
    text.replace(begin, end - begin, block);
    example = text.find(kExample, begin + block.size());
  }
  EXPECT_GT(examples, 0U);
  if (updating()) write_file(GetParam(), text);
}

INSTANTIATE_TEST_SUITE_P(All, Document, testing::Values("README.md", "docs/studies/fused_stream_gemv.md"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(Readme, PictureIsWhatTheProgramDraws) {
  const CommandOutput run = run_moesim({"run", "--format", "svg"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  if (updating()) return write_file(kPicture, run.output);
  EXPECT_EQ(read_source_file(kPicture), run.output);
}

}  // namespace
}  // namespace moesim
