// Reports on measured rows, as `validate` and `calibrate --tables` make them.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluation_views.h"
#include "tools/measurement_flags.h"
#include "validation/calibrate.h"

namespace moesim {

// What the rows are; their evaluation is still to come.
EvaluationReport report_on(const MeasuredRows& measured, const std::vector<std::string>& overrides);
// Of rows left out of fits, and of the same rows with the device's constants alone.
EvaluationReport left_out_report(const MeasuredRows& measured, const std::vector<std::string>& overrides,
                                 LeaveOut left_out, Evaluation evaluation);

}  // namespace moesim
