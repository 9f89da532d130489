// What the flags of `sweep` ask for: the grid, how each point is simulated, and a name for all of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/grid_request.h"
#include "workloads/studies/sweep.h"

namespace moesim {

struct SweepPlan {
  Sweep sweep;
  PointRequest request_of;  // any thread
};

// Reads what the flags name and checks it; `given` is the command line as FlagSet::record() has it. Several concurrencies
// are an axis, the last one. Throws InputError, also where no point at all makes sense.
SweepPlan plan_sweep(const RequestFlags& request, const GridFlags& grid, const std::vector<std::string>& given);

}  // namespace moesim
