#include "sim/io/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kMinInt = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

JsonDocument parse(const std::string& text) { return JsonDocument::parse(text, "f.json"); }

template <class Action>
InputProblem problem_of(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "no InputError";
  return {};
}

InputProblem parse_problem(const std::string& text) {
  const InputProblem problem = problem_of([&] { return parse(text); });
  EXPECT_EQ(problem.file, "f.json");
  return problem;
}

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(StrictJson, ReadsEveryKindOfValue) {
  const JsonDocument document = parse(R"({"i":-3,"d":2.5,"s":"x\u00e9","b":true,"n":null,"a":[1,[2]],"o":{"k":7}})");
  const JsonView root = document.root();
  EXPECT_EQ(root.at("i").as_int(kMinInt, kMaxInt), -3);
  EXPECT_EQ(root.at("d").as_double(0, 10), 2.5);
  EXPECT_EQ(root.at("s").as_string(), "x\u00e9");
  EXPECT_TRUE(root.at("b").as_bool());
  EXPECT_TRUE(root.at("n").is_null());
  EXPECT_EQ(root.at("a").at(1).at(0).as_int(0, 9), 2);
  EXPECT_EQ(root.at("o").at("k").as_int(0, 9), 7);
}

TEST(StrictJson, KnowsTheKindOfAValue) {
  const JsonDocument document = parse(R"([{}, [], "s", 1, true, null])");
  const JsonView root = document.root();
  EXPECT_TRUE(root.at(0).is_object());
  EXPECT_TRUE(root.at(1).is_array());
  EXPECT_TRUE(root.at(2).is_string());
  EXPECT_TRUE(root.at(3).is_number());
  EXPECT_TRUE(root.at(4).is_bool());
  EXPECT_TRUE(root.at(5).is_null());
  EXPECT_FALSE(root.at(4).is_number());
  EXPECT_FALSE(root.at(5).is_object());
}

TEST(StrictJson, KeepsKeysInFileOrder) {
  const JsonDocument document = parse(R"({"z":1,"a":2,"m":3})");
  EXPECT_THAT(document.root().keys(), ElementsAre("z", "a", "m"));
}

TEST(StrictJson, PointerNamesThePlaceAndEscapesTildeAndSlash) {
  const JsonDocument document = parse(R"({"a":[0,{"b/c~d":1}]})");
  EXPECT_EQ(document.root().pointer(), "");
  EXPECT_EQ(document.root().at("a").at(1).at("b/c~d").pointer(), "/a/1/b~1c~0d");
}

TEST(StrictJson, DuplicateKeyIsNamedByItsPointer) {
  EXPECT_EQ(parse_problem(R"({"a":{"b":1,"c":2,"b":3}})").where, "/a/b");
  EXPECT_EQ(parse_problem(R"({"l":[{},{"x/y":1,"x/y":1}]})").where, "/l/1/x~1y");
  // Written differently, yet the same key.
  EXPECT_EQ(parse_problem(R"({"a":1,"\u0061":2})").where, "/a");
}

TEST(StrictJson, OneKeyMayStandInTwoObjects) {
  EXPECT_NO_THROW(parse(R"({"a":{"k":1},"b":{"k":2},"k":[{"k":3},{"k":4}]})"));
}

TEST(StrictJson, NestingUpTo64) {
  EXPECT_NO_THROW(parse(nested(64)));
  EXPECT_THAT(parse_problem(nested(65)).expected, HasSubstr("64 levels"));
  EXPECT_THAT(parse_problem(nested(100000)).expected, HasSubstr("64 levels"));
}

TEST(StrictJson, IntegersBeyond64BitsAreRefusedNotRounded) {
  EXPECT_EQ(parse("9223372036854775807").root().as_int(0, kMaxInt), kMaxInt);
  EXPECT_EQ(parse("-9223372036854775808").root().as_int(kMinInt, 0), kMinInt);
  EXPECT_EQ(parse("18446744073709551615").root().describe(), "number 18446744073709551615");
  const InputProblem problem = parse_problem(R"({"a":[18446744073709551616]})");
  EXPECT_EQ(problem.where, "/a/0");
  EXPECT_THAT(problem.found, HasSubstr("18446744073709551616"));
  EXPECT_EQ(parse_problem("-9223372036854775809").where, "");
}

