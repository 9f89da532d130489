#include "sim/units/parse_quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::HasSubstr;

double parse(const std::string& text, Dimension dimension) { return parse_quantity(text, dimension, "f.json", "/a"); }

InputProblem problem_of(const std::string& text, Dimension dimension) {
  try {
    const double value = parse(text, dimension);
    ADD_FAILURE() << "'" << text << "' was read as " << value;
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().file, "f.json");
    EXPECT_EQ(error.problem().where, "/a");
    return error.problem();
  }
  return {};
}

constexpr Dimension kAll[] = {Dimension::kDimensionless, Dimension::kTime,          Dimension::kBytes,
                              Dimension::kBandwidth,     Dimension::kBytesPerCycle, Dimension::kCycles,
                              Dimension::kFrequency,     Dimension::kFlopRate,      Dimension::kFlopsPerCycle,
                              Dimension::kPower};

TEST(ParseQuantity, EveryUnitHasItsSize) {
  EXPECT_EQ(parse("0.92", Dimension::kDimensionless), 0.92);
  EXPECT_EQ(parse("3 ps", Dimension::kTime), 3e-12);
  EXPECT_EQ(parse("3 ns", Dimension::kTime), 3e-9);
  EXPECT_EQ(parse("5 us", Dimension::kTime), 5e-6);
  EXPECT_EQ(parse("7 ms", Dimension::kTime), 7e-3);
  EXPECT_EQ(parse("2 s", Dimension::kTime), 2.0);
  EXPECT_EQ(parse("100 B", Dimension::kBytes), 100.0);
  EXPECT_EQ(parse("2 KB", Dimension::kBytes), 2000.0);
  EXPECT_EQ(parse("2 MB", Dimension::kBytes), 2e6);
  EXPECT_EQ(parse("141 GB", Dimension::kBytes), 141e9);
  EXPECT_EQ(parse("2 TB", Dimension::kBytes), 2e12);
  EXPECT_EQ(parse("228 KiB", Dimension::kBytes), 233472.0);
  EXPECT_EQ(parse("60 MiB", Dimension::kBytes), 62914560.0);
  EXPECT_EQ(parse("1 GiB", Dimension::kBytes), 1073741824.0);
  EXPECT_EQ(parse("1 TiB", Dimension::kBytes), 1099511627776.0);
  EXPECT_EQ(parse("3.35 TB/s", Dimension::kBandwidth), 3.35e12);
  EXPECT_EQ(parse("900 GB/s", Dimension::kBandwidth), 900e9);
  EXPECT_EQ(parse("2 MB/s", Dimension::kBandwidth), 2e6);
  EXPECT_EQ(parse("2 KB/s", Dimension::kBandwidth), 2e3);
  EXPECT_EQ(parse("2 B/s", Dimension::kBandwidth), 2.0);
  EXPECT_EQ(parse("128 B/clk", Dimension::kBytesPerCycle), 128.0);
  EXPECT_EQ(parse("30 clk", Dimension::kCycles), 30.0);
  EXPECT_EQ(parse("60 Hz", Dimension::kFrequency), 60.0);
  EXPECT_EQ(parse("32 kHz", Dimension::kFrequency), 32e3);
  EXPECT_EQ(parse("1980 MHz", Dimension::kFrequency), 1.98e9);
  EXPECT_EQ(parse("1.5 GHz", Dimension::kFrequency), 1.5e9);
  EXPECT_EQ(parse("2 FLOP/s", Dimension::kFlopRate), 2.0);
  EXPECT_EQ(parse("2 GFLOP/s", Dimension::kFlopRate), 2e9);
  EXPECT_EQ(parse("989 TFLOP/s", Dimension::kFlopRate), 989e12);
  EXPECT_EQ(parse("2 PFLOP/s", Dimension::kFlopRate), 2e15);
  EXPECT_EQ(parse("1979 TOP/s", Dimension::kFlopRate), 1979e12);
  EXPECT_EQ(parse("4096 FLOP/clk", Dimension::kFlopsPerCycle), 4096.0);
  EXPECT_EQ(parse("700 W", Dimension::kPower), 700.0);
}

