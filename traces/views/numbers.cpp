#include "traces/views/numbers.h"

#include <fmt/format.h>

#include <charconv>

namespace moesim {

double six_digits(double value) {
  const std::string text = fmt::format("{:.5e}", value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace moesim
