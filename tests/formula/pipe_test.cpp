// A product's clocks: tiles * max(2 M N K / rate, K / stationary rows a clock) + fill.
#include "sim/engine/pipe.h"

#include <gmock/gmock.h>

namespace moesim {
namespace {

TEST(Pipe, exact_product_is_flops_over_rate) {
  const Pipe pipe{.flops_per_cycle = 4096, .row_quantum = 64, .column_quantum = 8, .depth_quantum = 16};
  EXPECT_DOUBLE_EQ(pipe.cycles(64, 128, 64).value(), 2.0 * 64 * 128 * 64 / 4096);
}

TEST(Pipe, rows_are_padded_to_the_quantum) {
  const Pipe pipe{.flops_per_cycle = 4096, .row_quantum = 64, .column_quantum = 8, .depth_quantum = 16};
  EXPECT_EQ(pipe.issued_rows(1), 64);
  EXPECT_EQ(pipe.issued_rows(64), 64);
  EXPECT_EQ(pipe.issued_rows(65), 128);
  EXPECT_DOUBLE_EQ(pipe.cycles(1, 128, 64).value(), pipe.cycles(64, 128, 64).value());
  EXPECT_DOUBLE_EQ(pipe.cycles(65, 128, 64).value(), 2 * pipe.cycles(64, 128, 64).value());
}

TEST(Pipe, columns_and_depth_are_padded_too) {
  const Pipe pipe{.flops_per_cycle = 1024, .row_quantum = 1, .column_quantum = 16, .depth_quantum = 32};
  EXPECT_DOUBLE_EQ(pipe.cycles(4, 17, 33).value(), pipe.cycles(4, 32, 64).value());
}

// A 256 x 256 array that takes one weight row a clock: 256 clocks a tile until the products of 8-row groups take
// longer.
TEST(Pipe, stationary_load_binds_at_few_rows) {
  const Pipe mxu{.flops_per_cycle = 2.0 * 256 * 256,  // one row a clock
                 .row_quantum = 8,
                 .column_quantum = 256,
                 .depth_quantum = 256,
                 .stationary_rows_per_cycle = 1};
  EXPECT_DOUBLE_EQ(mxu.cycles(1, 512, 1024).value(), 2 * 4 * 256.0);
  EXPECT_DOUBLE_EQ(mxu.cycles(256, 512, 1024).value(), 2 * 4 * 256.0);
  EXPECT_DOUBLE_EQ(mxu.cycles(512, 512, 1024).value(), 2 * 4 * 512.0);
}

TEST(Pipe, fill_comes_once) {
  const Pipe pipe{.flops_per_cycle = 2, .fill = Cycles(100)};
  EXPECT_DOUBLE_EQ(pipe.cycles(1, 1, 1).value(), 101);
  EXPECT_DOUBLE_EQ(pipe.cycles(1, 10, 1).value(), 110);
}

}  // namespace
}  // namespace moesim
