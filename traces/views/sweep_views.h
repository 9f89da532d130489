// Views of a sweep, point by point: a file's first line, the lines of a point, and where in a sweep a line belongs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "workloads/studies/sweep.h"

namespace moesim {

// A line of a point, as far as whoever continues a file needs to know it.
struct SweepPlace {
  std::size_t point = 0;
  std::string request;
};

struct SweepView {
  const char* name;        // of --format, and the ending of a file
  bool first_line_is_all;  // that of another request differs
  std::string (*first_line)(const Sweep& sweep);
  std::string (*lines)(const Sweep& sweep, const SweepPoint& point);
  std::optional<SweepPlace> (*place)(std::string_view line);  // nullopt: it is no such line
};

// "csv" with a heading; "jsonl", whose first line says what the sweep is.
std::span<const SweepView> sweep_views();

}  // namespace moesim
