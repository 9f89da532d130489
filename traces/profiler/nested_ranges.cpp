#include "traces/profiler/nested_ranges.h"

#include <algorithm>

namespace moesim {
namespace {

constexpr std::size_t kMostDepth = 256;  // deeper ranges are left out: a lookup climbs them

}  // namespace

void NestedRanges::add(std::int64_t thread, TimePoint start, TimePoint end, std::size_t value) {
  threads_[thread].push_back({start, end, value, std::nullopt});
}

void NestedRanges::seal() {
  for (auto& [thread, ranges] : threads_) {
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return a.start < b.start || (a.start == b.start && b.end < a.end);
    });
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      while (!open.empty() && ranges[open.back()].end <= ranges[i].start) open.pop_back();
      if (!open.empty()) ranges[i].outer = open.back();
      if (open.size() < kMostDepth) open.push_back(i);
    }
  }
}

std::optional<std::size_t> NestedRanges::find(std::int64_t thread, TimePoint at) const {
  const auto ranges = threads_.find(thread);
  if (ranges == threads_.end()) return std::nullopt;
  const std::vector<Range>& list = ranges->second;
  const auto after =
      std::upper_bound(list.begin(), list.end(), at, [](TimePoint t, const Range& range) { return t < range.start; });
  if (after == list.begin()) return std::nullopt;
  std::optional<std::size_t> index = static_cast<std::size_t>(after - list.begin()) - 1;
  while (index && list[*index].end <= at) index = list[*index].outer;
  if (!index) return std::nullopt;
  return list[*index].value;
}

}  // namespace moesim
