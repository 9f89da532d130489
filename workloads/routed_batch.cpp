#include "workloads/routed_batch.h"

#include <algorithm>
#include <cstddef>

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

}  // namespace moesim
