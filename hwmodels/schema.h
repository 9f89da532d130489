// The list of all numbers that a device file can hold.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "hwmodels/hardware_model.h"

namespace moesim {

struct HwEntry {
  Hw id;
  const char* path;  // "hbm.bandwidth": nested objects in the file, dotted in --set
  Dimension dimension;
  double min, max;  // inclusive, base unit
  bool whole;       // a count: no fraction
  bool required;
  const char* meaning;  // one line
};

std::span<const HwEntry> hw_schema();  // in the order of Hw
const HwEntry& hw_entry(Hw id);
const char* source_kind_name(SourceKind kind);  // "datasheet", ...

}  // namespace moesim
