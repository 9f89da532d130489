#include "sim/io/flag_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "sim/io/input_error.h"

namespace moesim {

std::int64_t parse_whole(const std::string& flag, const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || value < min || value > max) {
    throw InputError({flag, "", fmt::format("'{}'", text), fmt::format("a whole number from {} to {}", min, max), ""});
  }
  return value;
}

double parse_number(const std::string& flag, const std::string& text, double min, double max) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || !(value >= min && value <= max)) {
    throw InputError({flag, "", fmt::format("'{}'", text), fmt::format("a number from {} to {}", min, max), ""});
  }
  return value;
}

std::vector<std::string> split_list(const std::string& flag, const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    if (pieces.back().empty()) {
      throw InputError({flag, "", text.empty() ? "an empty list" : fmt::format("an empty piece in '{}'", text),
                        "values separated by commas", ""});
    }
    begin = end + 1;
  }
  return pieces;
}

}  // namespace moesim
