// Error bars of a study: p5 to p95 of each strategy's time, and how likely each is the fastest.
//
//   interval = time x exp(residual quantiles, widened)                    (hwmodels/residuals.h: by what, and why nothing counts twice)
//   variance of the constants = g^T C g                                   g: change of ln(time) a standard error, C: their correlation
//
// g is of central differences one standard error either way, in the first routing. A strategy without a fit, or beyond its
// tokens, or in a whole decode step, whose other parts no fit has seen, has the residuals of uncalibrated predictions. Where these
// are of another device, the ranges of this device's constants (hwmodels/uncertainty.h) are added as independent ones.
//
// The fastest: `draws` times all strategies get an error each, from their quantiles through a Gaussian copula with the
// overlay's correlation between strategies; counted is how often which is fastest.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "workloads/studies/concurrency.h"

namespace moesim {

// Sets the intervals of `study`, which is of this request, and its record. What no residual stands for has none.
// `progress`: points simulated.
void add_uncertainty(const ConcurrencyRequest& request, ConcurrencyStudy& study,
                     const std::function<void(std::size_t done, std::size_t all)>& progress);

struct UncertainTime {
  double time = 0;  // any unit
  ErrorInterval error;
};
// How often each is the smallest. Same seed, same answer.
std::vector<double> fastest_probabilities(std::span<const UncertainTime> times, double correlation, std::uint64_t seed,
                                          std::int64_t draws);

inline constexpr std::int64_t kFastestDraws = 4000;

}  // namespace moesim
