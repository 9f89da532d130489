#include "workloads/routing/expert_picker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/units/check.h"

namespace moesim {
namespace {

// Beyond this share of the popularity, drawing again would take more than four draws on average.
constexpr double kMostHeldShare = 0.75;
// Longer rows are shuffled in their first part only, which is a valid step too.
constexpr std::size_t kMostShuffled = 256;

}  // namespace

ExpertPicker::ExpertPicker(std::span<const double> weights, std::int32_t first)
    : first_(first), columns_(weights.size()), shares_(weights.begin(), weights.end()) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  MOESIM_CHECK(sum > 0);
  const auto experts = static_cast<double>(weights.size());
  std::vector<double> height(weights.size());  // of each expert's column, 1 on average
  std::vector<std::size_t> low, high;
  for (std::size_t e = 0; e < weights.size(); ++e) {
    shares_[e] = weights[e] / sum;
    height[e] = shares_[e] * experts;
    columns_[e].other = static_cast<std::int32_t>(e);
    (height[e] < 1 ? low : high).push_back(e);
  }
  while (!low.empty() && !high.empty()) {
    const std::size_t short_one = low.back(), tall = high.back();
    low.pop_back();
    columns_[short_one] = {static_cast<std::uint32_t>(height[short_one] * 0x1p32), static_cast<std::int32_t>(tall)};
    height[tall] -= 1 - height[short_one];
    if (height[tall] < 1) {
      high.pop_back();
      low.push_back(tall);
    }
  }
}

std::int32_t ExpertPicker::pick(RandomStream& stream) const {
  const std::uint64_t bits = stream.bits();
  const std::uint64_t at = ((bits >> 32U) * columns_.size()) >> 32U;
  const Column& column = columns_[at];
  return first_ + (static_cast<std::uint32_t>(bits) < column.own ? static_cast<std::int32_t>(at) : column.other);
}

std::int32_t ExpertPicker::pick_from_rest(const HeldExperts& held, RandomStream& stream) const {
  const std::int32_t end = first_ + static_cast<std::int32_t>(shares_.size());
  double rest = 0;
  std::int32_t last = -1;
  for (std::int32_t e = first_; e < end; ++e) {
    if (held.holds(e)) continue;
    rest += share(e);
    last = e;
  }
  double place = rest * stream.unit();
  for (std::int32_t e = first_; e < last; ++e) {
    if (held.holds(e)) continue;
    place -= share(e);
    if (place <= 0) return e;
  }
  return last;
}

// P(order) / product of the popularities: 1 / product of what is left before each pick.
double ExpertPicker::order_weight(std::span<const std::int32_t> row) const {
  constexpr double kLeast = 1e-15;  // what rounding may leave of nothing
  double left = 1, product = 1;
  for (const std::int32_t expert : row.first(row.size() - 1)) {
    left = std::max(kLeast, left - share(expert));
    product *= left;
  }
  return 1 / product;
}

void ExpertPicker::shuffle(std::span<std::int32_t> row, bool by_popularity, RandomStream& stream) const {
  const double before = by_popularity ? order_weight(row) : 0;
  std::array<std::uint8_t, kMostShuffled> swaps{};
  const std::size_t count = std::min(row.size(), swaps.size());
  for (std::size_t i = count; i > 1; --i) {
    swaps[i - 1] = static_cast<std::uint8_t>(stream.index(i));
    std::swap(row[i - 1], row[swaps[i - 1]]);
  }
  if (!by_popularity || stream.unit() * before <= order_weight(row)) return;
  for (std::size_t i = 2; i <= count; ++i) std::swap(row[i - 1], row[swaps[i - 1]]);
}

std::int32_t ExpertPicker::next(double& held_share, HeldExperts& held, RandomStream& stream) const {
  std::int32_t expert = 0;
  if (held_share > kMostHeldShare) {
    expert = pick_from_rest(held, stream);
  } else {
    do expert = pick(stream);
    while (held.holds(expert));
  }
  held.add(expert);
  held_share += share(expert);
  return expert;
}

void ExpertPicker::fill(std::span<std::int32_t> row, std::size_t filled, HeldExperts& held,
                        RandomStream& stream) const {
  double held_share = 0;
  for (std::size_t i = 0; i < filled; ++i) held_share += share(row[i]);
  for (std::size_t i = filled; i < row.size(); ++i) row[i] = next(held_share, held, stream);
}

}  // namespace moesim
