// moesim calibrate: fits what belongs to implementations to measured layers, or a device's constants to microbenchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/evaluation_report.h"
#include "tools/measurement_flags.h"
#include "tools/micro_views.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "traces/views/text_table.h"
#include "validation/calibrate.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr std::size_t kUsualEvaluations = 600;  // of a device's fit

struct CalibrateFlags {
  MeasurementFlags rows;
  HardwareFlags hardware;
  std::optional<std::string> out, tables, constants, date;
  bool leave_one_out = false;
};

// A file's name and its content's hash.
std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1) + " " + file_hash(path); }

// "YYYY-MM-DD".
std::string parse_date(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  char end = 0;
  const bool read = text.size() == std::string_view("2026-11-29").size() &&
                    std::sscanf(text.c_str(), "%4d-%2u-%2u%c", &year, &month, &day, &end) == 3;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!read || !date.ok()) throw InputError({"--date", "", fmt::format("'{}'", text), "a day as in 2026-11-29", ""});
  return text;
}

FitRecord record_of(const MeasuredRows& measured, const std::optional<std::string>& date) {
  FitRecord record;
  for (const std::string& file : measured.files) {
    const std::filesystem::path path = std::filesystem::absolute(file).lexically_normal();
    const std::filesystem::path name = path.parent_path().filename() / path.filename();
    record.data.push_back({name.string(), file_hash(file)});
  }
  record.filters = measured.filters;
  if (date) record.date = parse_date(*date);
  return record;
}

std::string error_cell(const ErrorSummary& summary) {
  if (summary.count == 0) return "-";
  return fmt::format("{:.1f}/{:.1f}", summary.median_abs_pct, summary.p95_abs_pct);
}

void write_report(const CalibrationResult& result, bool leave_one_out, std::ostream& out) {
  TextTable fits({{"implementation", Align::kLeft},
                  {"strategy", Align::kLeft},
                  {"weights", Align::kLeft},
                  {"rows", Align::kRight},
                  {"before %", Align::kRight},
                  {"after %", Align::kRight},
                  {"held out %", Align::kRight},
                  {"condition", Align::kRight}});
  TextTable constants({{"implementation", Align::kLeft},
                       {"weights", Align::kLeft},
                       {"constant", Align::kLeft},
                       {"value", Align::kRight},
                       {"error", Align::kRight}});
  std::string left_out;
  for (const FitReport& report : result.reports) {
    const Implementation* implementation = result.calibration.find(report.implementation, report.weights);
    std::string held_out = "-";
    if (leave_one_out && implementation != nullptr && implementation->held_out.rows > 0) {
      held_out = fmt::format("{:.1f}/{:.1f}", implementation->held_out.median, implementation->held_out.p95);
    }
    fits.add_row({report.implementation, report.strategy, report.weights, fmt::format("{}", report.rows),
                  error_cell(report.before), error_cell(report.after), held_out,
                  report.refused.empty() ? fmt::format("{:.0f}", report.condition) : "-"});
    if (implementation != nullptr) {
      for (const auto& [name, constant] : implementation->constants) {
        constants.add_row({report.implementation, report.weights, name, fmt::format("{:.4g}", constant.value),
                           fmt::format("x/÷ {:.2f}", std::exp(constant.relative_error))});
      }
    }
    const std::string who = fmt::format("  {} {}: ", report.implementation, report.weights);
    for (const std::string& constant : report.left_out) left_out += who + constant + "\n";
    if (!report.refused.empty()) left_out += who + "no fit: " + report.refused + "\n";
    for (const std::string& row : report.skipped) left_out += who + "skipped " + row + "\n";
  }
  out << fmt::format("device   {} ({})\n", result.calibration.device, result.calibration.device_hash);
  for (const FittedData& data : result.calibration.data) out << fmt::format("data     {} {}\n", data.file, data.hash);
  for (const std::string& filter : result.calibration.filters) out << fmt::format("only     {}\n", filter);
  out << fmt::format("models   {}\n\n", fmt::join(result.calibration.models, ", "));
  out << "fits: |error| median/p95 of rows of 10 µs and more\n";
  fits.write(out);
  out << "\nconstants, each with the factor of its standard error\n";
  constants.write(out);
  if (!left_out.empty()) out << "\nleft out\n" << left_out;
}

