// Grids on a TPU core against published times and closed forms.
#include "workloads/strategies/tpu_grid.h"

#include <gmock/gmock.h>

#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

// Seconds of a step of Pallas' double-buffered matrix product with blocks of [m, k] x [k, n], 16 bits.
double block_step(const HardwareModel& hardware, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kSteps = 4096;
  const Device device(hardware, hardware[Hw::kClockBoost]);
  const ArrayWork work = array_work(device, Dtype::kBf16, m, m, n, k);
  ItemClass item;
  item.steps = kSteps;
  item.read = Bytes(kSteps * 2 * (m * k + k * n));
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = work.seconds;
  item.useful_share = work.useful_share;
  item.stationary_share = work.stationary_share;
  item.step_sequence = duration_from_seconds(hardware[Hw::kSequenceStep] + work.in_order);
  set_ring(item, 2, kSteps);
  Kernel kernel = sequential_kernel("blocks", "gemm");
  kernel.classes = {item};
  kernel.groups = {ItemGroup()};
  kernel.groups[0].count = 1;
  kernel.footprint = footprint_on_chip(Bytes(1));
  return to_seconds(simulate(plan_of(kernel), build_machine(hardware)).total) / kSteps;
}

// jax docs/pallas/tpu/matmul.ipynb, v5e: 262,144 steps of 128^3 in 91.8 ms; 5.96 us a step of 512 x 1024 x 1024. The first
// gave sequence.step its value; of the second, what exceeds the products' own 5.45 us is predicted.
TEST(PallasBlocks, LatencyBoundStepsAreWhatTheStepCostWasTakenFrom) {
  EXPECT_NEAR(block_step(load_hardware("tpu-v5e"), 128, 128, 128) * 1e6, 0.350, 0.01);
}

TEST(PallasBlocks, OverheadOfALargeStepIsPredicted) {
  const HardwareModel v5e = load_hardware("tpu-v5e");
  const double ideal = 2.0 * 512 * 1024 * 1024 / 197e12;
  const double overhead = block_step(v5e, 512, 1024, 1024) - ideal;
  EXPECT_NEAR(ideal * 1e6, 5.45, 0.01);
  EXPECT_NEAR(overhead * 1e6, 5.96 - 5.45, 0.3 * (5.96 - 5.45));
}

// 10 experts of 4096 x 256 and 128 x 4096 are 61,440 rows of 256 weights over two arrays: at one a clock of 2.2 GHz 13.96 us.
TEST(ArrayWork, OneRowIsBoundByTheWeightsThatComeIn) {
  HardwareModel tpu7x = load_hardware("tpu7x");
  apply_override(tpu7x, "mxu.weight_rows=1");
  const Device device(tpu7x, tpu7x[Hw::kClockBoost]);
  const ArrayWork up = array_work(device, Dtype::kBf16, 1, 16, 256, 4096);
  const ArrayWork down = array_work(device, Dtype::kBf16, 1, 16, 4096, 128);
  EXPECT_NEAR(10 * (up.seconds + down.seconds) * 1e6, 61440 / 2 / 2200.0, 1e-6);
  // A row passes in half a clock, 256 rows of weights come in in 256.
  EXPECT_DOUBLE_EQ(up.useful_share, 1);
  EXPECT_NEAR(up.stationary_share, 1 - 0.5 / 256, 1e-9);
}

TEST(ArrayWork, ManyRowsAreBoundByTheirPassing) {
  const HardwareModel tpu7x = load_hardware("tpu7x");
  const Device device(tpu7x, tpu7x[Hw::kClockBoost]);
  const ArrayWork work = array_work(device, Dtype::kBf16, 300, 512, 512, 512);
  EXPECT_NEAR(work.seconds * 2.2e9, 2 * 512 / 2, 1e-6);  // four tiles over two arrays, two rows a clock
  EXPECT_DOUBLE_EQ(work.stationary_share, 0);
  EXPECT_DOUBLE_EQ(work.useful_share, 300.0 / 512);
}

// 8-bit operands pass twice as fast, and so do the weights.
TEST(ArrayWork, NarrowOperandsAreTwiceAsFast) {
  const HardwareModel tpu7x = load_hardware("tpu7x");
  const Device device(tpu7x, tpu7x[Hw::kClockBoost]);
  EXPECT_DOUBLE_EQ(array_work(device, Dtype::kFp8, 1, 32, 4096, 4096).seconds * 2,
                   array_work(device, Dtype::kBf16, 1, 16, 4096, 4096).seconds);
}

TEST(ArrayWork, OperandsAreWhatTheArraysHave) {
  const HardwareModel tpu7x = load_hardware("tpu7x"), v5e = load_hardware("tpu-v5e");
  const WeightFormat fp8{Dtype::kFp8Block128, 0}, int8{Dtype::kInt8, 0};
  EXPECT_EQ(array_operands(Device(tpu7x, 1e9), fp8), Dtype::kFp8);
  EXPECT_EQ(array_operands(Device(tpu7x, 1e9), int8), Dtype::kBf16);
  EXPECT_EQ(array_operands(Device(v5e, 1e9), fp8), Dtype::kBf16);
  EXPECT_EQ(array_operands(Device(v5e, 1e9), int8), Dtype::kInt8);
  EXPECT_EQ(conversion_seconds(Device(tpu7x, 1e9), fp8, Dtype::kFp8, 1e6), 0);
  EXPECT_GT(conversion_seconds(Device(tpu7x, 1e9), fp8, Dtype::kBf16, 1e6), 0);
}

}  // namespace
}  // namespace moesim
