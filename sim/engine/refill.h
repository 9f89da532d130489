// How the last items of a kernel lie on units.
//
// Items that replace others start where slots come free. What a unit's items are early or late by is in part the unit's own, so
// that of few last items some units take several and most take none, where a first wave is spread evenly.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace moesim {

struct RefillPart {
  std::int64_t items = 0;
  std::int64_t level = 1;  // such items on each of their units
};

class RefillLevels {
 public:
  RefillLevels() = default;
  // `items` last ones on `units` of `slots` each, fewer than all of these.
  RefillLevels(std::int64_t units, std::int64_t slots, std::int64_t items);

  // The next `items` items, by level, the fewest first. Valid until the next call.
  [[nodiscard]] std::span<const RefillPart> next(std::int64_t items);

 private:
  static constexpr std::size_t kParts = 3;
  std::array<double, kParts> shares_{};  // of the items
  std::array<double, kParts> drawn_{};   // of earlier ones, less what they were given
  std::array<std::int64_t, kParts> levels_{};
  std::array<RefillPart, kParts> parts_{};
};

}  // namespace moesim