TEST(StrictJson, RealsBeyondDoubleAreRefused) {
  const InputProblem problem = parse_problem(R"({"a":{"b":1e999}})");
  EXPECT_EQ(problem.where, "/a/b");
  EXPECT_THAT(problem.found, HasSubstr("1e999"));
  EXPECT_THAT(parse_problem("[-1e999]").found, HasSubstr("-1e999"));
}

TEST(StrictJson, TruncatedTextNamesLineAndColumn) {
  const InputProblem problem = parse_problem("{\"a\": 1,\n \"b\": [1, 2");
  EXPECT_EQ(problem.where, "line 2, column 12");
  EXPECT_EQ(problem.found, "end of input");
  EXPECT_EQ(problem.expected, "']'");
  EXPECT_THAT(parse_problem("{\"a\": \"unfinis").found, HasSubstr("missing closing quote"));
}

TEST(StrictJson, SyntaxErrorsNameLineAndColumn) {
  EXPECT_EQ(parse_problem("[1,\n2,,3]").where, "line 2, column 3");
  EXPECT_EQ(parse_problem("{\"a\" 1}").expected, "':'");
  for (const char* text :
       {"{} {}", "[01]", "[1,]", "{\"a\":1,}", "nul", "// c\n1", "[NaN]", "[+1]", "{a:1}", "['a']"}) {
    EXPECT_THAT(parse_problem(text).where, HasSubstr("line 1, column ")) << text;
  }
}

// json.dump of Python writes them; who reads one finds no number.
TEST(StrictJson, PythonsNonFiniteNumbersAreNullInItsDialectAlone) {
  const JsonDocument document = JsonDocument::parse(
      R"({"a": [0.0, Infinity, -Infinity, NaN], "NaN": "Infinity \" NaN", "b": 1})", "file", JsonDialect::kPython);
  const JsonView list = document.root().at("a");
  EXPECT_EQ(list.at(0).as_double(0, 1), 0);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(list.at(i).is_null()) << i;
    EXPECT_THROW((void)list.at(i).as_double(-1, 1), InputError) << i;
  }
  EXPECT_EQ(document.root().at("NaN").as_string(), "Infinity \" NaN");
  EXPECT_EQ(document.root().at("b").as_int(0, 9), 1);
  for (const char* text : {"[Infinity]", "[-Infinity]", "[NaN]"}) EXPECT_THROW(parse(text), InputError) << text;
  for (const char* text : {"[Infinit]", "[nan]", "[1Infinity]", "[\"NaN]"}) {
    EXPECT_THROW(JsonDocument::parse(text, "file", JsonDialect::kPython), InputError) << text;
  }
  try {
    JsonDocument::parse("[Infinity, x]", "file", JsonDialect::kPython);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().where, "line 1, column 12");
  }
}

TEST(StrictJson, InvalidUtf8IsRefused) {
  for (const char* text : {"[\"\xC3\"]", "[\"\xFF\"]", "[\"\xED\xA0\x80\"]", "[\"\xC0\x80\"]"}) {
    EXPECT_THAT(parse_problem(text).found, HasSubstr("UTF-8")) << text;
  }
}

TEST(StrictJson, ZeroByteDoesNotHideTheRestOfTheText) {
  EXPECT_EQ(parse_problem(std::string("{}\0garbage", 10)).where, "line 1, column 3");
}

TEST(StrictJson, TextWithoutAValueIsCalledEmpty) {
  EXPECT_EQ(parse_problem("").found, "empty text");
  EXPECT_EQ(parse_problem(" \r\n\t").found, "empty text");
  EXPECT_EQ(parse_problem("\xEF\xBB\xBF").found, "empty text");
}

TEST(StrictJson, OneByteOrderMarkIsSkipped) {
  EXPECT_EQ(parse("\xEF\xBB\xBF[5]").root().at(0).as_int(0, 9), 5);
  EXPECT_EQ(parse_problem("\xEF\xBB\xBF[5,,]").where, "line 1, column 4");
}

