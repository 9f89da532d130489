// The command line's grammar: subcommands and their flags. Values stay text here; whoever reads one checks it, so that
// all errors read alike. CLI11 is seen by command_line.cpp only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tools/commands.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moesim {

// The flags of one subcommand. Targets must live until the command has run.
class FlagSet {
 public:
  explicit FlagSet(CLI::App& app) : app_(app) {}
  // `placeholder` is what --help and errors call the value; what `target` holds is the default that --help names.
  void value(const std::string& flag, const std::string& placeholder, std::string& target, const std::string& help);
  void value(const std::string& flag, const std::string& placeholder, std::optional<std::string>& target,
             const std::string& help);
  void repeated(const std::string& flag, const std::string& placeholder, std::vector<std::string>& target,
                const std::string& help);
  void on(const std::string& flag, bool& target, const std::string& help);
  // Once the line is parsed, `given` holds what stands on it: "--FLAG=VALUE", by flag, the values of one in their order.
  void record(std::vector<std::string>& given);
  void positional(const std::string& placeholder, std::optional<std::string>& target, const std::string& help);

 private:
  CLI::App& app_;
};

// What was asked for: to run a command, or only for text (help, version). Throws InputError with the nearest right flag
// or subcommand.
using Request = std::variant<std::function<CommandResult()>, std::string>;
Request parse_command_line(std::span<const Command> commands, int argc, const char* const* argv);

}  // namespace moesim
