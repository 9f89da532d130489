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
#include "tools/strategy_curves_views.h"
#include "tools/tile_choice_views.h"
#include "validation/calibrate.h"
#include "validation/sensitivity.h"
#include "validation/tile_choice.h"
#include "workloads/studies/tune.h"

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
  std::optional<std::string> compare;
  bool tiles = false;
};

CommandResult validate_micro(const ValidateFlags& flags) {
  const OutputFormat format = FormatFlag{flags.format}.parse();
  if (flags.vary_assumed) throw InputError({"--vary-assumed", "", "--kind micro", "--kind moe", ""});
  if (flags.compare) throw InputError({"--compare-strategies", "", "--kind micro", "--kind moe", ""});
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

struct Compared {
  CurveOf one, other;
  OutputFormat format;
};

const std::string& name_of(const CurveOf& curve) {
  return curve.implementation.empty() ? curve.strategy : curve.implementation;
}

// "stream_gemv:implementation=NAME" or a strategy's name alone.
Compared parse_compared(const std::string& text, const std::string& format, Grid grid) {
  constexpr const char* kFlag = "--compare-strategies";
  const std::vector<StrategyChoice> choices = parse_strategies({text}, grid, kFlag);
  if (choices.size() != 2) {
    throw InputError({kFlag, "", fmt::format("'{}'", text), "two strategies, as in stream_gemv,grouped_gemm", ""});
  }
  std::vector<CurveOf> list;
  for (const StrategyChoice& choice : choices) {
    if (choice.strategy == nullptr || !choice.parameters.empty() || choice.stack != nullptr) {
      throw InputError({kFlag, "", fmt::format("'{}'", choice.text),
                        "a strategy, alone or with implementation=NAME: rows have their own parameters", ""});
    }
    list.push_back({choice.strategy->name, choice.implementation});
  }
  return {list[0], list[1], FormatFlag{format}.parse()};
}

CommandResult compare_strategies(const ValidateFlags& flags, const Compared& of, const MeasuredRows& measured,
                                 EvaluationReport report) {
  const std::optional<Calibration> overlay = flags.calibration.load(measured.hardware);  // its held-out errors
  CurvesReport curves;
  curves.one = name_of(of.one);
  curves.other = name_of(of.other);
  curves.curves = curves_of(report.evaluation, of.one, of.other, overlay ? &*overlay : nullptr);
  if (curves.curves.empty()) {
    throw InputError({measured.file(), "", "no layer of which both were measured with the same routing",
                      fmt::format("rows of {} and of {}, stage total", curves.one, curves.other), ""});
  }
  curves.of_rows = std::move(report);
  std::ostringstream out;
  write_curves(curves, of.format, out);
  return {.output = out.str(), .complaint = ""};
}

// Flags of errors, not of choices.
void refuse_beside_tiles(const ValidateFlags& flags) {
  const std::pair<const char*, bool> others[] = {{"--leave-one-out", flags.leave_one_out},
                                                 {"--leave-out", flags.leave_out.has_value()},
                                                 {"--vary-assumed", flags.vary_assumed},
                                                 {"--compare-strategies", flags.compare.has_value()}};
  for (const auto& [flag, given] : others) {
    if (given) throw InputError({"--tiles", "", fmt::format("{} too", flag), "one of the two", ""});
  }
}

CommandResult validate_tiles(const ValidateFlags& flags) {
  const OutputFormat format = FormatFlag{flags.format}.parse();
  refuse_beside_tiles(flags);
  const MeasuredRows measured = flags.rows.load(flags.hardware);
  const std::optional<Calibration> calibration = flags.calibration.load(measured.hardware);
  Progress progress;
  TileChoiceOptions options;
  options.min_gain = kUsualGain;
  if (calibration) options.calibration = &*calibration;
  options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  TileChoiceReport report;
  report.tool_version = kVersion;
  report.device = measured.hardware.name;
  report.device_hash = measured.hardware.hash;
  report.calibration = calibration ? calibration_name(*calibration, measured.hardware) : "uncalibrated";
  report.measurements = measured.file();
  report.overrides = flags.hardware.overrides;
  if (calibration) report.notes = fitted_notes(measured, *calibration);
  report.min_gain = options.min_gain;
  report.choice = evaluate_tile_choice(measured.rows, measured.hardware, options);
  if (report.choice.cells.empty()) {
    throw InputError({"--tiles", "", measured.file(),
                      fmt::format("rows of one layer under at least {} tiles of one implementation", kFewestTiles),
                      ""});
  }
  std::ostringstream out;
  write_tile_choice(report, format, out);
  return {.output = out.str(), .complaint = ""};
}

// Intervals come from an overlay that knows residuals of rows left out of its fit.
void check_coverage(const std::optional<Calibration>& calibration) {
  if (calibration && !calibration->residuals.held_out.empty()) return;
  throw InputError({"--coverage", "",
                    calibration ? fmt::format("{} without held-out residuals", calibration->file) : "no overlay",
                    "an overlay that `moesim calibrate --leave-one-out` wrote, or --leave-one-out", ""});
}

CommandResult validate(const ValidateFlags& flags) {
  if (flags.tiles && flags.rows.micro()) throw InputError({"--tiles", "", "--kind micro", "--kind moe", ""});
  if (flags.rows.micro()) return validate_micro(flags);
  if (flags.tiles) return validate_tiles(flags);
  const EvaluationView& view = find_evaluation_view(flags.format);
  if (flags.compare && flags.vary_assumed) {
    throw InputError({"--vary-assumed", "", "--compare-strategies too", "one of the two", ""});
  }
  if (flags.vary_assumed && flags.format != "table") {
    throw InputError({"--vary-assumed", "", fmt::format("--format {}", flags.format), "--format table", ""});
  }
  const std::optional<LeaveOut> leave_out = parse_leave_out(flags);
  const MeasuredRows measured = flags.rows.load(flags.hardware);
  std::optional<Compared> compared;
  if (flags.compare) compared = parse_compared(*flags.compare, flags.format, measured.hardware.grid);
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
  if (compared) return compare_strategies(flags, *compared, measured, std::move(report));
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
  set.value("--compare-strategies", "A,B", flags->compare,
            "Both measured and both simulated times of two strategies over tokens, and where they cross");
  set.on("--tiles", flags->tiles,
         "Instead: where one layer was measured under many tiles, what taking the predicted best of them costs");
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
    "  moesim validate --measurements measurements.jsonl --compare-strategies stream_gemv,grouped_gemm\n"
    "  moesim validate --measurements measurements.jsonl --leave-one-out",
    define};

}  // namespace moesim
