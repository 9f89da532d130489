// The list of all numbers that a device file can hold.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "hwmodels/hardware_model.h"

namespace moesim {

// Whether a device file must, may or must not hold a number.
enum class Presence { kRequired, kOptional, kWithGroup, kUnknown };  // kWithGroup: all of a group, or none

struct HwEntry {
  Hw id;
  const char* path;  // "hbm.bandwidth": nested objects in the file, dotted in --set
  Dimension dimension;
  double min, max;                // inclusive, base unit
  bool whole;                     // a count: no fraction
  Presence parallel, sequential;  // by the device's kind of grid
  const char* meaning;            // one line

  [[nodiscard]] Presence presence(Grid grid) const { return grid == Grid::kParallel ? parallel : sequential; }
};

std::span<const HwEntry> hw_schema();  // in the order of Hw
const HwEntry& hw_entry(Hw id);
// Throws InputError naming file and place: out of range, or a fraction of what is whole.
void require_valid(const HwEntry& entry, double value, const std::string& file, const std::string& where);
const char* source_kind_name(SourceKind kind);  // "datasheet", ...
const char* grid_name(Grid grid);               // "parallel", "sequential"

}  // namespace moesim
