// What `validate` prints. The views of an Evaluation stand here since the traces layer does not see validation.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "validation/evaluate.h"

namespace moesim {

struct EvaluationReport {
  std::string tool_version;
  std::string calibration;
  bool calibrated = false;         // with fitted constants, whosever
  std::vector<std::string> notes;  // what a reader of the errors must know
  std::vector<std::string> overrides;
  std::vector<std::string> filters;  // flags that left rows out, as given
  std::int64_t rows_in_file = 0;
  std::int64_t rows_of_other_devices = 0;
  std::int64_t rows_filtered = 0;
  Evaluation evaluation;
  std::optional<Evaluation> uncalibrated;  // of left-out rows: errors with the device's constants alone; without rows
};

// The rows with the largest errors, largest first; equal ones in the order given.
std::vector<const RowResult*> worst_rows(const Evaluation& evaluation);
// "memory stream 54 %, matrix 20 %, launch 9 %": the largest of its blames.
std::string attribution_text(const RowResult& row);
// Its cells by strategy, weights and ascending tokens.
std::vector<Cell> cells_in_band_order(std::vector<Cell> cells);

struct EvaluationView {
  const char* name;
  void (*write)(const EvaluationReport&, std::ostream&);
};
std::span<const EvaluationView> evaluation_views();
// Throws InputError (flag --format).
const EvaluationView& find_evaluation_view(const std::string& name);

void write_evaluation_markdown(const EvaluationReport& report, std::ostream& out);

}  // namespace moesim
