#include "workloads/routing/expert_loads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workloads/router.h"

namespace moesim {
namespace {

double of(const Loads& loads, Load load) { return loads[static_cast<std::size_t>(load)]; }

TEST(LoadMeter, ABatchByHand) {
  // Rows 3, 1, 0, 0: tokens {0, 1}, {0}, {0} as single picks.
  const RoutedBatch batch{.tokens = 4, .topk = 1, .experts = 4, .ids = {0, 0, 1, 0}};
  LoadMeter meter(4);
  const Loads loads = meter.measure(batch);
  EXPECT_EQ(of(loads, Load::kDistinct), 2);
  EXPECT_EQ(of(loads, Load::kDuplicatePercent), 50);
  EXPECT_EQ(of(loads, Load::kRowsPerActive), 2);
  EXPECT_EQ(of(loads, Load::kMaxRows), 3);
  EXPECT_EQ(of(loads, Load::kMaxOverMean), 3);
  EXPECT_DOUBLE_EQ(of(loads, Load::kGini), 2.0 * (3 * 1 + 4 * 3) / (4 * 4) - 5.0 / 4);
  EXPECT_DOUBLE_EQ(of(loads, Load::kEffective), std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25)));
  EXPECT_EQ(of(loads, Load::kTiles16), 2);
  EXPECT_EQ(meter.histogram()[0], 2);
  EXPECT_EQ(meter.histogram()[1], 1);
  EXPECT_EQ(meter.histogram()[3], 1);  // "3-4"
}

TEST(LoadMeter, EvenAndConcentratedLoads) {
  LoadMeter meter(64);
  const Loads even = meter.measure(draw_batch(parse_routing("balanced"), 64, 8, 128, 1, 0));
  EXPECT_NEAR(of(even, Load::kGini), 0, 1e-12);
  EXPECT_NEAR(of(even, Load::kEffective), 64, 1e-9);
  EXPECT_EQ(of(even, Load::kMaxOverMean), 1);
  const Loads same = meter.measure(draw_batch(parse_routing("same"), 64, 8, 128, 1, 0));
  EXPECT_NEAR(of(same, Load::kGini), 1 - 8.0 / 64, 1e-12);
  EXPECT_NEAR(of(same, Load::kEffective), 8, 1e-9);
  EXPECT_EQ(of(same, Load::kTiles64), 16);
  EXPECT_EQ(of(same, Load::kTiles128), 8);
}

// Against sums over all experts, batch after batch.
TEST(LoadMeter, AgreesWithSumsOverAllExperts) {
  LoadMeter meter(100);
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const RoutedBatch batch =
        draw_batch(parse_routing("zipf:1"), 100, 7, 5 + 40 * static_cast<std::int64_t>(sample), 1, sample);
    const Loads loads = meter.measure(batch);
    std::vector<std::int64_t> rows = rows_per_expert(batch);
    std::sort(rows.begin(), rows.end());
    double ranked = 0;
    std::int64_t tiles = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ranked += static_cast<double>(i + 1) * static_cast<double>(rows[i]);
      tiles += (rows[i] + 63) / 64;
    }
    EXPECT_NEAR(of(loads, Load::kGini), 2 * ranked / (100.0 * static_cast<double>(batch.picks())) - 1.01, 1e-12);
    EXPECT_EQ(of(loads, Load::kTiles64), static_cast<double>(tiles));
    EXPECT_EQ(of(loads, Load::kDistinct), routing_statistics(batch).distinct_experts);
    EXPECT_EQ(of(loads, Load::kMaxRows), routing_statistics(batch).max_rows);
    const auto& histogram = meter.histogram();
    EXPECT_EQ(std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0}), 100);
  }
}

TEST(LoadMeter, HistogramBinsEndWhereTheirNamesSay) {
  LoadMeter meter(1);
  const auto bin_of = [&](std::int64_t rows) {
    const RoutedBatch batch{
        .tokens = rows, .topk = 1, .experts = 1, .ids = std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0)};
    meter.measure(batch);
    return std::max_element(meter.histogram().begin(), meter.histogram().end()) - meter.histogram().begin();
  };
  for (const auto& [rows, name] : {std::pair{1, "1"},
                                   {2, "2"},
                                   {3, "3-4"},
                                   {4, "3-4"},
                                   {5, "5-8"},
                                   {128, "65-128"},
                                   {129, "129-256"},
                                   {256, "129-256"},
                                   {257, "257+"},
                                   {5000, "257+"}}) {
    EXPECT_STREQ(histogram_names()[static_cast<std::size_t>(bin_of(rows))], name) << rows;
  }
}

// Balanced routing where k divides E, with s = E/k: expert e has the tokens t with t mod s = e mod s, or, with fewer
// tokens than s, at most one.
TEST(LoadMeter, BalancedRoutingHasTheLoadsOfItsClosedForm) {
  for (const auto& [experts, topk] :
       {std::pair{8, 2}, {16, 1}, {128, 4}, {128, 8}, {160, 8}, {256, 8}, {384, 8}, {896, 16}}) {
    LoadMeter meter(experts);
    const std::int64_t stride = experts / topk;
    for (const std::int64_t tokens : {1, 2, 7, 16, 48, 96, 128, 320, 1024}) {
      const Loads loads = meter.measure(draw_batch(parse_routing("balanced"), experts, topk, tokens, 1, 0));
      const std::string what = fmt::format("{}/{}, {} tokens", topk, experts, tokens);
      const std::int64_t most = (tokens + stride - 1) / stride;
      EXPECT_EQ(of(loads, Load::kDistinct), static_cast<double>(std::min<std::int64_t>(experts, tokens * topk)))
          << what;
      EXPECT_EQ(of(loads, Load::kMaxRows), static_cast<double>(most)) << what;
      std::int64_t tiles = 0;
      for (std::int64_t residue = 0; residue < stride; ++residue) {
        const std::int64_t rows = tokens / stride + (residue < tokens % stride ? 1 : 0);
        tiles += topk * ((rows + 15) / 16);
      }
      EXPECT_EQ(of(loads, Load::kTiles16), static_cast<double>(tiles)) << what;
    }
  }
}

}  // namespace
}  // namespace moesim
