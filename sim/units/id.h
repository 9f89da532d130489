// Typed indices: an Id<Kernel> cannot be used where an Id<Region> is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace moesim {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::uint32_t>(index)) {}
  [[nodiscard]] constexpr std::size_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::uint32_t index_ = 0;
};

}  // namespace moesim
