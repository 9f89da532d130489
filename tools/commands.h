// The subcommands, one cmd_*.cpp each.
#pragma once

#include <functional>
#include <string>

namespace moesim {

class FlagSet;

inline constexpr const char* kVersion = MOESIM_VERSION;

enum class ExitCode { kSuccess = 0, kWrongInput = 2, kInfeasible = 3, kInternal = 70, kInterrupted = 130 };

// Printed by main once all is done, so that an error leaves nothing half printed.
struct CommandResult {
  std::string output;     // to standard output
  std::string complaint;  // to standard error, one line, also what else was written; "" when there is none
  ExitCode exit_code = ExitCode::kSuccess;
};

struct Command {
  const char* name;
  const char* summary;
  const char* examples;  // end of --help, a command a line
  // Adds the flags; what it returns runs the command, after they were parsed. Wrong input: InputError.
  std::function<CommandResult()> (*define)(FlagSet& flags);
};

extern const Command kRunCommand;
extern const Command kSweepCommand;
extern const Command kReportCommand;
extern const Command kTuneCommand;
extern const Command kSensitivityCommand;
extern const Command kServeSimCommand;
extern const Command kRouteCommand;
extern const Command kValidateCommand;
extern const Command kCalibrateCommand;
extern const Command kCompareCommand;
extern const Command kImportCommand;
extern const Command kModelsCommand;
extern const Command kDevicesCommand;
extern const Command kStrategiesCommand;

}  // namespace moesim
