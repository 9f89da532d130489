// Decimal microseconds as traces write them, without a double's loss: 1,790,857,026,000,000.123 us has 19 digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moesim {

struct DecimalTime {
  std::int64_t whole = 0;     // microseconds, rounded down
  std::int64_t fraction = 0;  // picoseconds, [0, 1e6); what is finer is cut off
};

// `text` is a JSON number. nullopt: beyond 18 digits of microseconds.
std::optional<DecimalTime> parse_decimal_time(std::string_view text);

}  // namespace moesim