TEST(ParseQuantity, SpaceBeforeTheUnitIsOptional) {
  EXPECT_EQ(parse("4.8TB/s", Dimension::kBandwidth), parse("4.8 TB/s", Dimension::kBandwidth));
}

TEST(ParseQuantity, NumbersMayHaveAnExponent) {
  EXPECT_EQ(parse("1.5e3 ns", Dimension::kTime), 1.5e-6);
  EXPECT_EQ(parse("0 s", Dimension::kTime), 0.0);
}

TEST(ParseQuantity, MissingUnitListsTheUnits) {
  const InputProblem problem = problem_of("6", Dimension::kBandwidth);
  EXPECT_EQ(problem.found, "'6'");
  EXPECT_EQ(problem.expected, "a number with a unit, one of B/s, KB/s, MB/s, GB/s, TB/s");
}

TEST(ParseQuantity, UnitOfAnotherDimensionIsCalledThat) {
  EXPECT_EQ(problem_of("6 GHz", Dimension::kBandwidth).found, "'6 GHz' (a frequency)");
  EXPECT_EQ(problem_of("6 GB", Dimension::kBandwidth).found, "'6 GB' (a number of bytes)");
  EXPECT_EQ(problem_of("6 GB/s", Dimension::kBytes).found, "'6 GB/s' (a bandwidth)");
  EXPECT_EQ(problem_of("6 clk", Dimension::kTime).found, "'6 clk' (a number of cycles)");
}

TEST(ParseQuantity, PlainNumberTakesNoUnit) {
  EXPECT_EQ(problem_of("0.9 s", Dimension::kDimensionless).expected, "a number without a unit");
  EXPECT_EQ(problem_of("50%", Dimension::kDimensionless).found, "'50%'");
}

TEST(ParseQuantity, UnknownUnitNamesTheNearest) {
  EXPECT_EQ(problem_of("4.8 tb/s", Dimension::kBandwidth).nearest, "TB/s");
  EXPECT_EQ(problem_of("4.8 TB/S", Dimension::kBandwidth).nearest, "TB/s");
  EXPECT_EQ(problem_of("1980 Mhz", Dimension::kFrequency).nearest, "MHz");
  EXPECT_EQ(problem_of("989 TFLOPS", Dimension::kFlopRate).nearest, "TFLOP/s");
  EXPECT_EQ(problem_of("3 kg", Dimension::kTime).nearest, "");
}

TEST(ParseQuantity, NegativeIsRefused) {
  for (const char* text : {"-6 GB/s", "-0.5 GB/s", "-inf GB/s"}) {
    EXPECT_EQ(problem_of(text, Dimension::kBandwidth).expected, "a number of at least 0") << text;
  }
}

TEST(ParseQuantity, NotFiniteIsRefused) {
  for (const char* text : {"nan s", "inf s", "infinity s"}) {
    EXPECT_EQ(problem_of(text, Dimension::kTime).expected, "a finite number") << text;
  }
  // Too large as written, and only in the base unit.
  EXPECT_THAT(problem_of("1e999 s", Dimension::kTime).found, HasSubstr("beyond the range"));
  EXPECT_THAT(problem_of("1e300 PFLOP/s", Dimension::kFlopRate).found, HasSubstr("beyond the range"));
}

TEST(ParseQuantity, NoNumberIsRefused) {
  for (const char* text : {"", " ", "GB/s", "+6 GB/s", " 6 GB/s", ",5 GB/s", "fast"}) {
    EXPECT_THAT(problem_of(text, Dimension::kBandwidth).expected, HasSubstr("a number with a unit")) << text;
  }
}

TEST(ParseQuantity, TrailingTextIsRefused) {
  for (const char* text : {"6 GB/s ", "6 GB/s x", "6  GB/s", "6,5 GB/s", "6 GB/s/s", "0x10 GB/s", "1 2 GB/s"}) {
    EXPECT_THAT(problem_of(text, Dimension::kBandwidth).expected, HasSubstr("a number with a unit")) << text;
  }
}

TEST(ParseQuantity, LongTextIsCutInTheMessage) {
  EXPECT_LT(problem_of("5 " + std::string(10000, 'x'), Dimension::kTime).found.size(), 100U);
}

