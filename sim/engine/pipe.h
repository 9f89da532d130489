// A matrix pipe: how many clocks a product takes, by type and tile.
//
// Equation: the product [m, k] x [k, n] is cut into stationary tiles of depth_quantum x column_quantum of the second
// operand. Each tile holds the pipe for
//     max( 2 * M * column_quantum * depth_quantum / flops_per_cycle,  depth_quantum / stationary_rows_per_cycle )
// clocks, M being m rounded up to row_quantum: a pipe whose next stationary operand is loaded while the present one
// works (a TPU's MXU takes one weight row a cycle before any product) is bound by that load when rows are few. A
// product starts with `fill` clocks. Left out: the shapes in between that an instruction set may offer; the caller
// chooses quanta.
#pragma once

#include <cstdint>

#include "sim/units/quantity.h"

namespace moesim {

struct Pipe {
  double flops_per_cycle = 1;    // of one unit, > 0
  std::int64_t row_quantum = 1;  // rows are issued in multiples of this
  std::int64_t column_quantum = 1;
  std::int64_t depth_quantum = 1;
  double stationary_rows_per_cycle = 0;  // 0: no operand has to be loaded first
  Cycles fill{};                         // before the first result

  [[nodiscard]] std::int64_t issued_rows(std::int64_t rows) const;
  [[nodiscard]] Cycles cycles(std::int64_t rows, std::int64_t columns, std::int64_t depth) const;
};

}  // namespace moesim
