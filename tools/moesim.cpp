// main: lists the subcommands; turns what a command gives back, or an error, into output and an exit code.
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/ranks.h"

namespace moesim {
namespace {

// Of several ranks of a sweep the first one speaks: all have the same command line.
bool is_further_rank(int argc, const char* const* argv) {
  const std::optional<Launched> launched = launched_ranks();
  return launched && launched->rank > 0 && argc > 1 && std::string_view(argv[1]) == kSweepCommand.name;
}

CommandResult run(int argc, const char* const* argv) {
  const Command commands[] = {kRunCommand,         kSweepCommand,     kReportCommand, kTuneCommand,
                              kSensitivityCommand, kServeSimCommand,  kRouteCommand,  kValidateCommand,
                              kCalibrateCommand,   kCompareCommand,   kImportCommand, kModelsCommand,
                              kDevicesCommand,     kStrategiesCommand};
  try {
    const Request request = parse_command_line(commands, argc, argv);
    if (const auto* text = std::get_if<std::string>(&request)) return {.output = *text, .complaint = ""};
    return std::get<std::function<CommandResult()>>(request)();
  } catch (const InputError& error) {
    return {
        .output = "", .complaint = is_further_rank(argc, argv) ? "" : error.what(), .exit_code = ExitCode::kWrongInput};
  } catch (const std::exception& error) {
    return {
        .output = "", .complaint = std::string("internal error: ") + error.what(), .exit_code = ExitCode::kInternal};
  }
}

int print(CommandResult result) {
  const std::string& text = result.output;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    result.complaint = "cannot write to standard output";
    result.exit_code = ExitCode::kInternal;
  }
  if (!result.complaint.empty()) std::fprintf(stderr, "moesim: %s\n", result.complaint.c_str());
  return static_cast<int>(result.exit_code);
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) { return moesim::print(moesim::run(argc, argv)); }
