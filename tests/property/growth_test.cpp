// How loads grow with concurrency: duplicates of uniform routing, and time linear in distinct experts.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "hwmodels/build_machine.h"
#include "tests/property/cases.h"
#include "workloads/router.h"

namespace moesim::property {
namespace {

// A token misses an expert with probability 1 - k / E, so that of T k picks the share
//     1 - E (1 - (1 - k / E)^T) / (T k)
// is duplicate: 1.9 % at 3 tokens and 42.6 % at 64 for E = 512, k = 10.
TEST(Growth, DuplicateShareOfUniformRouting) {
  constexpr double kExperts = 512, kTopk = 10;
  for (const auto& [tokens, stated] : {std::pair{3, 0.019}, std::pair{64, 0.426}}) {
    constexpr int kDraws = 400;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share =
          routing_statistics(draw_batch({}, 512, 10, tokens, 1, static_cast<std::uint64_t>(i))).duplicate_share;
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kDraws;
    const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
    const double expected = 1 - kExperts * (1 - std::pow(1 - kTopk / kExperts, tokens)) / (tokens * kTopk);
    EXPECT_NEAR(expected, stated, 0.0006);
    EXPECT_NEAR(mean, expected, 3 * error) << tokens << " tokens";
    EXPECT_LT(error, 0.01);
  }
}

struct Fit {
  double a = 0, b = 0, worst_residual = 0;  // the residual as a share of the value
};

Fit least_squares(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  Fit fit;
  fit.b = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  fit.a = (sy - fit.b * sx) / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    fit.worst_residual = std::max(fit.worst_residual, std::abs(fit.a + fit.b * x[i] - y[i]) / y[i]);
  }
  return fit;
}

struct GrowthCase {
  const char* model;
  const char* device;
  double residual = 0.04;  // waves of few tiles leave steps in small models
  double slope = 0.05;     // how far from the highest read rate
};
void PrintTo(const GrowthCase& c, std::ostream* out) { *out << c.model << " on " << c.device; }

class LinearGrowth : public testing::TestWithParam<GrowthCase> {};

// grouped_gemm (K-steps of 256 bytes of a row: nearly a plain stream), expert FFN, at most one row tile (16) an expert,
// bytes above twice the cache: memory streams each
// active expert once, time = a + b x distinct experts with b = an expert's bytes / the achieved read rate.
TEST_P(LinearGrowth, TimeIsLinearInDistinctExperts) {
  const HardwareModel& hardware = device(GetParam().device);
  Case c;
  c.model = GetParam().model;
  c.routing = "uniform";
  c.format = c.activations = "bf16";
  c.scope = Scope::kExpertFfn;
  const double twice_the_cache = 2 * hardware[Hw::kLlcCapacity];
  std::vector<double> experts, seconds;
  Bytes expert;
  for (const std::int64_t tokens : {8, 12, 16, 24, 32, 48, 64}) {
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      c.tokens = tokens;
      c.seed = 100 + draw;
      const MoeLayer layer = c.layer();
      expert = layer.up_bytes() + layer.down_bytes();
      if (*std::ranges::max_element(layer.rows) > 16) continue;
      if (expert.as_double() * static_cast<double>(layer.active) < twice_the_cache) continue;
      const std::optional<Prediction> prediction =
          feasible(layer, hardware, "grouped_gemm:block_n=64,block_k=128", c.options());
      ASSERT_TRUE(prediction);
      experts.push_back(static_cast<double>(layer.active));
      seconds.push_back(to_seconds(prediction->time));
    }
  }
  ASSERT_GE(experts.size(), 12U);
  const auto [least, most] = std::ranges::minmax(experts);
  ASSERT_GE(most, 1.7 * least) << "too little range for a slope";
  const Fit fit = least_squares(experts, seconds);
  const double expected = expert.as_double() / highest_read_rate(hardware);
  EXPECT_LE(fit.worst_residual, GetParam().residual);
  EXPECT_NEAR(fit.b, expected, GetParam().slope * expected) << "a = " << fit.a * 1e6 << " us";
  EXPECT_GT(fit.a, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, LinearGrowth,
                         testing::Values(GrowthCase{"qwen3.5-397b-a17b", "h200", 0.03},
                                         // Ends of few waves are fuller: measured 5 % from 8 to 128 tokens.
                                         GrowthCase{"qwen3-30b-a3b", "h200", 0.047, 0.07},
                                         GrowthCase{"deepseek-v3", "h200"}, GrowthCase{"kimi-k2", "h200"}),
                         [](const auto& instance) {
                           std::string name = instance.param.model;
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// Events of the engine per work item do not grow: 1, 10, 100 times the items of one kernel (groups of 48 that alternate
// between two classes, as experts do) take at most 1, 10, 100 times the events.
TEST(Growth, EventsGrowAtMostLinearlyWithItems) {
  const auto events = [](std::int64_t groups) {
    ItemClass item;
    item.steps = 32;
    item.stages = 3;
    item.read = Bytes(32 * 4096);
    item.epilogue = testkit::nanoseconds(200);
    Kernel kernel = testkit::one_group(item, 48, 2);
    item.pipe_seconds[0] = 2e-7;
    kernel.classes.push_back(item);
    kernel.groups.resize(static_cast<std::size_t>(groups), kernel.groups[0]);
    for (std::size_t g = 1; g < kernel.groups.size(); g += 2) kernel.groups[g].item_class = 1;
    Machine machine = testkit::cached_machine(132);
    machine.dispatch_interval = testkit::nanoseconds(0.5);
    const SimulationResult result = simulate(testkit::plan_of(kernel), machine);
    EXPECT_EQ(result.items, 48 * groups);
    EXPECT_LE(result.cohorts, result.items);
    return static_cast<double>(result.events);
  };
  const double once = events(20);
  EXPECT_LE(events(200), 1.2 * 10 * once);
  EXPECT_LE(events(2000), 1.2 * 100 * once);
}

}  // namespace
}  // namespace moesim::property
