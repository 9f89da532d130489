#include "workloads/sessions/length_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr double kMostSigma = 5;
constexpr const char* kForms = "N, uniform:A..B, lognormal:MEDIAN,SIGMA or exponential:MEAN";

class Reader {
 public:
  Reader(const std::string& text, const std::string& flag) : text_(text), flag_(flag) {}

  [[noreturn]] void fail(const std::string& expected, const std::string& nearest = "") const {
    throw InputError({flag_, "", fmt::format("'{}'", text_), expected, nearest});
  }
  [[nodiscard]] double number(std::string_view piece, double least, double most, const char* what) const {
    double value = 0;
    const auto [stop, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    if (error != std::errc() || stop != piece.data() + piece.size() || !(value >= least && value <= most)) {
      fail(fmt::format("{} from {} to {}", what, least, most));
    }
    return value;
  }
  [[nodiscard]] double whole(std::string_view piece, std::int64_t least) const {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    if (error != std::errc() || stop != piece.data() + piece.size() || value < least || value > kMostLength) {
      fail(fmt::format("whole tokens from {} to {}", least, kMostLength));
    }
    return static_cast<double>(value);
  }
  [[nodiscard]] std::pair<std::string_view, std::string_view> two(std::string_view piece,
                                                                  std::string_view between) const {
    const std::size_t at = piece.find(between);
    if (at == std::string_view::npos) fail(kForms);
    return {piece.substr(0, at), piece.substr(at + between.size())};
  }

 private:
  const std::string& text_;
  const std::string& flag_;
};

}  // namespace

LengthLaw parse_length_law(const std::string& text, const std::string& flag, std::int64_t least) {
  const Reader reader(text, flag);
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (!number) reader.fail(kForms, nearest_name(text, {"uniform", "lognormal", "exponential"}));
    return {LengthLaw::Kind::kFixed, reader.whole(text, least), 0};
  }
  const std::string name = text.substr(0, colon);
  const std::string_view rest = std::string_view(text).substr(colon + 1);
  constexpr auto kMost = static_cast<double>(kMostLength);
  if (name == "uniform") {
    const auto [low, high] = reader.two(rest, "..");
    const LengthLaw law{LengthLaw::Kind::kUniform, reader.whole(low, 1), reader.whole(high, 1)};
    if (law.second < law.first) reader.fail("uniform:A..B with A <= B");
    return law;
  }
  if (name == "lognormal") {
    const auto [median, sigma] = reader.two(rest, ",");
    return {LengthLaw::Kind::kLognormal, reader.number(median, 1, kMost, "a median"),
            reader.number(sigma, 0, kMostSigma, "a sigma")};
  }
  if (name == "exponential") return {LengthLaw::Kind::kExponential, reader.number(rest, 1, kMost, "a mean"), 0};
  reader.fail(kForms, nearest_name(name, {"uniform", "lognormal", "exponential"}));
}

std::string length_law_name(const LengthLaw& law) {
  switch (law.kind) {
    case LengthLaw::Kind::kFixed:
      return fmt::format("{}", law.first);
    case LengthLaw::Kind::kUniform:
      return fmt::format("uniform:{}..{}", law.first, law.second);
    case LengthLaw::Kind::kLognormal:
      return fmt::format("lognormal:{},{}", law.first, law.second);
    case LengthLaw::Kind::kExponential:
      return fmt::format("exponential:{}", law.first);
  }
  return "";
}

std::int64_t draw_length(const LengthLaw& law, RandomStream& stream) {
  const auto whole = [](double tokens) {
    return std::llround(std::clamp(tokens, 1.0, static_cast<double>(kMostLength)));
  };
  switch (law.kind) {
    case LengthLaw::Kind::kFixed:
      return static_cast<std::int64_t>(law.first);
    case LengthLaw::Kind::kUniform:
      return static_cast<std::int64_t>(law.first) +
             static_cast<std::int64_t>(stream.below(static_cast<std::size_t>(law.second - law.first) + 1));
    case LengthLaw::Kind::kLognormal:
      return whole(law.first * std::exp(law.second * stream.normal()));
    case LengthLaw::Kind::kExponential:
      return whole(-law.first * std::log(stream.unit()));
  }
  return 1;
}

}  // namespace moesim
