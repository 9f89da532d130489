#pragma once

#include "kernels.cuh"

namespace harness {
void run_micro_compute(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report);
void run_micro_ports(const Device& device, Timer& timer, const Pool& pool, Report& report);
void run_micro_turnaround(const Device& device, Timer& timer, Report& report);
}  // namespace harness
