// The only way from Cycles to time.
#pragma once

#include "sim/units/quantity.h"

namespace moesim {

class Clock {
 public:
  constexpr explicit Clock(Hertz frequency) : frequency_(frequency) {}
  [[nodiscard]] constexpr Hertz frequency() const { return frequency_; }
  [[nodiscard]] constexpr double seconds(Cycles cycles) const { return cycles.value() / frequency_.value(); }
  [[nodiscard]] Duration duration(Cycles cycles) const { return duration_from_seconds(seconds(cycles)); }

 private:
  Hertz frequency_;
};

}  // namespace moesim
