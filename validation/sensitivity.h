// What the numbers that nobody published are worth: each assumed constant 30 % lower and higher, and the errors that
// follow.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "validation/evaluate.h"

namespace moesim {

struct ConstantEffect {
  std::string path;                               // "llc.fill_weight"
  std::string value;                              // with its unit
  std::string source;                             // the rule it follows
  std::map<std::string, ErrorSummary> low, high;  // by strategy; at 0.7 and 1.3 of the value (whole numbers rounded)
};

struct AssumedEffects {
  std::string device, measurements;
  std::map<std::string, ErrorSummary> base;  // by strategy, with the constants as they are
  std::vector<ConstantEffect> constants;     // in schema order
};

// `base`: of the same rows with the constants as they are. Evaluates the rows twice per assumed constant of the device.
AssumedEffects vary_assumed(const std::vector<MoeMeasurement>& rows, const std::string& file,
                            const HardwareModel& hardware, const Evaluation& base, const EvaluateOptions& options);

// One line per constant and strategy: median and p95 error and bias at 0.7, 1 and 1.3 of its value.
void write_assumed_effects(const AssumedEffects& effects, std::ostream& out);

}  // namespace moesim