TEST(StrictJson, AsIntTakesWholeNumbersOnly) {
  const JsonDocument document = parse(R"([2, 2.0, -2.0e3, 2.5, true, "2", null, 1e300, 18446744073709551615])");
  const JsonView root = document.root();
  EXPECT_EQ(root.at(0).as_int(kMinInt, kMaxInt), 2);
  EXPECT_EQ(root.at(1).as_int(kMinInt, kMaxInt), 2);
  EXPECT_EQ(root.at(2).as_int(kMinInt, kMaxInt), -2000);
  for (std::size_t i = 3; i < root.size(); ++i) {
    const InputProblem problem = problem_of([&] { return root.at(i).as_int(kMinInt, kMaxInt); });
    EXPECT_EQ(problem.where, root.at(i).pointer());
    EXPECT_EQ(problem.found, root.at(i).describe());
    EXPECT_EQ(problem.expected, "an integer");
  }
}

TEST(StrictJson, AsIntBoundsAreInclusive) {
  const JsonDocument document = parse("[1, 8]");
  EXPECT_EQ(document.root().at(0).as_int(1, 8), 1);
  EXPECT_EQ(document.root().at(1).as_int(1, 8), 8);
  EXPECT_EQ(problem_of([&] { return document.root().at(0).as_int(2, 8); }).expected, "an integer from 2 to 8");
  EXPECT_EQ(problem_of([&] { return document.root().at(1).as_int(1, 7); }).found, "number 8");
  EXPECT_EQ(problem_of([&] { return document.root().at(0).as_int(2, kMaxInt); }).expected, "an integer of at least 2");
}

TEST(StrictJson, AsDoubleBoundsAreInclusive) {
  const JsonDocument document = parse("[0.5, 3, true]");
  EXPECT_EQ(document.root().at(0).as_double(0.5, 1), 0.5);
  EXPECT_EQ(document.root().at(1).as_double(0, 3), 3.0);
  EXPECT_EQ(problem_of([&] { return document.root().at(0).as_double(0.75, 1); }).expected, "a number from 0.75 to 1");
  EXPECT_EQ(problem_of([&] { return document.root().at(1).as_double(0, 2.5); }).found, "number 3");
  EXPECT_EQ(problem_of([&] { return document.root().at(2).as_double(0, 1); }).found, "true");
}

TEST(StrictJson, WrongTypesSayWhatStandsThere) {
  const JsonDocument document = parse(R"({"o":{},"a":[1],"s":"text","n":null})");
  const JsonView root = document.root();
  EXPECT_EQ(problem_of([&] { return root.at("o").as_string(); }).found, "an object");
  EXPECT_EQ(problem_of([&] { return root.at("a").as_bool(); }).found, "an array");
  EXPECT_EQ(problem_of([&] { return root.at("s").as_double(0, 1); }).found, "string 'text'");
  EXPECT_EQ(problem_of([&] { return root.at("n").as_string(); }).found, "null");
  EXPECT_EQ(problem_of([&] { return root.at("o").size(); }).expected, "an array");
  EXPECT_EQ(problem_of([&] { return root.at("a").keys(); }).expected, "an object");
  EXPECT_EQ(problem_of([&] { return root.at("s").has("k"); }).expected, "an object");
  EXPECT_EQ(problem_of([&] { return root.at("a").at("k"); }).where, "/a");
}

TEST(StrictJson, MissingKeyNamesTheObjectAndANearKeyThatIsThere) {
  const JsonDocument document = parse(R"({"model":{"hiden":4096}})");
  const InputProblem problem = problem_of([&] { return document.root().at("model").at("hidden"); });
  EXPECT_EQ(problem.where, "/model");
  EXPECT_EQ(problem.found, "no key 'hidden' (but 'hiden')");
  EXPECT_EQ(problem_of([&] { return document.root().at("experts"); }).found, "no key 'experts'");
}

TEST(StrictJson, HasMeansPresentAndNotNull) {
  const JsonDocument document = parse(R"({"zero":0,"null":null})");
  EXPECT_TRUE(document.root().has("zero"));
  EXPECT_FALSE(document.root().has("null"));
  EXPECT_FALSE(document.root().has("absent"));
  EXPECT_TRUE(document.root().at("null").is_null());
}

TEST(StrictJson, IndexBeyondTheArray) {
  const JsonDocument document = parse("[1,2]");
  EXPECT_EQ(document.root().size(), 2U);
  EXPECT_EQ(problem_of([&] { return document.root().at(2); }).found, "an array of 2");
}

