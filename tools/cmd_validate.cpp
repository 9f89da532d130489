// moesim validate: simulates measured rows and says how far off the simulation is.
#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/evaluation_views.h"
#include "tools/measurement_flags.h"
#include "tools/micro_views.h"
#include "tools/progress.h"
#include "validation/sensitivity.h"

namespace moesim {
namespace {

struct ValidateFlags {
  MeasurementFlags rows;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  FormatFlag format;
  bool vary_assumed = false;
};

CommandResult validate_micro(const ValidateFlags& flags, OutputFormat format) {
  if (flags.vary_assumed) throw InputError({"--vary-assumed", "", "--kind micro", "--kind moe", ""});
  if (flags.calibration.file) {
    throw InputError({"--calibration", "", "--kind micro", "--kind moe: an overlay is of its kernels", ""});
  }
  const MicroRows measured = flags.rows.load_micro(flags.hardware);
  MicroReport report;
  report.tool_version = kVersion;
  report.overrides = flags.hardware.overrides;
  report.rows_of_other_devices = measured.rows_of_other_devices;
  report.evaluation = evaluate_micro(measured.rows, measured.file, measured.hardware);
  std::ostringstream out;
  write_micro_evaluation(report, format, out);
  return {.output = out.str(), .complaint = ""};
}

CommandResult validate(const ValidateFlags& flags) {
  const OutputFormat format = flags.format.parse();
  if (flags.rows.micro()) return validate_micro(flags, format);
  if (flags.vary_assumed && format != OutputFormat::kTable) {
    throw InputError({"--vary-assumed", "", fmt::format("--format {}", flags.format.text), "--format table", ""});
  }
  const MeasuredRows measured = flags.rows.load(flags.hardware);
  const std::optional<Calibration> calibration = flags.calibration.load(measured.hardware);

  EvaluationReport report;
  report.tool_version = kVersion;
  report.calibration = calibration ? calibration_name(*calibration, measured.hardware) : "uncalibrated";
  report.overrides = flags.hardware.overrides;
  report.filters = measured.filters;
  report.rows_in_file = measured.rows_in_file;
  report.rows_of_other_devices = measured.rows_of_other_devices;
  report.rows_filtered = measured.rows_filtered;

  Progress progress;
  EvaluateOptions options;
  if (calibration) options.calibration = &*calibration;
  options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  report.evaluation = evaluate(measured.rows, measured.file, measured.hardware, options);
  std::ostringstream out;
  write_evaluation(report, format, out);
  if (flags.vary_assumed) {
    out << '\n';
    write_assumed_effects(vary_assumed(measured.rows, measured.file, measured.hardware, report.evaluation, options),
                          out);
  }
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ValidateFlags>();
  flags->rows.add(set);
  set.on("--vary-assumed", flags->vary_assumed, "Also the errors with each assumed constant 30 % lower and higher");
  flags->hardware.add(set);
  flags->calibration.add(set);
  flags->format.add(set);
  return [flags] { return validate(*flags); };
}

}  // namespace

constinit const Command kValidateCommand = {
    "validate", "Simulate measured layers and say how far off the simulation is",
    "  moesim validate --measurements measurements.jsonl --max-tokens 64 --weights bf16", define};

}  // namespace moesim
