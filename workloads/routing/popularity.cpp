// Sources: Zipf's law as rank-frequency; lognormal loads and their fits to real routers: measured duplicate shares;
// gamma variates by Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
// What it leaves out: which experts are popular together (each token's picks are independent but for being distinct),
// and any relation between the popularities of neighbouring layers.
#include "workloads/routing/popularity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/units/check.h"

namespace moesim {
namespace {

// log of a gamma variate of that shape. Below shape 1 the variate of shape + 1 is scaled by u^(1/shape), in logarithms
// because that underflows.
double log_gamma_variate(double shape, RandomStream& stream) {
  double boost = 0;
  if (shape < 1) {
    boost = std::log(stream.unit()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double z = stream.normal();
    const double root = 1 + c * z;
    const double u = stream.unit();
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(u) < z * z / 2 + d - d * v + d * std::log(v)) return boost + std::log(d * v);
  }
}

std::vector<double> dirichlet_weights(double concentration, std::int64_t experts, RandomStream& stream) {
  constexpr double kSmallest = 1e-290;  // of the largest: an expert that is never picked unless nothing else is left
  std::vector<double> weights(static_cast<std::size_t>(experts));
  for (double& weight : weights) weight = log_gamma_variate(concentration, stream);
  const double largest = *std::max_element(weights.begin(), weights.end());
  for (double& weight : weights) weight = std::max(kSmallest, std::exp(weight - largest));
  return weights;
}

}  // namespace

bool is_popularity_law(RoutingKind kind) {
  switch (kind) {
    case RoutingKind::kUniform:
    case RoutingKind::kZipf:
    case RoutingKind::kLognormal:
    case RoutingKind::kDirichlet:
      return true;
    case RoutingKind::kBalanced:
    case RoutingKind::kSame:
    case RoutingKind::kDisjoint:
    case RoutingKind::kPowerLaw:
    case RoutingKind::kTrace:
      return false;
  }
  return false;
}

RandomStream popularity_stream(std::uint64_t seed, std::uint64_t index) {
  return stream_of(seed, std::numeric_limits<std::uint64_t>::max() - index);
}

std::vector<double> popularity_weights(const Routing& law, std::int64_t experts, RandomStream& stream) {
  MOESIM_CHECK(is_popularity_law(law.kind));
  std::vector<double> weights(static_cast<std::size_t>(experts), 1.0);
  if (law.kind == RoutingKind::kUniform) return weights;
  if (law.kind == RoutingKind::kDirichlet) return dirichlet_weights(law.parameter, experts, stream);
  if (law.kind == RoutingKind::kLognormal) {
    for (double& weight : weights) weight = std::exp(law.parameter * stream.normal());
    return weights;
  }
  std::vector<std::int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  stream.deal(order, order.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    weights[static_cast<std::size_t>(order[rank])] = std::pow(static_cast<double>(rank + 1), -law.parameter);
  }
  return weights;
}

DriftingPopularity::DriftingPopularity(std::vector<double> weights, RandomStream& stream)
    : sorted_(std::move(weights)), levels_(sorted_.size()) {
  // The highest level to the largest weight, so that the first popularity is the one given.
  std::vector<std::size_t> order(sorted_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sorted_[a] > sorted_[b]; });
  std::vector<double> drawn(sorted_.size());
  for (double& level : drawn) level = stream.normal();
  std::sort(drawn.rbegin(), drawn.rend());
  for (std::size_t rank = 0; rank < order.size(); ++rank) levels_[order[rank]] = drawn[rank];
  std::sort(sorted_.rbegin(), sorted_.rend());
  assign();
}

void DriftingPopularity::move(double correlation, RandomStream& stream) {
  const double fresh = std::sqrt(1 - correlation * correlation);
  for (double& level : levels_) level = correlation * level + fresh * stream.normal();
  assign();
}

void DriftingPopularity::assign() {
  std::vector<std::size_t> order(levels_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return levels_[a] > levels_[b]; });
  weights_.resize(order.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) weights_[order[rank]] = sorted_[rank];
}

}  // namespace moesim
