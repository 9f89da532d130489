#include "sim/engine/pipe.h"

#include <algorithm>

#include "sim/units/check.h"
#include "sim/units/integer.h"

namespace moesim {
std::int64_t Pipe::issued_rows(std::int64_t rows) const { return divide_up(rows, row_quantum) * row_quantum; }

Cycles Pipe::cycles(std::int64_t rows, std::int64_t columns, std::int64_t depth) const {
  MOESIM_CHECK(flops_per_cycle > 0 && row_quantum >= 1 && column_quantum >= 1 && depth_quantum >= 1);
  const auto tiles = static_cast<double>(divide_up(columns, column_quantum) * divide_up(depth, depth_quantum));
  const double tile_flops = 2.0 * static_cast<double>(issued_rows(rows)) * static_cast<double>(column_quantum) *
                            static_cast<double>(depth_quantum);
  double tile = tile_flops / flops_per_cycle;
  if (stationary_rows_per_cycle > 0) {
    tile = std::max(tile, static_cast<double>(depth_quantum) / stationary_rows_per_cycle);
  }
  return fill + Cycles(tiles * tile);
}

}  // namespace moesim
