#include "tools/evaluation_report.h"

#include <utility>

#include "tools/command_line.h"

namespace moesim {
namespace {

const char* left_out_name(LeaveOut what) {
  switch (what) {
    case LeaveOut::kModel:
      return "each model's rows by constants fitted to the other models";
    case LeaveOut::kShard:
      return "rows of shards by constants fitted to whole models";
  }
  return "";
}

// The rows of an evaluation, to be evaluated otherwise.
std::vector<MoeMeasurement> rows_of(const Evaluation& evaluation) {
  std::vector<MoeMeasurement> rows;
  for (const std::vector<RowResult>* results : {&evaluation.rows, &evaluation.small_rows}) {
    for (const RowResult& result : *results) rows.push_back(*result.row);
  }
  return rows;
}

}  // namespace

EvaluationReport report_on(const MeasuredRows& measured, const std::vector<std::string>& overrides) {
  EvaluationReport report;
  report.tool_version = kVersion;
  report.overrides = overrides;
  report.filters = measured.filters;
  report.rows_in_file = measured.rows_in_file;
  report.rows_of_other_devices = measured.rows_of_other_devices;
  report.rows_filtered = measured.rows_filtered;
  return report;
}

EvaluationReport left_out_report(const MeasuredRows& measured, const std::vector<std::string>& overrides,
                                 LeaveOut left_out, Evaluation evaluation) {
  EvaluationReport report = report_on(measured, overrides);
  report.calibrated = true;
  report.calibration = left_out_name(left_out);
  report.evaluation = std::move(evaluation);
  const std::vector<MoeMeasurement> rows = rows_of(report.evaluation);
  report.uncalibrated = evaluate(rows, measured.file(), measured.hardware, {});
  for (auto* of_rows : {&report.uncalibrated->rows, &report.uncalibrated->small_rows, &report.uncalibrated->skipped}) {
    of_rows->clear();  // they refer to `rows`
  }
  return report;
}

}  // namespace moesim
