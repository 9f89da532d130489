// Damaged input for parsers: seeded mutations of good input, and the rule that all tests here share.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/input_error.h"
#include "tests/testkit/kernels.h"

namespace moesim::fuzz {

// Sanitizers make the tests about ten times slower.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr int kMutations = 600;
#else
inline constexpr int kMutations = 4000;
#endif

// One to four of: bytes flipped, inserted, removed, repeated, exchanged; words of `words` or another place put in; the
// end cut off.
std::string mutate(testkit::Random& random, std::string text, const std::vector<std::string_view>& words);

// What upsets readers of JSON and of numbers.
const std::vector<std::string_view>& json_words();

struct Tally {
  int accepted = 0, refused = 0;
};

// Feeds `count` mutations of the good inputs to `parse`. Only InputError may come out, with a message of one line, and
// no input may take longer than a second.
template <class Parse>
Tally feed(const std::vector<std::string>& good, const std::vector<std::string_view>& words, std::uint64_t seed,
           int count, const Parse& parse) {
  testkit::Random random(seed);
  Tally tally;
  for (int i = 0; i < count; ++i) {
    const std::string& base =
        good[static_cast<std::size_t>(random.whole(0, static_cast<std::int64_t>(good.size()) - 1))];
    const std::string text = mutate(random, base, words);
    const auto begin = std::chrono::steady_clock::now();
    try {
      parse(text);
      ++tally.accepted;
    } catch (const InputError& error) {
      ++tally.refused;
      const std::string message = error.what();
      EXPECT_FALSE(message.empty());
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << i << " of seed " << seed << ": " << error.what()
                    << "\non: " << testing::PrintToString(text.substr(0, 400));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 1.0) << "mutation " << i << " of seed " << seed;
    if (testing::Test::HasFailure()) break;  // one is enough to mend
  }
  return tally;
}

}  // namespace moesim::fuzz
