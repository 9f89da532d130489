// moesim validate: simulates measured rows and says how far off the simulation is.
#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/evaluation_report.h"
#include "tools/measurement_flags.h"
#include "tools/micro_views.h"
#include "tools/progress.h"
#include "validation/calibrate.h"
#include "validation/sensitivity.h"

namespace moesim {
namespace {

struct ValidateFlags {
  MeasurementFlags rows;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  std::string format = "table";
  bool vary_assumed = false;
  bool leave_one_out = false;
  bool coverage = false;
  std::optional<std::string> leave_out;
};

CommandResult validate_micro(const ValidateFlags& flags) {
  const OutputFormat format = FormatFlag{flags.format}.parse();
  if (flags.vary_assumed) throw InputError({"--vary-assumed", "", "--kind micro", "--kind moe", ""});
  if (flags.coverage) throw InputError({"--coverage", "", "--kind micro", "--kind moe", ""});
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

std::optional<LeaveOut> parse_leave_out(const ValidateFlags& flags) {
  if (flags.leave_one_out && flags.leave_out) {
    throw InputError({"--leave-one-out", "", "--leave-out too", "one of the two", ""});
  }
  if (!flags.leave_one_out && !flags.leave_out) return std::nullopt;
  const std::string flag = flags.leave_one_out ? "--leave-one-out" : "--leave-out";
  const auto refuse = [&](const char* other, const char* why) {
    throw InputError({flag, "", fmt::format("{} too", other), why, ""});
  };
  if (flags.calibration.file) refuse("--calibration", "one of the two: it fits constants of its own");
  if (flags.calibration.uncalibrated) refuse("--uncalibrated", "one of the two: it fits constants");
  if (flags.vary_assumed) refuse("--vary-assumed", "one of the two");
  if (flags.leave_one_out || *flags.leave_out == "model") return LeaveOut::kModel;
  if (*flags.leave_out == "shard") return LeaveOut::kShard;
  throw InputError({flag, "", fmt::format("'{}'", *flags.leave_out), "model or shard",
                    nearest_name(*flags.leave_out, {"model", "shard"})});
}

// Errors on the very data of a fit say little.
std::vector<std::string> fitted_notes(const MeasuredRows& measured, const Calibration& calibration) {
  std::vector<std::string> notes;
  for (const std::string& file : measured.files) {
    const std::string hash = file_hash(file);
    for (const FittedData& data : calibration.data) {
      if (data.hash != hash) continue;
      notes.push_back(
          fmt::format("the overlay was fitted to {}: these errors are not held out (--leave-one-out)", file));
    }
  }
  return notes;
}

// Intervals come from an overlay that knows residuals of rows left out of its fit.
void check_coverage(const std::optional<Calibration>& calibration) {
  if (calibration && !calibration->residuals.held_out.empty()) return;
  throw InputError({"--coverage", "",
                    calibration ? fmt::format("{} without held-out residuals", calibration->file) : "no overlay",
                    "an overlay that `moesim calibrate --leave-one-out` wrote, or --leave-one-out", ""});
}

CommandResult validate(const ValidateFlags& flags) {
  if (flags.rows.micro()) return validate_micro(flags);
  const EvaluationView& view = find_evaluation_view(flags.format);
  if (flags.vary_assumed && flags.format != "table") {
    throw InputError({"--vary-assumed", "", fmt::format("--format {}", flags.format), "--format table", ""});
  }
  const std::optional<LeaveOut> leave_out = parse_leave_out(flags);
  const MeasuredRows measured = flags.rows.load(flags.hardware);
  const std::optional<Calibration> calibration = leave_out ? std::nullopt : flags.calibration.load(measured.hardware);
  if (flags.coverage && !leave_out) check_coverage(calibration);

  Progress progress;
  const auto fitting = [&](std::size_t done, std::size_t all) { progress.show(done, all, "fitting"); };
  EvaluateOptions options;
  EvaluationReport report;
  if (leave_out) {
    report = left_out_report(measured, flags.hardware.overrides, *leave_out,
                             evaluate_left_out(measured.rows, measured.file(), measured.hardware,
                                               {.what = *leave_out, .coverage = flags.coverage, .progress = fitting}));
  } else {
    report = report_on(measured, flags.hardware.overrides);
    report.calibrated = calibration.has_value();
    report.calibration = calibration ? calibration_name(*calibration, measured.hardware) : "uncalibrated";
    if (calibration) report.notes = fitted_notes(measured, *calibration);
    if (calibration) options.calibration = &*calibration;
    options.coverage = flags.coverage;
    options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
    report.evaluation = evaluate(measured.rows, measured.file(), measured.hardware, options);
  }
  std::ostringstream out;
  view.write(report, out);
  if (flags.vary_assumed) {
    out << '\n';
    write_assumed_effects(vary_assumed(measured.rows, measured.file(), measured.hardware, report.evaluation, options),
                          out);
  }
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ValidateFlags>();
  flags->rows.add(set);
  set.on("--leave-one-out", flags->leave_one_out,
         "Fit anew and predict each model's rows by constants fitted to the other models");
  set.value("--leave-out", "model|shard", flags->leave_out,
            "As --leave-one-out; or rows with tp or ep above 1 by constants fitted to whole models");
  set.on("--coverage", flags->coverage,
         "Also how many rows lie within the p5 to p95 of the overlay; of --leave-one-out always, of rows by the other "
         "models'");
  set.on("--vary-assumed", flags->vary_assumed, "Also the errors with each assumed constant 30 % lower and higher");
  flags->hardware.add(set);
  flags->calibration.add(set);
  std::vector<std::string> formats;
  for (const EvaluationView& view : evaluation_views()) formats.emplace_back(view.name);
  set.value("--format", fmt::format("{}", fmt::join(formats, "|")), flags->format, "How to print");
  return [flags] { return validate(*flags); };
}

}  // namespace

constinit const Command kValidateCommand = {
    "validate", "Simulate measured layers and say how far off the simulation is",
    "  moesim validate --measurements measurements.jsonl --max-tokens 64 --weights bf16\n"
    "  moesim validate --measurements measurements.jsonl --leave-one-out",
    define};

}  // namespace moesim