TEST(FormatQuantity, TakesTheLargestUnitWithAtLeastOneOfIt) {
  EXPECT_EQ(format_quantity(4.8e12, Dimension::kBandwidth), "4.8 TB/s");
  EXPECT_EQ(format_quantity(900e9, Dimension::kBandwidth), "900 GB/s");
  EXPECT_EQ(format_quantity(1e9, Dimension::kBandwidth), "1 GB/s");
  EXPECT_EQ(format_quantity(0.999e9, Dimension::kBandwidth), "999 MB/s");
  EXPECT_EQ(format_quantity(480e-9, Dimension::kTime), "480 ns");
  EXPECT_EQ(format_quantity(1.98e9, Dimension::kFrequency), "1.98 GHz");
  EXPECT_EQ(format_quantity(1.979e15, Dimension::kFlopRate), "1.979 PFLOP/s");
  EXPECT_EQ(format_quantity(128, Dimension::kBytesPerCycle), "128 B/clk");
}

TEST(FormatQuantity, BelowTheSmallestUnitAndZero) {
  EXPECT_EQ(format_quantity(0.4e-12, Dimension::kTime), "0.4 ps");
  EXPECT_EQ(format_quantity(0.5, Dimension::kBytes), "0.5 B");
  EXPECT_EQ(format_quantity(0, Dimension::kTime), "0 s");
  EXPECT_EQ(format_quantity(0, Dimension::kBandwidth), "0 B/s");
  EXPECT_EQ(format_quantity(0.25, Dimension::kDimensionless), "0.25");
}

TEST(FormatQuantity, SixDigitsAndNoTrailingZeros) {
  EXPECT_EQ(format_quantity(1.23456789e-6, Dimension::kTime), "1.23457 us");
  EXPECT_EQ(format_quantity(1.5e12, Dimension::kBandwidth), "1.5 TB/s");
}

TEST(FormatQuantity, RoundsBeforeItChoosesTheUnit) {
  EXPECT_EQ(format_quantity(999.9999999e9, Dimension::kBandwidth), "1 TB/s");
  EXPECT_EQ(format_quantity(0.99999999e-6, Dimension::kTime), "1 us");
}

TEST(FormatQuantity, WholeBinarySizesReadAsSuchWhenThatIsShorter) {
  EXPECT_EQ(format_quantity(62914560, Dimension::kBytes), "60 MiB");
  EXPECT_EQ(format_quantity(233472, Dimension::kBytes), "228 KiB");
  EXPECT_EQ(format_quantity(512000, Dimension::kBytes), "512 KB");  // also 500 KiB
  EXPECT_EQ(format_quantity(141e9, Dimension::kBytes), "141 GB");
}

TEST(FormatQuantity, SmallestAndLargestDoubles) {
  EXPECT_EQ(format_quantity(std::numeric_limits<double>::denorm_min(), Dimension::kPower), "4.94066e-324 W");
  EXPECT_EQ(format_quantity(std::numeric_limits<double>::max(), Dimension::kPower), "1.79769e+308 W");
  EXPECT_EQ(format_quantity(std::numeric_limits<double>::infinity(), Dimension::kPower), "inf W");
  EXPECT_EQ(format_quantity(-3e-6, Dimension::kTime), "-3 us");
}

TEST(FormatQuantity, ParseReadsItBackToSixDigits) {
  for (const Dimension dimension : kAll) {
    for (double value = 1.0 / 3.0 * 1e-13; value < 1e19; value *= 7.3) {
      const std::string text = format_quantity(value, dimension);
      EXPECT_NEAR(parse(text, dimension), value, 5.1e-6 * value) << text;
      EXPECT_EQ(format_quantity(parse(text, dimension), dimension), text);
    }
  }
}

TEST(UnitNames, ListsWhatADimensionAccepts) {
  EXPECT_EQ(unit_names(Dimension::kTime), "ps, ns, us, ms, s");
  EXPECT_EQ(unit_names(Dimension::kDimensionless), "");
}

}  // namespace
}  // namespace moesim
