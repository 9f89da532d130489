// What `validate --compare-strategies` prints.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tools/common_flags.h"
#include "tools/evaluation_views.h"
#include "validation/strategy_curves.h"

namespace moesim {

struct CurvesReport {
  EvaluationReport of_rows;  // what they are and how they were simulated
  std::string one, other;    // as asked for
  std::vector<StrategyCurves> curves;
};

void write_curves(const CurvesReport& report, OutputFormat format, std::ostream& out);

}  // namespace moesim
