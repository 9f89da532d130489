// Which experts the tokens of one decode step picked.
#pragma once

#include <cstdint>
#include <vector>

namespace moesim {

// Row-major [tokens, topk]. Within a row ids are distinct and in [0, experts).
struct RoutedBatch {
  std::int64_t tokens = 0;
  std::int64_t topk = 0;
  std::int64_t experts = 0;
  std::vector<std::int32_t> ids;

  [[nodiscard]] std::int64_t picks() const { return tokens * topk; }
};

// Rows (picks) per expert, [experts].
std::vector<std::int64_t> rows_per_expert(const RoutedBatch& batch);

// A batch whose expert e has rows[e] rows. The rows sum to tokens x topk and none exceeds the tokens. Deals the fullest
// expert's rows first, down one column after the other: with at most `tokens` rows none meets itself.
RoutedBatch deal_rows(const std::vector<std::int64_t>& rows, std::int64_t tokens, std::int64_t topk);

struct RoutingStatistics {
  double distinct_experts = 0;
  double duplicate_share = 0;       // 1 - distinct / picks: share of picks whose expert another pick loads anyway
  double mean_rows_per_active = 0;  // picks / distinct
  double max_rows = 0;
};
RoutingStatistics routing_statistics(const RoutedBatch& batch);

}  // namespace moesim
