// Where along whole numbers a label changes: coarse places first, then bisection between neighbours whose labels differ.
//
// Of n coarse places and c changes about n + c log2(gap) places are looked at. A stretch that is narrower than a gap and
// has the same label on both sides is not seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace moesim {

struct AxisPlace {
  std::size_t line = 0;  // of a map, each of which is searched for itself
  std::int64_t at = 0;

  auto operator<=>(const AxisPlace&) const = default;
};

// Of each place, in the order asked; called once a wave, so that the places of a wave can be worked on at once. A place is
// asked for once.
using LabelsOf = std::function<std::vector<int>(const std::vector<AxisPlace>&)>;

// What is known of a line: labels by place, among them both sides of each change that was found.
using KnownLabels = std::map<std::int64_t, int>;

// `coarse` ascends and is not empty.
std::vector<KnownLabels> find_borders(std::size_t lines, const std::vector<std::int64_t>& coarse,
                                      const LabelsOf& labels_of);

// Neighbouring known places of one label: from the first to the last of them.
struct Stretch {
  std::int64_t from = 0, to = 0;
  int label = 0;

  bool operator==(const Stretch&) const = default;
};
std::vector<Stretch> stretches_of(const KnownLabels& known);

// 1, 2, 3, 4, 6, 8, 12, 16, ...: `from`, `to` and between them 2^i and 3 x 2^i. 0 < from <= to.
std::vector<std::int64_t> geometric_places(std::int64_t from, std::int64_t to);

}  // namespace moesim
