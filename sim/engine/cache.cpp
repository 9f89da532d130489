#include "sim/engine/cache.h"

#include <algorithm>
#include <cmath>

namespace moesim {

int CacheState::miss_steps(std::size_t region, double fraction) const {
  const Mark& mark = marks_[region];
  if (!mark.known) return kShareSteps;
  const double distance = position_ - (mark.begin + fraction * (mark.end - mark.begin));
  const double ramp = kRampShare * capacity_;
  const double miss = std::clamp((distance - (capacity_ - ramp)) / (2 * ramp), 0.0, 1.0);
  return static_cast<int>(std::lround(miss * kShareSteps));
}

}  // namespace moesim
