#include "traces/routed_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string write_file(const std::string& bytes) {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = testing::TempDir() + "routed_trace_" + test + ".npy";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string little_endian(std::int64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  return text;
}

// Magic, version, length, dictionary: what numpy.save writes.
std::string header(const std::string& dictionary, int version = 1) {
  const std::string text = dictionary + "   \n";
  return "\x93NUMPY" + little_endian(version, 2) +
         little_endian(static_cast<std::int64_t>(text.size()), version == 1 ? 2 : 4) + text;
}

std::string dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
}

std::string data(const std::vector<std::int64_t>& ids, std::size_t word_bytes) {
  std::string bytes;
  for (const std::int64_t id : ids) bytes += little_endian(id, word_bytes);
  return bytes;
}

std::string int16_file(const std::string& shape, const std::vector<std::int64_t>& ids) {
  return write_file(header(dictionary("<i2", shape)) + data(ids, 2));
}

InputProblem problem_of(const std::string& path, std::int64_t experts = 8) {
  try {
    read_routed_trace(path, experts);
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().file, path);
    return error.problem();
  }
  ADD_FAILURE() << "no InputError";
  return {};
}

InputProblem header_problem(const std::string& dictionary_text) {
  return problem_of(write_file(header(dictionary_text) + data({0, 1}, 2)));
}

TEST(RoutedTrace, RankTwoIsOneBatch) {
  const auto batches = read_routed_trace(int16_file("3, 2", {0, 1, 2, 3, 7, 0}), 8);
  ASSERT_THAT(batches, SizeIs(1));
  EXPECT_EQ(batches[0].tokens, 3);
  EXPECT_EQ(batches[0].topk, 2);
  EXPECT_EQ(batches[0].experts, 8);
  EXPECT_THAT(batches[0].ids, ElementsAre(0, 1, 2, 3, 7, 0));
}

