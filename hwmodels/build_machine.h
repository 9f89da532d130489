// HardwareModel -> sim::Machine, and the device-dependent arithmetic that strategies share.
#pragma once

#include <cstdint>

#include "hwmodels/hardware_model.h"
#include "sim/engine/machine.h"
#include "sim/units/clock.h"

namespace moesim {

// Memory and last-level cache have clocks of their own; what runs at the units' clock is in the kernels
// (workloads/strategies).
Machine build_machine(const HardwareModel& hardware);

// Of a core with a sequential grid: on-chip bytes that one kernel's buffers may take, and what a kernel with `bytes` of
// them states. Such a core holds one item at a time.
Bytes useful_on_chip_bytes(const HardwareModel& hardware);
ResourceVector footprint_on_chip(Bytes bytes);

// What a kernel's launch states (parallel grids).
struct LaunchShape {
  std::int64_t threads = 128;     // per CTA
  std::int64_t registers = 32;    // per thread
  std::int64_t shared_bytes = 0;  // per CTA, static + dynamic
};

// Parallel grids. Rounds to what the device allocates: registers to a granule per warp, on-chip bytes to 128 with the reserved bytes
// added.
ResourceVector footprint(const HardwareModel& hardware, const LaunchShape& shape);
// CTAs that a unit holds; 0: the shape does not fit.
std::int64_t occupancy(const HardwareModel& hardware, const LaunchShape& shape);

// Highest rates, for the bound: simulated times are never below bytes / highest_read_rate.
double highest_read_rate(const HardwareModel& hardware);  // bytes a second

}  // namespace moesim
