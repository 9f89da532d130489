// How many items of a kernel fit on the machine's units beside those of other kernels.
//
// Items are placed breadth-first on the least loaded unit, so that a kernel's items lie on units as evenly as they can
// be: a items on U units are floor(a / U) on each and one more on a mod U of them.
#pragma once

#include <cstdint>
#include <span>

#include "sim/engine/machine.h"

namespace moesim {

struct Resident {
  const ResourceVector* footprint;
  std::int64_t items;
};

// Items of `footprint` that fit on all units, given the items of other kernels.
std::int64_t slots_beside(const Machine& machine, const ResourceVector& footprint, std::span<const Resident> others);

// Of the items at positions [first, first + count) of a partly filled wave of `total`, those on units that hold one
// item more than the others (when total is a multiple of units: none).
std::int64_t items_on_fuller_units(std::int64_t units, std::int64_t total, std::int64_t first, std::int64_t count);

}  // namespace moesim
