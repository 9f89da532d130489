#include "tools/micro_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/units/parse_quantity.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

constexpr std::size_t kWorstRows = 15;

// "ctas=4 load=bulk": what a row states beside its times.
std::string parameters_of(const MicroMeasurement& row) {
  const std::vector<std::string> results = {"us",      "median_us", "min_us", "max_us",   "p90_us",
                                            "samples", "sm_mhz",    "tflops", "segments", "values_per_clock_sm"};
  const std::vector<std::string> labels = {"schema", "kind", "device", "benchmark", "source"};
  std::vector<std::string> parts;
  for (const auto& [name, value] : row.texts) {
    if (std::find(labels.begin(), labels.end(), name) == labels.end()) parts.push_back(name + "=" + value);
  }
  for (const auto& [name, value] : row.numbers) {
    if (std::find(results.begin(), results.end(), name) == results.end())
      parts.push_back(fmt::format("{}={}", name, value));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

std::int64_t line_of(const MicroMeasurement& row) { return std::stoll(row.place.substr(row.place.rfind(':') + 1)); }

std::vector<const MicroResult*> worst_rows(const MicroEvaluation& evaluation) {
  std::vector<const MicroResult*> rows;
  for (const MicroResult& row : evaluation.rows) {
    if (row.left_out.empty()) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const MicroResult* a, const MicroResult* b) {
    return std::abs(a->error_pct()) > std::abs(b->error_pct());
  });
  rows.resize(std::min(rows.size(), kWorstRows));
  return rows;
}

std::vector<std::string> summary_cells(const std::string& name, const ErrorSummary& s) {
  if (s.count == 0) return {name, "0", "-", "-", "-", "-"};
  return {name,
          fmt::format("{}", s.count),
          fmt::format("{:.1f}", s.median_abs_pct),
          fmt::format("{:.1f}", s.p95_abs_pct),
          fmt::format("{:.1f}", s.max_abs_pct),
          fmt::format("{:+.1f}", s.bias_pct)};
}

void write_table(const MicroReport& report, std::ostream& out) {
  const MicroEvaluation& e = report.evaluation;
  out << fmt::format("moesim {}, microbenchmarks\nmeasurements  {}, {} rows of the device, {} of others\n",
                     report.tool_version, e.measurements, e.rows.size(), report.rows_of_other_devices);
  out << fmt::format("device        {} ({})\n", e.device, e.device_hash);
  for (const std::string& assignment : report.overrides) out << fmt::format("set           {}\n", assignment);

  TextTable table({{"benchmark", Align::kLeft},
                   {"points", Align::kRight},
                   {"median %", Align::kRight},
                   {"p95 %", Align::kRight},
                   {"max %", Align::kRight},
                   {"bias %", Align::kRight}});
  for (const auto& [benchmark, summary] : e.by_benchmark) table.add_row(summary_cells(benchmark, summary));
  table.add_gap();
  table.add_row(summary_cells("all", e.overall));
  out << "\nerror of simulated over measured time, absolute but for the bias\n";
  table.write(out);

  TextTable worst({{"line", Align::kRight},
                   {"benchmark", Align::kLeft},
                   {"measured µs", Align::kRight},
                   {"simulated µs", Align::kRight},
                   {"error %", Align::kRight},
                   {"point", Align::kLeft}});
  for (const MicroResult* row : worst_rows(e)) {
    worst.add_row({fmt::format("{}", line_of(*row->row)), row->row->benchmark, fmt::format("{:.4f}", row->row->us),
                   fmt::format("{:.4f}", row->simulated_us), fmt::format("{:+.1f}", row->error_pct()),
                   parameters_of(*row->row)});
  }
  out << "\nworst points\n";
  worst.write(out);

  if (e.left_out.empty()) return;
  TextTable left({{"rows", Align::kRight}, {"benchmark", Align::kLeft}, {"reason", Align::kLeft}});
  for (const auto& [key, rows] : e.left_out) left.add_row({fmt::format("{}", rows), key.first, key.second});
  out << "\nleft out\n";
  left.write(out);
}

Json summary_json(const ErrorSummary& s) {
  const auto figure = [&](double value) { return s.count == 0 ? Json(nullptr) : Json(six_digits(value)); };
  return {{"count", s.count},
          {"median_abs_pct", figure(s.median_abs_pct)},
          {"p95_abs_pct", figure(s.p95_abs_pct)},
          {"max_abs_pct", figure(s.max_abs_pct)},
          {"bias_pct", figure(s.bias_pct)}};
}

void write_json(const MicroReport& report, std::ostream& out) {
  const MicroEvaluation& e = report.evaluation;
  Json json = {{"schema", "moesim.micro_evaluation/1"},
               {"tool", {{"name", "moesim"}, {"version", report.tool_version}}},
               {"device", {{"name", e.device}, {"hash", e.device_hash}, {"overrides", report.overrides}}},
               {"measurements", e.measurements},
               {"rows_of_other_devices", report.rows_of_other_devices},
               {"overall", summary_json(e.overall)}};
  Json& by_benchmark = json["by_benchmark"] = Json::object();
  for (const auto& [benchmark, summary] : e.by_benchmark) by_benchmark[benchmark] = summary_json(summary);
  Json& worst = json["worst"] = Json::array();
  for (const MicroResult* row : worst_rows(e)) {
    worst.push_back({{"line", line_of(*row->row)},
                     {"benchmark", row->row->benchmark},
                     {"point", parameters_of(*row->row)},
                     {"measured_us", row->row->us},
                     {"simulated_us", six_digits(row->simulated_us)},
                     {"error_pct", six_digits(row->error_pct())}});
  }
  Json& left_out = json["left_out"] = Json::array();
  for (const auto& [key, rows] : e.left_out) {
    left_out.push_back({{"benchmark", key.first}, {"reason", key.second}, {"rows", rows}});
  }
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

void write_csv(const MicroReport& report, std::ostream& out) {
  const MicroEvaluation& e = report.evaluation;
  write_csv_line({"line", "benchmark", "point", "measured_us", "simulated_us", "error_pct", "left_out", "device",
                  "device_hash", "device_overrides", "tool_version"},
                 out);
  for (const MicroResult& row : e.rows) {
    const bool counts = row.left_out.empty();
    write_csv_line({fmt::format("{}", line_of(*row.row)), row.row->benchmark, parameters_of(*row.row),
                    fmt::format("{}", row.row->us), counts ? fmt::format("{}", six_digits(row.simulated_us)) : "",
                    counts ? fmt::format("{}", six_digits(row.error_pct())) : "", row.left_out, e.device, e.device_hash,
                    fmt::format("{}", fmt::join(report.overrides, " ")), report.tool_version},
                   out);
  }
}

}  // namespace

void write_micro_evaluation(const MicroReport& report, OutputFormat format, std::ostream& out) {
  switch (format) {
    case OutputFormat::kTable:
      return write_table(report, out);
    case OutputFormat::kJson:
      return write_json(report, out);
    case OutputFormat::kCsv:
      return write_csv(report, out);
  }
}

void write_device_calibration(const DeviceCalibration& calibration, const HardwareModel& hardware,
                              const std::string& data, std::ostream& out) {
  out << fmt::format("device     {} ({})\ndata       {}\nfitted to  {} rows, condition {:.0f}\n\n", hardware.name,
                     hardware.hash, data, calibration.rows, calibration.condition);
  TextTable constants({{"constant", Align::kLeft},
                       {"kind", Align::kLeft},
                       {"device file", Align::kRight},
                       {"fitted", Align::kRight},
                       {"± %", Align::kRight},
                       {"left out", Align::kLeft}});
  for (const DeviceConstantFit& fit : calibration.constants) {
    const HwEntry& entry = hw_entry(fit.id);
    const bool fitted = fit.left_out.empty();
    constants.add_row({entry.path, source_kind_name(hardware.constants[static_cast<std::size_t>(fit.id)]->kind),
                       format_quantity(fit.present, entry.dimension),
                       fitted ? format_quantity(std::stod(fmt::format("{:.4g}", fit.fitted)), entry.dimension) : "-",
                       fitted ? fmt::format("{:.1f}", fit.relative_error * 100) : "-", fit.left_out});
  }
  constants.write(out);

  TextTable errors({{"benchmark", Align::kLeft},
                    {"points", Align::kRight},
                    {"median %", Align::kRight},
                    {"max %", Align::kRight},
                    {"fitted: median %", Align::kRight},
                    {"max %", Align::kRight}});
  for (std::size_t i = 0; i < calibration.after.by_benchmark.size(); ++i) {
    const auto& [benchmark, before] = calibration.before.by_benchmark[i];
    const ErrorSummary& after = calibration.after.by_benchmark[i].second;
    errors.add_row({benchmark, fmt::format("{}", before.count), fmt::format("{:.1f}", before.median_abs_pct),
                    fmt::format("{:.1f}", before.max_abs_pct), fmt::format("{:.1f}", after.median_abs_pct),
                    fmt::format("{:.1f}", after.max_abs_pct)});
  }
  out << "\nerrors with the device file, and as fitted\n";
  errors.write(out);
}

}  // namespace moesim
