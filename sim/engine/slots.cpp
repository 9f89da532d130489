#include "sim/engine/slots.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/units/check.h"

namespace moesim {
namespace {

std::int64_t fit(const ResourceVector& free, const ResourceVector& need) {
  std::int64_t items = std::numeric_limits<std::int64_t>::max();
  for (std::size_t r = 0; r < kResourceCount; ++r) {
    if (need[r] > 0) items = std::min(items, std::max<std::int64_t>(0, free[r]) / need[r]);
  }
  MOESIM_CHECK(items < std::numeric_limits<std::int64_t>::max());  // a footprint of nothing
  return items;
}

}  // namespace

std::int64_t items_per_unit(const Machine& machine, const ResourceVector& footprint) {
  return fit(machine.unit_capacity, footprint);
}

std::int64_t slots_beside(const Machine& machine, const ResourceVector& footprint, std::span<const Resident> others) {
  if (others.empty()) return machine.units * fit(machine.unit_capacity, footprint);
  // The units that hold one more item of a kernel follow those of the kernel before it, as breadth-first filling lays
  // them.
  std::vector<std::int64_t> cuts = {0, machine.units};
  std::int64_t next = 0;
  struct Extra {
    std::int64_t begin, end;  // units, cyclic range [begin, end) with end possibly beyond the last unit
  };
  std::vector<Extra> extras;
  for (const Resident& other : others) {
    const std::int64_t extra = other.items % machine.units;
    extras.push_back({next, next + extra});
    cuts.push_back(next % machine.units);
    cuts.push_back((next + extra) % machine.units);
    next = (next + extra) % machine.units;
  }
  std::sort(cuts.begin(), cuts.end());
  std::int64_t slots = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    ResourceVector free = machine.unit_capacity;
    for (std::size_t k = 0; k < others.size(); ++k) {
      const bool fuller =
          (cuts[i] >= extras[k].begin && cuts[i] < extras[k].end) || cuts[i] + machine.units < extras[k].end;
      const std::int64_t here = others[k].items / machine.units + (fuller ? 1 : 0);
      for (std::size_t r = 0; r < kResourceCount; ++r) free[r] -= here * (*others[k].footprint)[r];
    }
    slots += (cuts[i + 1] - cuts[i]) * fit(free, footprint);
  }
  return slots;
}

std::int64_t items_on_fuller_units(std::int64_t units, std::int64_t total, std::int64_t first, std::int64_t count) {
  const std::int64_t extra = total % units;
  const auto below = [&](std::int64_t n) { return n / units * extra + std::min(n % units, extra); };
  return below(first + count) - below(first);
}

}  // namespace moesim
