// The rate of the memory over a run: bytes are kept, points are few.
#include "traces/views/memory_rate.h"

#include <gmock/gmock.h>

#include <numeric>

#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

class MemoryRateOfARun : public testing::Test {
 protected:
  MemoryRateOfARun() { meter.on_start(plan, machine); }
  void load(std::int64_t from, std::int64_t to, double memory, double cache = 0) {
    MachineLoad load;
    load.from = TimePoint(from);
    load.to = TimePoint(to);
    load.rate[0] = cache;
    load.rate[1] = memory;
    meter.on_load(load);
  }

  Machine machine = testkit::cached_machine(1);
  ExecutionPlan plan;
  MemoryRateMeter meter;
};

TEST_F(MemoryRateOfARun, IsTheMeanOfEachStep) {
  load(0, 5'000, 1e12);
  load(5'000, 20'000, 2e12, 7e12);
  EXPECT_EQ(meter.rate().step, Duration(10'000));
  EXPECT_THAT(meter.rate().bytes_per_second, ElementsAre(DoubleEq(1.5e12), DoubleEq(2e12)));
  EXPECT_DOUBLE_EQ(meter.rate().peak.value(), testkit::kMemoryPeak);
}

// The last step is as long as the run.
TEST_F(MemoryRateOfARun, EndsWithTheRun) {
  load(0, 12'500, 1e12);
  EXPECT_THAT(meter.rate().bytes_per_second, ElementsAre(DoubleEq(1e12), DoubleEq(1e12)));
}

TEST_F(MemoryRateOfARun, HasFewPointsHoweverLongAndKeepsTheBytes) {
  constexpr std::int64_t kLoads = 100'000, kLength = 3'331;
  double bytes = 0;
  for (std::int64_t i = 0; i < kLoads; ++i) {
    const double rate = i % 3 == 0 ? 3e12 : 1e12;
    load(i * kLength, (i + 1) * kLength, rate);
    bytes += rate * to_seconds(Duration(kLength));
  }
  const MemoryRate rate = meter.rate();
  EXPECT_THAT(rate.bytes_per_second, SizeIs(Le(MemoryRateMeter::kMostSteps)));
  EXPECT_GT(rate.bytes_per_second.size(), MemoryRateMeter::kMostSteps / 2 - 1);
  const auto whole = static_cast<std::int64_t>(rate.bytes_per_second.size()) - 1;
  double sum = rate.bytes_per_second.back() * to_seconds(Duration(kLoads * kLength - whole * rate.step.value()));
  for (std::int64_t i = 0; i < whole; ++i)
    sum += rate.bytes_per_second[static_cast<std::size_t>(i)] * to_seconds(rate.step);
  EXPECT_THAT(sum, DoubleNear(bytes, bytes * 1e-9));
}

TEST_F(MemoryRateOfARun, StartsAnewWithEachRun) {
  load(0, 100'000'000, 1e12);
  meter.on_start(plan, machine);
  EXPECT_THAT(meter.rate().bytes_per_second, IsEmpty());
  load(0, 10'000, 2e12);
  EXPECT_THAT(meter.rate().bytes_per_second, ElementsAre(DoubleEq(2e12)));
}

}  // namespace
}  // namespace moesim
