// The normal distribution.
#pragma once

#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <numbers>

namespace moesim {

// Share below x standard deviations from the mean.
inline double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The x of a share in [0, 1]; at its ends infinite. In doubles alone: machines differ in what is longer.
inline double normal_quantile(double share) {
  using namespace boost::math::policies;
  using Doubles = policy<overflow_error<ignore_error>, promote_double<false>>;
  return std::numbers::sqrt2 * boost::math::erf_inv(2 * share - 1, Doubles());
}

}  // namespace moesim
