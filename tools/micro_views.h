// What `validate --kind micro` and `calibrate --kind micro` print.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tools/common_flags.h"
#include "validation/calibrate_micro.h"
#include "validation/micro.h"

namespace moesim {

struct MicroReport {
  std::string tool_version;
  std::vector<std::string> overrides;
  std::int64_t rows_of_other_devices = 0;
  MicroEvaluation evaluation;
};

void write_micro_evaluation(const MicroReport& report, OutputFormat format, std::ostream& out);

// `data` says what the rows are.
void write_device_calibration(const DeviceCalibration& calibration, const HardwareModel& hardware,
                              const std::string& data, std::ostream& out);

}  // namespace moesim
