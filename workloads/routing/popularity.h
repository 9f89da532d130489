// How popular each expert is, and how that changes with time.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/router.h"
#include "workloads/routing/random_stream.h"

namespace moesim {

// Laws that are a popularity per expert; the others are patterns of whole batches.
bool is_popularity_law(RoutingKind kind);

// The stream of popularity number `index` of a seed; 0 is what `draw_batch` uses.
RandomStream popularity_stream(std::uint64_t seed, std::uint64_t index);

// Weights above 0, in an order shuffled by the stream; `law` is a popularity law.
//   zipf:      r^-s of the expert of rank r
//   lognormal: exp(sigma z), z standard normal
//   dirichlet: gamma with shape c, so that the shares are Dirichlet(c, ..., c): a small c concentrates, a large one
//              evens out
std::vector<double> popularity_weights(const Routing& law, std::int64_t experts, RandomStream& stream);

// Weights that keep their values while the experts change places: each expert has a level, a stationary AR(1) process,
// and the expert with the r-th highest level has the r-th largest weight. So the law of the loads stays and the hot
// experts change. Over one move levels correlate by `correlation`.
class DriftingPopularity {
 public:
  DriftingPopularity(std::vector<double> weights, RandomStream& stream);

  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }
  void move(double correlation, RandomStream& stream);

 private:
  void assign();

  std::vector<double> sorted_, weights_, levels_;
};

}  // namespace moesim
