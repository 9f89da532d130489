// Whole-number division that rounds up.
#pragma once

#include <cstdint>

namespace moesim {

// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// The smallest multiple of `granule` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t granule) {
  return divide_up(value, granule) * granule;
}

}  // namespace moesim