TEST(RoutedTrace, RankThreeIsOneBatchPerRepeat) {
  const auto batches = read_routed_trace(int16_file("2, 1, 3", {0, 1, 2, 5, 4, 3}), 8);
  ASSERT_THAT(batches, SizeIs(2));
  EXPECT_EQ(batches[1].tokens, 1);
  EXPECT_EQ(batches[1].topk, 3);
  EXPECT_THAT(batches[0].ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(batches[1].ids, ElementsAre(5, 4, 3));
}

TEST(RoutedTrace, RankFourIsOneBatchPerStepAndLayerInOrder) {
  const auto batches = read_routed_trace(int16_file("2, 3, 1, 1", {0, 1, 2, 3, 4, 5}), 8);
  ASSERT_THAT(batches, SizeIs(6));
  for (std::size_t i = 0; i < batches.size(); ++i) EXPECT_THAT(batches[i].ids, ElementsAre(static_cast<int>(i)));
}

TEST(RoutedTrace, ReadsAllThreeIntegerTypes) {
  const std::vector<std::int64_t> ids = {300, 1};
  for (const std::size_t bytes : {2U, 4U, 8U}) {
    const std::string descr = "<i" + std::to_string(bytes);
    const auto batches = read_routed_trace(write_file(header(dictionary(descr, "1, 2")) + data(ids, bytes)), 384);
    EXPECT_THAT(batches.at(0).ids, ElementsAre(300, 1)) << descr;
  }
}

TEST(RoutedTrace, ReadsVersionTwoHeaders) {
  const std::string path = write_file(header(dictionary("<i2", "1, 2"), 2) + data({6, 1}, 2));
  EXPECT_THAT(read_routed_trace(path, 8).at(0).ids, ElementsAre(6, 1));
}

TEST(RoutedTrace, HeaderMayBePaddedToAnyLength) {
  for (const std::size_t padding : {0U, 60U, 70U, 190U, 300U, 60000U}) {
    const std::string text = dictionary("<i2", "1, 2") + std::string(padding, ' ');
    EXPECT_THAT(read_routed_trace(write_file(header(text) + data({6, 1}, 2)), 8).at(0).ids, ElementsAre(6, 1))
        << padding;
  }
}

TEST(RoutedTrace, LastExpertIsAllowedTheNextIsNot) {
  const std::string path = int16_file("2, 2, 2", {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(read_routed_trace(path, 8), SizeIs(2));
  const InputProblem problem = problem_of(path, 7);
  EXPECT_EQ(problem.where, "[1, 1, 1]");
  EXPECT_EQ(problem.found, "expert 7");
  EXPECT_EQ(problem.expected, "expert ids from 0 to 6, each once in a row");
}

TEST(RoutedTrace, NegativeIdIsNamed) {
  const InputProblem problem = problem_of(int16_file("2, 3", {0, 1, 2, 3, -1, 4}));
  EXPECT_EQ(problem.where, "[1, 1]");
  EXPECT_EQ(problem.found, "expert -1");
}

TEST(RoutedTrace, IdsThatWouldWrapIn32BitsAreOutOfRange) {
  const std::int64_t wraps_to_one = (std::int64_t{1} << 32) + 1;
  const std::string path = write_file(header(dictionary("<i8", "1, 2")) + data({0, wraps_to_one}, 8));
  EXPECT_EQ(problem_of(path).found, "expert 4294967297");
}

TEST(RoutedTrace, ExpertTwiceInARowIsNamed) {
  const InputProblem problem = problem_of(int16_file("1, 2, 2, 3", {0, 1, 2, 3, 4, 5, 0, 1, 2, 5, 4, 5}));
  EXPECT_EQ(problem.where, "[0, 1, 1, 2]");
  EXPECT_EQ(problem.found, "expert 5 a second time");
}

TEST(RoutedTrace, ExpertMayReturnInTheNextRow) {
  EXPECT_NO_THROW(read_routed_trace(int16_file("2, 2", {0, 1, 1, 0}), 8));
}

TEST(RoutedTrace, WrongRank) {
  for (const char* shape : {"2,", "", "1,1,1,1,2"}) {
    EXPECT_EQ(problem_of(int16_file(shape, {0, 1})).found, std::string("shape (") + shape + ")");
  }
}

TEST(RoutedTrace, WrongType) {
  for (const char* descr : {"<f4", "<u2", ">i2", "|i1", "<i16", "|b1", "<c8"}) {
    EXPECT_EQ(header_problem(dictionary(descr, "1, 2")).found, std::string("dtype '") + descr + "'");
  }
}

TEST(RoutedTrace, FortranOrder) {
  EXPECT_EQ(header_problem("{'descr': '<i2', 'fortran_order': True, 'shape': (1, 2), }").found, "Fortran order");
}

TEST(RoutedTrace, TruncatedData) {
  const std::string whole = header(dictionary("<i2", "2, 2")) + data({0, 1, 2, 3}, 2);
  for (const std::size_t cut : {1U, 2U, 8U}) {
    const InputProblem problem = problem_of(write_file(whole.substr(0, whole.size() - cut)));
    EXPECT_EQ(problem.found, std::to_string(8 - cut) + " bytes of data");
    EXPECT_EQ(problem.expected, "as many as shape (2,2) of '<i2' has");
  }
}

TEST(RoutedTrace, DataBeyondTheShape) {
  EXPECT_EQ(problem_of(int16_file("1, 2", {0, 1, 2, 3})).found, "8 bytes of data");
}

TEST(RoutedTrace, EveryTruncationOfTheHeaderIsAnError) {
  const std::string whole = header(dictionary("<i2", "1, 2"));
  for (std::size_t size = 0; size < whole.size(); ++size) problem_of(write_file(whole.substr(0, size)));
}

TEST(RoutedTrace, ShapeWhoseProductOverflows) {
  // 2^63 * 2 * 1 is 0 in 64 bits, 2^32 * 2^32 * 2 likewise: neither may pass for the data's size.
  EXPECT_THAT(header_problem(dictionary("<i2", "9223372036854775808, 2, 1")).found, HasSubstr("shape"));
  EXPECT_THAT(header_problem(dictionary("<i2", "4294967296, 4294967296, 2")).found, HasSubstr("bytes of data"));
  EXPECT_THAT(problem_of(int16_file("4294967296, 4294967296", {})).found, HasSubstr("0 bytes of data"));
}

TEST(RoutedTrace, ZeroDimension) { EXPECT_EQ(problem_of(int16_file("0, 2", {})).found, "shape (0,2)"); }

TEST(RoutedTrace, ForgedHeaders) {
  for (const char* text : {
           "",
           "{}",
           "{'descr': '<i2', 'fortran_order': False}",
           "{'descr': '<i2', 'fortran_order': Maybe, 'shape': (1, 2), }",
           "{'descr': '<i2', 'fortran_order': False, 'shape': (1,,2), }",
           "{'descr': '<i2', 'fortran_order': False, 'shape': (-1, 2), }",
           "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2x), }",
           "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), ",
           "{'fortran_order': False, 'descr': '<i2', 'shape': (1, 2), }",
           "{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (1, 2), }",
           "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), 'shape': (1, 2), }",
       }) {
    EXPECT_EQ(header_problem(text).where, "header") << text;
  }
  EXPECT_THAT(header_problem(std::string(60000, 'x')).found, HasSubstr("60000 characters"));
}

TEST(RoutedTrace, HeaderLongerThanTheFile) {
  const std::string path = write_file("\x93NUMPY" + little_endian(2, 2) + little_endian(0xFFFFFFFF, 4) + "{}\n");
  EXPECT_EQ(problem_of(path).expected, "a header of 4294967295 bytes");
}

TEST(RoutedTrace, OtherFilesAndVersions) {
  EXPECT_EQ(problem_of(write_file("PK\x03\x04 an archive")).expected, "a .npy file");
  EXPECT_EQ(problem_of(write_file("")).expected, "a .npy file");
  EXPECT_THAT(problem_of(write_file(header(dictionary("<i2", "1, 2"), 3))).expected, HasSubstr("version"));
  EXPECT_EQ(problem_of("/no/such/file.npy").found, "No such file or directory");
}

}  // namespace
}  // namespace moesim
