// A profiler trace and the simulation of its MoE layers as one timeline: per section the measured kernels of each stream,
// the layers found, and the simulated layer, which begins where each measured one does.
#pragma once

#include "traces/comparison.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

// `trace` and `layers` are what `comparison` was made of. Does not finish().
void write_comparison_timeline(const ProfilerTrace& trace, const TraceLayers& layers, const Comparison& comparison,
                               TrackWriter& writer);

}  // namespace moesim
