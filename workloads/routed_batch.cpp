#include "workloads/routed_batch.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "sim/units/check.h"

namespace moesim {

std::vector<std::int64_t> rows_per_expert(const RoutedBatch& batch) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch.experts), 0);
  for (const std::int32_t id : batch.ids) {
    MOESIM_CHECK(id >= 0 && id < batch.experts);
    ++rows[static_cast<std::size_t>(id)];
  }
  return rows;
}

RoutingStatistics routing_statistics(const RoutedBatch& batch) {
  const std::vector<std::int64_t> rows = rows_per_expert(batch);
  const auto idle = std::count(rows.begin(), rows.end(), 0);
  const double distinct = static_cast<double>(batch.experts - idle);
  if (distinct == 0) return {};
  const double picks = static_cast<double>(batch.picks());
  return {.distinct_experts = distinct,
          .duplicate_share = 1 - distinct / picks,
          .mean_rows_per_active = picks / distinct,
          .max_rows = static_cast<double>(*std::max_element(rows.begin(), rows.end()))};
}

RoutedBatch deal_rows(const std::vector<std::int64_t>& rows, std::int64_t tokens, std::int64_t topk) {
  RoutedBatch batch{.tokens = tokens, .topk = topk, .experts = static_cast<std::int64_t>(rows.size()), .ids = {}};
  MOESIM_CHECK(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == batch.picks());
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rows[a] > rows[b]; });
  batch.ids.resize(static_cast<std::size_t>(batch.picks()));
  std::int64_t place = 0;
  for (const std::size_t expert : order) {
    MOESIM_CHECK(rows[expert] >= 0 && rows[expert] <= tokens);
    for (std::int64_t i = 0; i < rows[expert]; ++i, ++place) {
      const std::int64_t token = place % tokens, slot = place / tokens;
      batch.ids[static_cast<std::size_t>(token * topk + slot)] = static_cast<std::int32_t>(expert);
    }
  }
  return batch;
}

}  // namespace moesim
