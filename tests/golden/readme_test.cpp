// The README's example shows what the program really prints, and its picture is what the program really draws. Written
// anew with
//   MOESIM_UPDATE_GOLDEN=1 ctest --preset dev -L golden
#include <gtest/gtest.h>

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

TEST(Readme, ExampleIsRealOutput) {
  const std::string text = read_source_file("README.md");
  const std::size_t example = text.find(kExample);
  ASSERT_NE(example, std::string::npos);
  const std::size_t command = example + kExample.size();
  const std::string arguments = text.substr(command, text.find(" -->", command) - command);
  const std::size_t begin = text.find(kFence, command) + kFence.size();
  const std::size_t end = text.find(kFence, begin);
  ASSERT_NE(end, std::string::npos);

  const CommandOutput run = run_moesim(words(arguments));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const std::string block = "$ moesim " + arguments + "\n" + run.output;
  if (updating()) return write_file("README.md", text.substr(0, begin) + block + text.substr(end));
  EXPECT_EQ(text.substr(begin, end - begin), block);
}

TEST(Readme, PictureIsWhatTheProgramDraws) {
  const CommandOutput run = run_moesim({"run", "--format", "svg"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  if (updating()) return write_file(kPicture, run.output);
  EXPECT_EQ(read_source_file(kPicture), run.output);
}

}  // namespace
}  // namespace moesim
