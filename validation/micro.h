// Simulates measured microbenchmarks and says how far off the simulation is.
//
// As in the harness a row's time is a slope: a chain of launches less a shorter one, over the launches between.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"
#include "validation/evaluate.h"

namespace moesim {

struct MicroResult {
  const MicroMeasurement* row = nullptr;
  double simulated_us = 0;
  std::string left_out;  // why it counts apart; "": it counts
  [[nodiscard]] double error_pct() const { return (simulated_us / row->us - 1) * 100; }
};

struct MicroEvaluation {
  std::string device, device_hash, measurements;
  std::vector<MicroResult> rows;  // in file order; left-out ones that have no lowering too
  ErrorSummary overall;
  std::vector<std::pair<std::string, ErrorSummary>> by_benchmark;        // in order of first appearance
  std::map<std::pair<std::string, std::string>, std::int64_t> left_out;  // rows by benchmark and reason
};

// Throws InputError for a row that lacks its benchmark's parameters.
MicroEvaluation evaluate_micro(const std::vector<MicroMeasurement>& rows, const std::string& file,
                               const HardwareModel& hardware);

}  // namespace moesim
