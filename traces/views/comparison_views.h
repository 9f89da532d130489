// A comparison of a profiler trace with the simulation, in the formats of `moesim compare`.
#pragma once

#include <iosfwd>

#include "traces/comparison.h"

namespace moesim {

void write_comparison_table(const Comparison& comparison, std::ostream& out);
// One object, schema moesim.comparison/1. Times in microseconds and, exactly, in picoseconds.
void write_comparison_json(const Comparison& comparison, std::ostream& out);
// A line per section and stage; totals as the stages "all", "gaps" and "layer".
void write_comparison_csv(const Comparison& comparison, std::ostream& out);

}  // namespace moesim
