// What `validate` prints. The views of an Evaluation stand here since the traces layer does not see validation.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tools/common_flags.h"
#include "validation/evaluate.h"

namespace moesim {

struct EvaluationReport {
  std::string tool_version;
  std::string calibration;
  std::vector<std::string> overrides;
  std::vector<std::string> filters;  // flags that left rows out, as given
  std::int64_t rows_in_file = 0;
  std::int64_t rows_of_other_devices = 0;
  std::int64_t rows_filtered = 0;
  Evaluation evaluation;
};

void write_evaluation(const EvaluationReport& report, OutputFormat format, std::ostream& out);

}  // namespace moesim
