// A crossover study as one HTML file that needs no network: a map of winners, and times along the axis.
#pragma once

#include <iosfwd>

#include "workloads/studies/crossover.h"

namespace moesim {

void write_crossover_html(const CrossoverStudy& study, std::ostream& out);

}  // namespace moesim
