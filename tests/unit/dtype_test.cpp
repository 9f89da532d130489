#include "workloads/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::HasSubstr;

TEST(Dtype, EveryNameParsesBackToItself) {
  for (const std::string& name : format_names()) EXPECT_EQ(format_name(parse_format(name, "--weights")), name);
}

TEST(Dtype, Int4AloneIsGroupsOf128) {
  EXPECT_EQ(parse_format("int4", "--weights"), (WeightFormat{Dtype::kInt4, 128}));
  EXPECT_EQ(parse_format("int4:32", "--weights"), (WeightFormat{Dtype::kInt4, 32}));
}

TEST(Dtype, WrongNamesSayWhereAndWhatIsNear) {
  for (const char* wrong : {"", "fp4", "int4:", "int4:0", "int4:100", "BF16", "fp8 ", "fp8_block"}) {
    EXPECT_THROW(parse_format(wrong, "--weights"), InputError) << wrong;
  }
  try {
    parse_format("fp8_blok128", "--weights");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().where, "--weights");
    EXPECT_EQ(error.problem().nearest, "fp8_block128");
    EXPECT_THAT(error.what(), HasSubstr("'fp8_blok128'"));
  }
}

TEST(Dtype, PayloadBitsOfOneWeight) {
  EXPECT_EQ(payload_bits({Dtype::kFp32}), 32);
  EXPECT_EQ(payload_bits({Dtype::kBf16}), 16);
  EXPECT_EQ(payload_bits({Dtype::kFp16}), 16);
  EXPECT_EQ(payload_bits({Dtype::kFp8}), 8);
  EXPECT_EQ(payload_bits({Dtype::kFp8Block128}), 8);
  EXPECT_EQ(payload_bits({Dtype::kInt8}), 8);
  EXPECT_EQ(payload_bits({Dtype::kInt4, 128}), 4);
  EXPECT_EQ(payload_bits({Dtype::kMxfp4}), 4);
  EXPECT_EQ(payload_bits({Dtype::kNvfp4}), 4);
}

struct Case {
  WeightFormat format;
  std::int64_t n, k, payload, scales;
};

class DtypeBytes : public testing::TestWithParam<Case> {};

TEST_P(DtypeBytes, PayloadAndScales) {
  const Case& c = GetParam();
  EXPECT_EQ(payload_bytes(c.format, c.n, c.k), Bytes(c.payload));
  EXPECT_EQ(scale_bytes(c.format, c.n, c.k), Bytes(c.scales));
  EXPECT_EQ(matrix_bytes(c.format, c.n, c.k), Bytes(c.payload + c.scales));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, DtypeBytes,
    testing::Values(Case{{Dtype::kFp32}, 3, 5, 60, 0}, Case{{Dtype::kBf16}, 1024, 4096, 8'388'608, 0},
                    Case{{Dtype::kFp16}, 3, 5, 30, 0}, Case{{Dtype::kFp8}, 1024, 4096, 4'194'304, 4},
                    Case{{Dtype::kFp8Block128}, 1024, 4096, 4'194'304, 4 * 8 * 32},
                    // 129 x 1 weights touch two blocks down and one across.
                    Case{{Dtype::kFp8Block128}, 129, 1, 129, 8}, Case{{Dtype::kFp8Block128}, 128, 129, 16'512, 8},
                    Case{{Dtype::kInt8}, 10, 7, 70, 40}, Case{{Dtype::kInt4, 32}, 10, 64, 320, 40},
                    Case{{Dtype::kInt4, 128}, 10, 129, 650, 40}, Case{{Dtype::kMxfp4}, 10, 33, 170, 20},
                    Case{{Dtype::kMxfp4}, 2880, 2880, 4'147'200, 259'200}, Case{{Dtype::kNvfp4}, 10, 33, 170, 30},
                    Case{{Dtype::kBf16}, 0, 5, 0, 0}));

// gpt-oss-20b in MXFP4: 24 layers, 32 experts of three 2880 x 2880 matrices take 4.25 bits a weight.
TEST(Dtype, Mxfp4IsFourAndAQuarterBitsAWeight) {
  const double weights = 24.0 * 32 * 3 * 2880 * 2880;
  const double bytes = 24.0 * 32 * 3 * matrix_bytes({Dtype::kMxfp4}, 2880, 2880).as_double();
  EXPECT_DOUBLE_EQ(bytes * 8 / weights, 4.25);
}

}  // namespace
}  // namespace moesim
