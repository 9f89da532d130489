// Examples of the README and of docs/studies show what the program really prints, and their pictures are what it really
// draws. Written anew with
//   MOESIM_UPDATE_GOLDEN=1 ctest --preset dev -L golden
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

const std::string kRoot = std::string(MOESIM_SOURCE_DIR) + "/";
const std::string kExample = "<!-- example: moesim ";
const std::string kDrawn = "<!-- picture: ";
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

// The README and the studies: each may have several examples, <!-- example: moesim ARGUMENTS --> before its block.
std::vector<std::string> documents() {
  std::vector<std::string> paths = {"README.md"};
  for (const auto& file : std::filesystem::directory_iterator(kRoot + "docs/studies")) {
    if (file.path().extension() == ".md") paths.push_back("docs/studies/" + file.path().filename().string());
  }
  std::sort(paths.begin() + 1, paths.end());
  return paths;
}

class Documents : public testing::TestWithParam<std::string> {};

TEST_P(Documents, ExamplesAreRealOutput) {
  std::string text = read_source_file(GetParam());
  std::size_t at = text.find(kExample);
  ASSERT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = text.find(kExample, at)) {
    const std::size_t command = at + kExample.size();
    const std::string arguments = text.substr(command, text.find(" -->", command) - command);
    const std::size_t begin = text.find(kFence, command) + kFence.size();
    const std::size_t end = text.find(kFence, begin);
    ASSERT_NE(end, std::string::npos);
    const CommandOutput run = run_moesim(words(arguments), temp_folder());  // which may write files
    ASSERT_EQ(run.exit_code, 0) << arguments << '\n' << run.errors;
    const std::string block = "$ moesim " + arguments + "\n" + run.output;
    at = begin + block.size();
    if (!updating()) {
      EXPECT_EQ(text.substr(begin, end - begin), block);
    }
    text.replace(begin, end - begin, block);
  }
  if (updating()) write_file(GetParam(), text);
}

// <!-- picture: FILE moesim ARGUMENTS -->: what the program draws, beside the document.
TEST_P(Documents, PicturesAreWhatTheProgramDraws) {
  const std::string text = read_source_file(GetParam());
  const std::string folder = GetParam().substr(0, GetParam().rfind('/') + 1);
  for (std::size_t at = text.find(kDrawn); at != std::string::npos; at = text.find(kDrawn, at + 1)) {
    const std::size_t begin = at + kDrawn.size();
    std::vector<std::string> arguments = words(text.substr(begin, text.find(" -->", begin) - begin));
    ASSERT_GT(arguments.size(), 2U);
    const std::string picture = folder + arguments[0];
    EXPECT_EQ(arguments[1], "moesim");
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    const CommandOutput run = run_moesim(arguments, temp_folder());
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    if (updating()) {
      write_file(picture, run.output);
    } else {
      EXPECT_EQ(read_source_file(picture), run.output) << picture;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Documents, testing::ValuesIn(documents()), [](const auto& test) {
  std::string name;
  for (const char c : test.param) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
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