CommandResult run_calibrate_micro(const CalibrateFlags& flags) {
  if (flags.leave_one_out) throw InputError({"--leave-one-out", "", "--kind micro", "--kind moe", ""});
  if (flags.tables) throw InputError({"--tables", "", "--kind micro", "--kind moe", ""});
  const MicroRows measured = flags.rows.load_micro(flags.hardware);
  std::optional<OutputFile> file;
  if (flags.out) file.emplace(*flags.out, "--out");
  Progress progress;
  const DeviceCalibration calibration =
      calibrate_micro(measured.rows, measured.file, measured.hardware,
                      [&](std::size_t done) { progress.show(done, std::max(done, kUsualEvaluations), "simulating"); });
  std::ostringstream out;
  write_device_calibration(calibration, measured.hardware, file_name(measured.file), out);
  if (file) file->write(device_sections_text(calibration, file_name(measured.file)));
  return {.output = out.str(), .complaint = ""};
}

CommandResult run_calibrate(const CalibrateFlags& flags) {
  if (flags.rows.micro()) return run_calibrate_micro(flags);
  const MeasuredRows measured = flags.rows.load(flags.hardware);
  const FitRecord record = record_of(measured, flags.date);
  if (flags.tables && !flags.leave_one_out) {
    throw InputError({"--tables", "", "no --leave-one-out", "--leave-one-out: whose errors it writes", ""});
  }
  std::optional<OutputFile> file, tables;
  if (flags.out) file.emplace(*flags.out, "--out");
  if (flags.tables) tables.emplace(*flags.tables, "--tables");
  Progress progress;
  CalibrateOptions options;
  options.file = measured.file();
  options.leave_one_out = flags.leave_one_out;
  if (flags.constants) options.constants = split_list("--constants", *flags.constants);
  options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all, "fitting"); };
  CalibrationResult result = calibrate(measured.rows, record, measured.hardware, options);
  std::ostringstream out;
  write_report(result, flags.leave_one_out, out);
  if (result.calibration.implementations.empty()) {
    return {.output = out.str(), .complaint = "no implementation could be fitted", .exit_code = ExitCode::kInfeasible};
  }
  if (file) file->write(calibration_text(result.calibration));
  if (tables) {
    std::ostringstream text;
    write_evaluation_markdown(
        left_out_report(measured, flags.hardware.overrides, LeaveOut::kModel, std::move(*result.left_out)), text);
    tables->write(text.str());
  }
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<CalibrateFlags>();
  flags->rows.add(set);
  flags->hardware.add(set);
  set.on("--leave-one-out", flags->leave_one_out,
         "Also the error of each model's rows under a fit to the other models; takes a fit per model");
  set.value("--constants", "LIST", flags->constants, "Fit only these constants [default: all that a strategy has]");
  set.value("--tables", "FILE", flags->tables,
            "Where to write these errors, as `validate --leave-one-out --format markdown` does by fits of its own");
  set.value("--date", "YYYY-MM-DD", flags->date, "Of the fit, for the overlay; without it the overlay states none");
  set.value("--out", "FILE", flags->out,
            "Where to write the overlay, for --calibration; of --kind micro sections of a device file");
  return [flags] { return run_calibrate(*flags); };
}

}  // namespace

constinit const Command kCalibrateCommand = {
    "calibrate", "Fit constants of implementations to measured layers, or of a device to microbenchmarks",
    "  moesim calibrate --measurements measurements.jsonl --models mixtral-8x7b --out overlay.json", define};

}  // namespace moesim
