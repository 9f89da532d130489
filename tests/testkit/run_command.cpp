#include "tests/testkit/run_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace moesim {
namespace {

std::string folder_of_test() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = fmt::format("moesim_{}.{}", test->test_suite_name(), test->name());
  for (char& c : name) {
    if (c == '/') c = '.';  // of a parameterised test
  }
  return testing::TempDir() + name + "/";
}

std::vector<std::string> moesim_words(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MOESIM_BINARY);
  return arguments;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

pid_t start(std::vector<std::string> words, const std::string& folder, std::vector<std::string> environment) {
  // Files, not pipes: neither stream can fill up while the other is read.
  const std::string out_path = temp_file("stdout", "");
  const std::string err_path = temp_file("stderr", "");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path.c_str(), O_WRONLY | O_TRUNC, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_path.c_str(), O_WRONLY | O_TRUNC, 0);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  const std::string program = words.front();
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + program);
  return child;
}

CommandOutput wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  constexpr int kSignalled = 128;
  CommandOutput result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
  result.output = file_text(folder_of_test() + "stdout");
  result.errors = file_text(folder_of_test() + "stderr");
  return result;
}

}  // namespace

CommandOutput run_moesim(const std::vector<std::string>& arguments, const std::string& folder) {
  return wait_for(start(moesim_words(arguments), folder, {}));
}

CommandOutput run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  return wait_for(start(words, "", environment));
}

StartedCommand::StartedCommand(const std::vector<std::string>& arguments)
    : child_(start(moesim_words(arguments), "", {})) {}

StartedCommand::~StartedCommand() {
  if (child_ == 0) return;
  send(SIGKILL);
  wait();
}

void StartedCommand::send(int signal) const { kill(child_, signal); }

CommandOutput StartedCommand::wait() { return wait_for(std::exchange(child_, 0)); }

std::string successful_output(const std::vector<std::string>& arguments) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.errors, "");
  return run.output;
}

nlohmann::json successful_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  return nlohmann::json::parse(successful_output(arguments));
}

std::string error_line_of(const std::vector<std::string>& arguments, int exit_code) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, exit_code) << run.output << run.errors;
  EXPECT_EQ(run.output, "");
  EXPECT_TRUE(run.errors.starts_with("moesim: ") && run.errors.ends_with('\n')) << run.errors;
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  return run.errors;
}

std::vector<std::string> joined(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string temp_folder() {
  std::filesystem::remove_all(folder_of_test());
  std::filesystem::create_directories(folder_of_test());
  return folder_of_test();
}

std::string temp_file(const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(folder_of_test());
  std::string path = folder_of_test() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string npy_file(const std::string& name, const std::string& shape, const std::vector<int>& ids) {
  const auto little_endian = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
    return text;
  };
  const std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}), }}\n", shape);
  std::string bytes = "\x93NUMPY";
  bytes += little_endian(1, 2) + little_endian(static_cast<std::uint32_t>(header.size()), 2) + header;
  for (const int id : ids) bytes += little_endian(static_cast<std::uint32_t>(id), 4);
  return temp_file(name, bytes);
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_source_file(const std::string& path) { return file_text(MOESIM_SOURCE_DIR "/" + path); }

}  // namespace moesim
