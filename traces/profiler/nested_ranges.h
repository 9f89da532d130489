// Ranges of time per thread, each within or apart from the others: which is the innermost at a moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

class NestedRanges {
 public:
  // In any order; `value` is the caller's.
  void add(std::int64_t thread, TimePoint start, TimePoint end, std::size_t value);
  // Once, before the first find().
  void seal();
  [[nodiscard]] std::optional<std::size_t> find(std::int64_t thread, TimePoint at) const;
  [[nodiscard]] bool empty() const { return threads_.empty(); }

 private:
  struct Range {
    TimePoint start, end;
    std::size_t value = 0;
    std::optional<std::size_t> outer;
  };
  std::map<std::int64_t, std::vector<Range>> threads_;
};

}  // namespace moesim
