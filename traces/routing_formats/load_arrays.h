// Arrays of rows per expert.
#pragma once

#include "traces/npy.h"
#include "traces/routing_formats/routing_file.h"
#include "workloads/routed_trace.h"

namespace moesim {

// [layers, experts] or [steps, layers, experts].
RoutedTrace trace_of_loads(const RoutingFile& file, const IntegerArray& array);

}  // namespace moesim
