#include "traces/profiler/decimal_time.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace moesim {
namespace {

constexpr std::int64_t kMostDigits = 18;  // of an int64
constexpr std::int64_t kFractionDigits = 6;
constexpr std::int64_t kFractionUnit = 1'000'000;

}  // namespace

std::optional<DecimalTime> parse_decimal_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  std::int64_t exponent = 0;
  if (const std::size_t mark = text.find_first_of("eE"); mark != std::string_view::npos) {
    std::string_view digits = text.substr(mark + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) return std::nullopt;
    text = text.substr(0, mark);
  }
  std::string digits;
  const std::size_t dot = std::min(text.find('.'), text.size());
  digits.append(text.substr(0, dot));
  auto point = static_cast<std::int64_t>(digits.size());
  if (dot < text.size()) digits.append(text.substr(dot + 1));
  const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  if (digits.empty()) return DecimalTime{};
  point -= static_cast<std::int64_t>(zeros);
  if (exponent > kMostDigits || exponent < -(std::int64_t{1} << 40)) return std::nullopt;
  point += exponent;
  if (point > kMostDigits) return std::nullopt;

  // The digit that stands `place` places after the point (0: the first), 0 where none is written.
  const auto digit = [&](std::int64_t place) -> std::int64_t {
    const std::int64_t index = point + place;
    return index < 0 || index >= static_cast<std::int64_t>(digits.size())
               ? 0
               : digits[static_cast<std::size_t>(index)] - '0';
  };
  DecimalTime time;
  for (std::int64_t place = -std::max<std::int64_t>(point, 0); place < 0; ++place)
    time.whole = time.whole * 10 + digit(place);
  for (std::int64_t place = 0; place < kFractionDigits; ++place) time.fraction = time.fraction * 10 + digit(place);
  if (negative) {
    time.whole = -time.whole;
    if (time.fraction > 0) {
      --time.whole;
      time.fraction = kFractionUnit - time.fraction;
    }
  }
  return time;
}

}  // namespace moesim
