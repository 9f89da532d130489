// What each microbenchmark ran, as a kernel of the simulator: grid, bytes and loads in flight of an item, work of a step.
//
// The harnesses' sources (validation/harness/cuda/micro.cu, micro_compute.cu) and their compiled code say what that is. No
// time is computed here: the kernel goes through the same simulate() as those of strategies.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "hwmodels/hardware_model.h"
#include "sim/plan/execution_plan.h"
#include "traces/measurement.h"

namespace moesim {

struct MicroKernel {
  Kernel kernel;
  LaunchMode launch = LaunchMode::kGraph;
  Bytes read, written;     // of the regions that a launch of the kernel reads and writes
  bool warm = false;       // each launch reads the same bytes; else bytes of its own
  bool spread = true;      // false: code that touches nothing pays nothing for being on all units
  std::int64_t parts = 1;  // the row's time is that of one of so many (hops of a chain)
  std::int64_t units = 0;  // that take part, of those behind each kind of port alike; 0: all
  bool launched = true;    // false: the row's time is from its first CTA's start
};

// Why a row has no place in the comparison.
struct LeftOut {
  std::string reason;
};

using LoweredMicro = std::variant<MicroKernel, LeftOut>;

// Throws InputError for a benchmark that lacks its parameters, or that could not run so.
LoweredMicro lower_micro(const MicroMeasurement& row, const HardwareModel& hardware);

}  // namespace moesim
