// Ranges of constants: what is usual for a kind, what is exact, and what a range never leaves.
#include <gmock/gmock.h>

#include <cmath>

#include "hwmodels/loader.h"
#include "hwmodels/uncertainty.h"

namespace moesim {
namespace {

Constant constant(double value, SourceKind kind) { return {value, kind, "a source"}; }

TEST(ConstantRange, EveryKindHasAnUsualOne) {
  for (const KindUncertainty& usual : default_uncertainties()) {
    EXPECT_EQ(default_uncertainty(usual.kind), usual.share);
    EXPECT_GT(std::string(usual.reason).size(), 20U);
    const ConstantRange range = constant_range(constant(2, usual.kind), hw_entry(Hw::kHbmKnee));
    EXPECT_NEAR(range.low, 2 * (1 - usual.share), 1e-12);
    EXPECT_NEAR(range.high, 2 * (1 + usual.share), 1e-12);
    EXPECT_FALSE(range.stated);
  }
  EXPECT_LT(default_uncertainty(SourceKind::kMicrobenchmark), default_uncertainty(SourceKind::kPublished));
  EXPECT_LT(default_uncertainty(SourceKind::kPublished), default_uncertainty(SourceKind::kAssumed));
}

TEST(ConstantRange, CountsAreExactUnlessAssumed) {
  const HwEntry& warp = hw_entry(Hw::kWarpSize);
  EXPECT_TRUE(constant_range(constant(32, SourceKind::kPublished), warp).exact());
  const ConstantRange assumed = constant_range(constant(32, SourceKind::kAssumed), warp);
  EXPECT_EQ(assumed.low, 22);
  EXPECT_EQ(assumed.high, 42);
  EXPECT_TRUE(constant_range(constant(4.8e12, SourceKind::kOverride), hw_entry(Hw::kHbmBandwidth)).exact());
}

TEST(ConstantRange, StaysWithinWhatADeviceCanHave) {
  const ConstantRange range = constant_range(constant(0.95, SourceKind::kAssumed), hw_entry(Hw::kHbmReadFraction));
  EXPECT_EQ(range.high, 1);
}

TEST(ConstantRange, OfAFittedOneIsOfItsLogarithm) {
  const ConstantRange range = constant_range(FittedConstant{3, 0.2});
  EXPECT_NEAR(std::log(range.high / 3), kSigmasAtP95 * 0.2, 1e-12);
  EXPECT_NEAR(range.low * range.high, 9, 1e-12);
  EXPECT_NEAR(constant_range(FittedConstant{3, 0.2}, 1).high, 3 * std::exp(0.2), 1e-12);
}

TEST(WithConstant, ChangesOneNumberAndRoundsCounts) {
  const HardwareModel before = load_hardware("h200");
  const HardwareModel after = with_constant(before, hw_entry(Hw::kMaxItems), 20.4);
  EXPECT_EQ(after[Hw::kMaxItems], 20);
  EXPECT_EQ(after[Hw::kHbmLatency], before[Hw::kHbmLatency]);
}

}  // namespace
}  // namespace moesim
