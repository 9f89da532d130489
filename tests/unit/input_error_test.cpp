#include "sim/io/input_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace moesim {
namespace {

TEST(InputError, OneLineNamesFilePlaceFoundExpectedAndNearest) {
  const InputError error({"h200.json", "/hbm/bandwith", "unknown key", "one of bandwidth", "bandwidth"});
  EXPECT_STREQ(error.what(),
               "h200.json: /hbm/bandwith: found unknown key, expected one of bandwidth; did you mean 'bandwidth'?");
}

TEST(InputError, LeavesOutWhatIsNotKnown) {
  EXPECT_STREQ(InputError({"", "", "0", "a positive number", ""}).what(), "found 0, expected a positive number");
  EXPECT_STREQ(InputError({"--tokens", "", "0", "more", ""}).what(), "--tokens: found 0, expected more");
  EXPECT_STREQ(InputError({"", "/a", "0", "more", ""}).what(), "/a: found 0, expected more");
}

TEST(InputError, ControlCharactersOfTheInputDoNotReachTheTerminal) {
  const std::string what = InputError({"f", "", "'a\n\x1b[31mb\x7f'", "text", ""}).what();
  EXPECT_EQ(what, "f: found 'a  [31mb ', expected text");
}

TEST(InputError, KeepsTheParts) {
  const InputError error({"f", "/p", "x", "y", "z"});
  EXPECT_EQ(error.problem().file, "f");
  EXPECT_EQ(error.problem().where, "/p");
  EXPECT_EQ(error.problem().found, "x");
  EXPECT_EQ(error.problem().expected, "y");
  EXPECT_EQ(error.problem().nearest, "z");
}

TEST(NearestName, FindsOneSlipOfEachKind) {
  const std::vector<std::string> names = {"bandwidth", "latency", "capacity"};
  EXPECT_EQ(nearest_name("bandwith", names), "bandwidth");   // a letter left out
  EXPECT_EQ(nearest_name("latenncy", names), "latency");     // one too many
  EXPECT_EQ(nearest_name("capasity", names), "capacity");    // a wrong one
  EXPECT_EQ(nearest_name("bandwidht", names), "bandwidth");  // two swapped
  EXPECT_EQ(nearest_name("bandwidth", names), "bandwidth");  // none
}

TEST(NearestName, SwapCountsOnce) {
  // One swap from "abcd", two replacements from "bcdd" would tie if a swap counted as two.
  EXPECT_EQ(nearest_name("acbd", {"acxx", "abcd"}), "abcd");
}

TEST(NearestName, PrefersTheNearerAndThenTheEarlier) {
  EXPECT_EQ(nearest_name("gemm3", {"gemm12", "gemm1"}), "gemm1");
  EXPECT_EQ(nearest_name("gemm3", {"gemm1", "gemm2"}), "gemm1");
  EXPECT_EQ(nearest_name("gemm3", {"gemm2", "gemm1"}), "gemm2");
}

TEST(NearestName, AThirdOfTheLongerNameIsTheLimit) {
  EXPECT_EQ(nearest_name("abcdefxyz", {"abcdefghi"}), "abcdefghi");  // 3 of 9
  EXPECT_EQ(nearest_name("abcdewxyz", {"abcdefghi"}), "");           // 4 of 9
}

TEST(NearestName, NothingNear) {
  EXPECT_EQ(nearest_name("frequency", {"hidden", "topk"}), "");
  EXPECT_EQ(nearest_name("frequency", {}), "");
  EXPECT_EQ(nearest_name(std::string(201, 'a'), {std::string(201, 'a')}), "");
}

}  // namespace
}  // namespace moesim
