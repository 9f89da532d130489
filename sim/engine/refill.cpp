#include "sim/engine/refill.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/engine/normal.h"

namespace moesim {
namespace {

// Of the variance of the ends of alike items in flight together, what all of a unit have in common. CTAs of Triton tiles, three
// on an SM of an H200: 0.18 to 0.3 of it from 4,096 values of K; of shorter ones it drowns in their own
// (validation/measured/h200-2026-12-01-waves, `unit_share`).
constexpr double kUnitShare = 0.3;

// Gauss-Hermite quadrature of three points over the unit's own part.
constexpr std::array<double, 3> kNodes = {-1.7320508075688772, 0, 1.7320508075688772};
constexpr std::array<double, 3> kWeights = {1.0 / 6, 2.0 / 3, 1.0 / 6};

// Share of the items that lie on units with 1 to `slots` of them.
std::vector<double> shares_by_level(std::int64_t slots, double filled) {
  std::vector<double> shares(static_cast<std::size_t>(slots));
  const double limit = normal_quantile(filled);
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    const double ends = normal_share((limit - std::sqrt(kUnitShare) * kNodes[i]) / std::sqrt(1 - kUnitShare));
    // Seen from one of them, the others are binomial: summed up from the likelier end, where no power underflows.
    const bool most_end = ends > 0.5;
    const double likelier = most_end ? ends : 1 - ends, odds = (1 - likelier) / likelier;
    double others = std::pow(likelier, static_cast<double>(slots - 1));
    for (std::int64_t n = 0; n < slots; ++n) {
      shares[static_cast<std::size_t>(most_end ? slots - 1 - n : n)] += kWeights[i] * ends * others;
      others *= odds * static_cast<double>(slots - 1 - n) / static_cast<double>(n + 1);
    }
  }
  double all = 0;
  for (const double share : shares) all += share;
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace

RefillLevels::RefillLevels(std::int64_t units, std::int64_t slots, std::int64_t items) {
  const auto all = static_cast<double>(items);
  const std::vector<double> shares = shares_by_level(slots, all / static_cast<double>(units * slots));
  // The fullest units: of the highest level that at least one unit is expected to have, or more.
  std::int64_t fullest = slots;
  double top = shares.back();
  while (fullest > 1 && top * all < static_cast<double>(fullest))
    top += shares[static_cast<std::size_t>(--fullest) - 1];
  // The others in two halves, each of its mean level.
  levels_ = {1, 1, fullest};
  shares_ = {(1 - top) / 2, (1 - top) / 2, top};
  std::size_t level = 0;
  double left = shares[0];
  for (std::size_t part = 0; part + 1 < kParts; ++part) {
    double wanted = shares_[part], sum = 0;
    while (wanted > 1e-12 && level + 1 < static_cast<std::size_t>(fullest)) {
      const double taken = std::min(wanted, left);
      sum += taken * static_cast<double>(level + 1);
      wanted -= taken;
      left -= taken;
      if (left <= 1e-12) left = shares[++level];
    }
    if (shares_[part] > 0) levels_[part] = std::clamp<std::int64_t>(std::llround(sum / shares_[part]), 1, fullest);
  }
}

std::span<const RefillPart> RefillLevels::next(std::int64_t items) {
  std::int64_t left = items;
  std::size_t used = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    drawn_[part] += shares_[part] * static_cast<double>(items);
    const std::int64_t some = part + 1 == kParts ? left : std::clamp<std::int64_t>(std::llround(drawn_[part]), 0, left);
    drawn_[part] -= static_cast<double>(some);
    left -= some;
    if (some == 0) continue;
    if (used > 0 && parts_[used - 1].level == levels_[part]) {
      parts_[used - 1].items += some;
    } else {
      parts_[used++] = {some, levels_[part]};
    }
  }
  return {parts_.data(), used};
}

}  // namespace moesim