TEST(StrictJson, OnlyKeysNamesTheUnknownKeyAndTheNearestKnownOne) {
  const JsonDocument document = parse(R"({"hbm":{"bandwith":1,"bytes":2}})");
  const JsonView hbm = document.root().at("hbm");
  EXPECT_NO_THROW(hbm.only_keys({"bytes", "bandwith"}));
  const InputProblem problem = problem_of([&] { return hbm.only_keys({"bytes", "bandwidth"}); });
  EXPECT_EQ(problem.where, "/hbm/bandwith");
  EXPECT_EQ(problem.nearest, "bandwidth");
  EXPECT_EQ(problem.expected, "one of bytes, bandwidth");
  EXPECT_EQ(problem_of([&] { return hbm.only_keys({}); }).expected, "no keys");
}

TEST(StrictJson, DescribeCutsLongStringsBetweenCharacters) {
  // Two-byte characters after one byte: the 60th byte is in the middle of one.
  std::string text = "x";
  for (int i = 0; i < 100; ++i) text += "\u00e9";
  const JsonDocument document = parse("[\"" + text + "\"]");
  EXPECT_EQ(document.root().at(0).describe(), "string '" + text.substr(0, 59) + "...'");
}

TEST(StrictJson, FailCarriesEverything) {
  const JsonDocument document = parse(R"({"kind":"mo"})");
  const InputProblem problem = problem_of([&] { return document.root().at("kind").fail("moe or micro", "moe"); });
  EXPECT_EQ(problem.file, "f.json");
  EXPECT_EQ(problem.where, "/kind");
  EXPECT_EQ(problem.found, "string 'mo'");
  EXPECT_EQ(problem.expected, "moe or micro");
  EXPECT_EQ(problem.nearest, "moe");
}

TEST(StrictJson, DocumentCanBeMoved) {
  JsonDocument first = parse("[7]");
  const JsonDocument second = std::move(first);
  EXPECT_EQ(second.root().at(0).as_int(0, 9), 7);
  EXPECT_EQ(second.root().file(), "f.json");
}

TEST(StrictJson, ReadsAFileAndNamesIt) {
  const std::string path = write_file("strict_json_good.json", "{\"a\": 1}");
  EXPECT_EQ(JsonDocument::read_file(path).root().at("a").as_int(0, 9), 1);
  const std::string bad = write_file("strict_json_bad.json", "{\"a\": }");
  EXPECT_EQ(problem_of([&] { return JsonDocument::read_file(bad); }).file, bad);
}

TEST(ReadTextFile, ReturnsAllBytes) {
  const std::string text = std::string("a\0b\r\n", 5) + std::string(200000, 'x');
  const std::string path = write_file("read_text_file.bin", text);
  EXPECT_EQ(read_text_file(path, 1 << 20), text);
  EXPECT_THAT(read_text_file(write_file("read_text_file_empty.bin", ""), 1), SizeIs(0));
}

TEST(ReadTextFile, SizeLimitIsInclusive) {
  const std::string path = write_file("read_text_file_10.bin", "0123456789");
  EXPECT_EQ(read_text_file(path, 10), "0123456789");
  const InputProblem problem = problem_of([&] { return read_text_file(path, 9); });
  EXPECT_EQ(problem.file, path);
  EXPECT_EQ(problem.found, "more than 9 bytes");
}

TEST(ReadTextFile, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(problem_of([] { return read_text_file("/no/such/file", 1); }).found, "No such file or directory");
  EXPECT_EQ(problem_of([] { return read_text_file("", 1); }).found, "No such file or directory");
  EXPECT_EQ(problem_of([] { return read_text_file(testing::TempDir(), 1); }).found, "Is a directory");
  const std::string file = write_file("read_text_file_plain.txt", "x");
  EXPECT_EQ(problem_of([&] { return read_text_file(file + "/y", 1); }).found, "Not a directory");
}

TEST(ReadTextFile, UnreadableFile) {
  const std::string path = write_file("read_text_file_locked.txt", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (std::ifstream(path).is_open()) GTEST_SKIP() << "this user may read everything";
  EXPECT_EQ(problem_of([&] { return read_text_file(path, 1); }).found, "Permission denied");
}

}  // namespace
}  // namespace moesim
