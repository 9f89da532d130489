// Views of what choosing tiles by simulation costs.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tools/common_flags.h"
#include "validation/tile_choice.h"

namespace moesim {

struct TileChoiceReport {
  std::string tool_version, device, device_hash, calibration, measurements;
  std::vector<std::string> overrides, notes;
  double min_gain = 0;
  TileChoice choice;
};

void write_tile_choice(const TileChoiceReport& report, OutputFormat format, std::ostream& out);

}  // namespace moesim
