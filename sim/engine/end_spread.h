// How far apart alike items end.
//
// A round of loads, all that an item keeps in flight, comes back now sooner, now later. Items that started together are
// therefore as a random walk of so many rounds apart when they end, and the last of many ends late. Their deviations are
// drawn evenly from the normal distribution, in the order of a golden-ratio sequence: the same ones in every run, and as
// far out as so many random ones would lie.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace moesim {

struct SpreadPart {
  std::int64_t items = 0;
  double deviation = 0;  // mean of these, in standard deviations
};

class EndSpread {
 public:
  // The next `items` items, in parts by their deviation, least first. Valid until the next call.
  [[nodiscard]] std::span<const SpreadPart> next(std::int64_t items, std::int64_t gang);
  // For items that end together: the share of the distribution, in (0, 1), that lies below. Drawn at random: draws as even as
  // the others would cancel out over the waves.
  [[nodiscard]] double next_together();

 private:
  static constexpr std::size_t kParts = 4;
  std::int64_t drawn_ = 0;  // gangs; one ends as a whole
  std::uint64_t together_ = 0;
  std::array<SpreadPart, kParts> parts_{};
};

}  // namespace moesim
