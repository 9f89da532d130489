#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <utility>

namespace moesim::fuzz {
namespace {

std::size_t place(testkit::Random& random, std::size_t size) {
  return static_cast<std::size_t>(random.whole(0, static_cast<std::int64_t>(size)));
}

}  // namespace

const std::vector<std::string_view>& json_words() {
  using namespace std::string_view_literals;
  static const std::vector<std::string_view> words = {"\""sv,
                                                      "{"sv,
                                                      "}"sv,
                                                      "["sv,
                                                      "]"sv,
                                                      ":"sv,
                                                      ","sv,
                                                      "null"sv,
                                                      "true"sv,
                                                      "false"sv,
                                                      "-1"sv,
                                                      "0"sv,
                                                      "-0"sv,
                                                      "1.5"sv,
                                                      "1e999"sv,
                                                      "-1e999"sv,
                                                      "1e-999"sv,
                                                      "1e308"sv,
                                                      "NaN"sv,
                                                      "Infinity"sv,
                                                      "9223372036854775807"sv,
                                                      "9223372036854775808"sv,
                                                      "18446744073709551616"sv,
                                                      "123456789012345678901234567890"sv,
                                                      "\\u0000"sv,
                                                      "\\ud800"sv,
                                                      "\0"sv,
                                                      "\xff"sv,
                                                      "\xc3\x28"sv,
                                                      "\xe2\x82\xac"sv,
                                                      "\n"sv,
                                                      "//"sv,
                                                      "/*"sv,
                                                      "[[[[[[[[[[[[[[[[[[[[[[[["sv,
                                                      "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"sv,
                                                      "\"\":0,"sv,
                                                      "TB/s"sv,
                                                      "us"sv,
                                                      "1 us"sv,
                                                      "-3 TB/s"sv,
                                                      "1e30 GB"sv};
  return words;
}

std::string mutate(testkit::Random& random, std::string text, const std::vector<std::string_view>& words) {
  for (std::int64_t n = random.whole(1, 4); n > 0; --n) {
    const std::size_t at = place(random, text.size());
    const std::size_t length = std::min(place(random, random.chance(0.8) ? 8 : 400), text.size() - at);
    switch (random.whole(0, 8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.whole(0, 7)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random.whole(0, 255));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random.whole(0, 255)));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, std::string(text, at, length));
        break;
      case 5: {
        const std::size_t other = place(random, text.size() - length);
        text.replace(at, length, std::string(text, other, length));
        break;
      }
      case 6:
        if (!words.empty()) text.insert(at, words[place(random, words.size() - 1)]);
        break;
      case 7:
        if (!words.empty()) text.replace(at, length, words[place(random, words.size() - 1)]);
        break;
      case 8:
        if (random.chance(0.3)) text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace moesim::fuzz
