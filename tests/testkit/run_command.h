// Runs the moesim program as a user would, and writes the files that it is given.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace moesim {

struct CommandOutput {
  int exit_code = 0;  // 128 + the signal's number where one ended the program
  std::string output, errors;
};

// In `folder`, or where the test runs.
CommandOutput run_moesim(const std::vector<std::string>& arguments, const std::string& folder = "");
// Another program by its path, which may be started with more in its environment ("NAME=VALUE").
CommandOutput run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment = {});

// moesim in the background.
class StartedCommand {
 public:
  explicit StartedCommand(const std::vector<std::string>& arguments);
  ~StartedCommand();  // kills it
  StartedCommand(const StartedCommand&) = delete;
  StartedCommand& operator=(const StartedCommand&) = delete;
  void send(int signal) const;
  CommandOutput wait();

 private:
  int child_ = 0;
};

// Standard output of a command that must succeed without a word on standard error.
std::string successful_output(const std::vector<std::string>& arguments);
// The same with --format json.
nlohmann::json successful_json(std::vector<std::string> arguments);

// The one line on standard error of a command that must end with this code and print nothing.
std::string error_line_of(const std::vector<std::string>& arguments, int exit_code = 2);
// Arguments and more of them.
std::vector<std::string> joined(std::vector<std::string> arguments, const std::vector<std::string>& more);

// An empty folder of this test's own, with '/' at its end.
std::string temp_folder();
// Writes temp_folder() + name without emptying the folder; its path.
std::string temp_file(const std::string& name, const std::string& bytes);
// A .npy file of int32 ids with that shape, as in "2, 3".
std::string npy_file(const std::string& name, const std::string& shape, const std::vector<int>& ids);
std::string file_text(const std::string& path);
// A file of the repository.
std::string read_source_file(const std::string& path);

}  // namespace moesim
