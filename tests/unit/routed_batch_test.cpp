#include "workloads/routed_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(RoutedBatch, CountsRowsOfEveryExpertIdleOnesToo) {
  const RoutedBatch batch{.tokens = 3, .topk = 2, .experts = 5, .ids = {0, 4, 4, 1, 0, 4}};
  EXPECT_THAT(rows_per_expert(batch), ElementsAre(2, 1, 0, 0, 3));
}

TEST(RoutedBatch, StatisticsByHand) {
  const RoutedBatch batch{.tokens = 3, .topk = 2, .experts = 5, .ids = {0, 4, 4, 1, 0, 4}};
  const RoutingStatistics statistics = routing_statistics(batch);
  EXPECT_EQ(statistics.distinct_experts, 3);
  EXPECT_EQ(statistics.duplicate_share, 0.5);
  EXPECT_EQ(statistics.mean_rows_per_active, 2);
  EXPECT_EQ(statistics.max_rows, 3);
}

TEST(RoutedBatch, AllDistinctPicksShareNothing) {
  const RoutedBatch batch{.tokens = 2, .topk = 2, .experts = 4, .ids = {3, 2, 1, 0}};
  const RoutingStatistics statistics = routing_statistics(batch);
  EXPECT_EQ(statistics.distinct_experts, 4);
  EXPECT_EQ(statistics.duplicate_share, 0);
  EXPECT_EQ(statistics.mean_rows_per_active, 1);
  EXPECT_EQ(statistics.max_rows, 1);
}

TEST(RoutedBatch, AnEmptyBatchHasNoStatistics) {
  const RoutedBatch batch{.tokens = 0, .topk = 2, .experts = 4, .ids = {}};
  EXPECT_THAT(rows_per_expert(batch), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(routing_statistics(batch).distinct_experts, 0);
  EXPECT_EQ(routing_statistics(batch).duplicate_share, 0);
  EXPECT_EQ(routing_statistics(batch).max_rows, 0);
}

TEST(RoutedBatch, AnExpertOutOfRangeIsOurBug) {
  const RoutedBatch batch{.tokens = 1, .topk = 1, .experts = 4, .ids = {4}};
  EXPECT_THROW(rows_per_expert(batch), std::logic_error);
}

}  // namespace
}  // namespace moesim
