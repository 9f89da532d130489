// A grid of axes: the points of a sweep, in order.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "workloads/studies/axis.h"
#include "workloads/studies/keep.h"

namespace moesim {

struct AxisGrid {
  std::vector<Axis> axes;               // the last one varies fastest; no name twice
  std::vector<std::string> strategies;  // of the file; empty: not stated there
  Keep keep = Keep::kNothing;

  [[nodiscard]] std::size_t points() const;  // 1 without axes
  // Of the point with this number: a value of each axis, in the order of the axes.
  [[nodiscard]] std::vector<AxisValue> values(std::size_t point) const;
};

// Throws InputError: a name that is there already, or more points than can be numbered well.
void add_axis(AxisGrid& grid, Axis axis, const std::string& flag);

// One object {"schema": "moesim.grid/1", "vary": {NAME: "LIST" | value | [value, ...], ...}, "keep": "active",
// "strategies": ["grouped_gemm:block_m=32", ...]}: names and texts as in --vary, in file order; a text in an array is one
// piece. Unknown keys are errors. Throws InputError.
AxisGrid load_grid(const std::string& path);
AxisGrid parse_grid(const std::string& text, const std::string& file_name);

}  // namespace moesim
