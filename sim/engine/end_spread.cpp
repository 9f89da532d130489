#include "sim/engine/end_spread.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/normal.h"
#include "sim/units/mix.h"

namespace moesim {
namespace {

constexpr double kGolden = 0.6180339887498949;
// Standard deviations. Few items lie far out, but they are the last.
constexpr std::array<double, 3> kEdges = {0, 1, 2};

}  // namespace

std::span<const SpreadPart> EndSpread::next(std::int64_t items, std::int64_t gang) {
  parts_.fill({});
  for (std::int64_t i = 0; i < items; i += gang, ++drawn_) {
    const double at = 0.5 + static_cast<double>(drawn_) * kGolden;  // the first at the mean
    const double deviation = normal_quantile(at - std::floor(at));
    const auto part = std::upper_bound(kEdges.begin(), kEdges.end(), deviation) - kEdges.begin();
    SpreadPart& into = parts_[static_cast<std::size_t>(part)];
    const std::int64_t ends = std::min(gang, items - i);
    into.deviation += deviation * static_cast<double>(ends);
    into.items += ends;
  }
  const auto end = std::remove_if(parts_.begin(), parts_.end(), [](const SpreadPart& p) { return p.items == 0; });
  for (auto part = parts_.begin(); part != end; ++part) part->deviation /= static_cast<double>(part->items);
  return {parts_.begin(), end};
}

double EndSpread::next_together() { return (static_cast<double>(mix(kMixStep * together_++) >> 11) + 0.5) * 0x1p-53; }

}  // namespace moesim
