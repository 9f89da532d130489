// Axes of studies: names, values, ranges, and what is wrong with them before anything starts.
#include "workloads/studies/axis.h"

#include <gmock/gmock.h>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_of(const Axis& axis) {
  std::vector<std::string> texts;
  for (const AxisValue& value : axis.values) texts.push_back(value.text);
  return texts;
}
std::vector<std::string> texts_of(const std::string& text) { return texts_of(parse_axis(text)); }

std::string error_of(const std::string& text) {
  try {
    parse_axis(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Axis, ValuesStandInTheOrderGivenEachOnce) {
  EXPECT_THAT(texts_of("experts=256,64,128,64"), ElementsAre("256", "64", "128"));
  EXPECT_THAT(texts_of("concurrency=1-4,16,3"), ElementsAre("1", "2", "3", "4", "16"));
  EXPECT_THAT(texts_of("device=h200,b200"), ElementsAre("h200", "b200"));
  EXPECT_THAT(texts_of("routing=uniform,zipf:0.6"), ElementsAre("uniform", "zipf:0.6"));
}

TEST(Axis, NameSaysOfWhatKindItIs) {
  EXPECT_EQ(parse_axis("tp=2").kind, AxisKind::kFlag);
  EXPECT_EQ(parse_axis("experts=8").kind, AxisKind::kModelField);
  EXPECT_EQ(parse_axis("llc.capacity=50MB").kind, AxisKind::kDeviceNumber);
  EXPECT_EQ(parse_axis("grouped_gemm.block_m=32").kind, AxisKind::kStrategyParameter);
  EXPECT_EQ(scale_of(parse_axis("hbm.bandwidth=3TB/s")), AxisScale::kNumbers);
  EXPECT_EQ(scale_of(parse_axis("experts=8")), AxisScale::kWholeNumbers);
  EXPECT_EQ(scale_of(parse_axis("launch=graph")), AxisScale::kNames);
}

TEST(Axis, LinearRangeHasEvenStepsAndBothEnds) {
  const Axis axis = parse_axis("hbm.bandwidth=3..8TB/s:6");
  EXPECT_THAT(texts_of(axis), ElementsAre("3 TB/s", "4 TB/s", "5 TB/s", "6 TB/s", "7 TB/s", "8 TB/s"));
  EXPECT_EQ(axis.values.front().number, 3e12);
  EXPECT_EQ(axis.values.back().number, 8e12);
  EXPECT_THAT(texts_of("hbm.bandwidth=500GB/s..1.5TB/s:3"), ElementsAre("500 GB/s", "1 TB/s", "1.5 TB/s"));
}

TEST(Axis, GeometricRangeHasEvenFactors) {
  EXPECT_THAT(texts_of("experts=64..1024:5:geometric"), ElementsAre("64", "128", "256", "512", "1024"));
  EXPECT_THAT(texts_of("launch.graph=0.5..2us:3:geometric"), ElementsAre("500 ns", "1 us", "2 us"));
}

TEST(Axis, WholeNumbersOfARangeAreRoundedAndStayOnce) {
  EXPECT_THAT(texts_of("tp=1..4:8"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(texts_of("concurrency=1..64:4:geometric"), ElementsAre("1", "4", "16", "64"));
}

// A point is run alone with its text, so a number is what its text says.
TEST(Axis, NumberIsWhatItsTextSays) {
  for (const AxisValue& value : parse_axis("hbm.bandwidth=3..8TB/s:7:geometric").values) {
    EXPECT_EQ(parse_axis("hbm.bandwidth=" + value.text).values.front(), value);
  }
  EXPECT_EQ(parse_axis("occupancy.shared_per_cta=61441B").values.front().number, 61441);
  const Axis axis = parse_axis("experts=64");
  EXPECT_EQ(value_at(axis, 99.6).text, "100");
  EXPECT_EQ(value_at(axis, 99.6).number, 100);
  EXPECT_THROW(value_at(axis, 1e9), InputError);
}

TEST(Axis, StrategiesKeepTheirParameters) {
  EXPECT_THAT(texts_of("strategy=grouped_gemm:block_m=32,swap_ab=1,stream_gemv"),
              ElementsAre("grouped_gemm:block_m=32,swap_ab=1", "stream_gemv"));
}

TEST(Axis, WrongOnesNameThePlaceAndTheNearest) {
  EXPECT_THAT(error_of("expert=64"), AllOf(HasSubstr("--vary"), HasSubstr("did you mean 'experts'?")));
  EXPECT_THAT(error_of("hbm.bandwith=3TB/s"), HasSubstr("did you mean 'hbm.bandwidth'?"));
  EXPECT_THAT(error_of("device=h200,b20"), HasSubstr("did you mean 'b200'?"));
  EXPECT_THAT(error_of("model=qwen3-30b-a3"), HasSubstr("did you mean 'qwen3-30b-a3b'?"));
  EXPECT_THAT(error_of("routing=zip:0.6"), AllOf(HasSubstr("--vary: routing"), HasSubstr("did you mean 'zipf'?")));
  EXPECT_THAT(error_of("weights=bf61"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(error_of("launch=grph"), HasSubstr("did you mean 'graph'?"));
  EXPECT_THAT(error_of("kv_dtype=fp61"), HasSubstr("did you mean 'fp16'?"));
  EXPECT_THAT(error_of("strategy=grouped_gem"), HasSubstr("did you mean 'grouped_gemm'?"));
  EXPECT_THAT(error_of("grouped_gemm.block_n=3000000000"), HasSubstr("whole number from"));
  EXPECT_THAT(error_of("hbm.bandwidth=3..8:6"), HasSubstr("expected a number with a unit"));
  EXPECT_THAT(error_of("hbm.bandwidth=8..3TB/s:6"), HasSubstr("a range that ascends"));
  EXPECT_THAT(error_of("hbm.bandwidth=3..8TB/s"), HasSubstr("LO..HI:N"));
  EXPECT_THAT(error_of("hbm.bandwidth=3..8TB/s:1"), HasSubstr("whole number from 2"));
  EXPECT_THAT(error_of("hbm.bandwidth=3..8TB/s:6:geometrical"), HasSubstr("did you mean 'geometric'?"));
  EXPECT_THAT(error_of("launch.graph=0..2us:3:geometric"), HasSubstr("from above 0"));
  EXPECT_THAT(error_of("hbm.bandwidth=3..8000TB/s:6"), HasSubstr("--vary: hbm.bandwidth"));
  EXPECT_THAT(error_of("experts=0"), HasSubstr("whole number from 1"));
  EXPECT_THAT(error_of("experts=8-4"), HasSubstr("a range that ascends"));
  EXPECT_THAT(error_of("experts=1-60000"), HasSubstr("at most 10000 values"));
  EXPECT_THAT(error_of("experts=8,,16"), HasSubstr("an empty piece"));
  EXPECT_THAT(error_of("experts"), HasSubstr("NAME=LIST"));
  EXPECT_THAT(error_of("routing=trace:a\nb"), HasSubstr("a control character"));
}

}  // namespace
}  // namespace moesim
