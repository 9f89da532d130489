// Engines run dummy batches before the first request (profiling, graph capture): all tokens alike, or the same pass again.
#pragma once

#include "workloads/routed_trace.h"

namespace moesim {

// Drops the leading steps whose routing is identical, and says so in `warm_up` and `notes`: all tokens of a step pick the
// same experts in every layer, or a step is the same as the one beside it. Only where chance would not give it; never
// all steps.
void drop_warm_up(RoutedTrace& trace);

}  // namespace moesim
