#include "workloads/routed_trace.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "sim/units/check.h"

namespace moesim {

std::vector<RoutedBatch> all_batches(RoutedTrace trace) {
  std::vector<RoutedBatch> batches;
  batches.reserve(trace.steps.size() * trace.layers.size());
  for (TraceStep& step : trace.steps) std::move(step.layers.begin(), step.layers.end(), std::back_inserter(batches));
  return batches;
}

RoutedTrace only_layer(RoutedTrace trace, std::int64_t layer) {
  const auto found = std::find(trace.layers.begin(), trace.layers.end(), layer);
  MOESIM_CHECK(found != trace.layers.end());
  const auto index = static_cast<std::size_t>(found - trace.layers.begin());
  for (TraceStep& step : trace.steps) {
    RoutedBatch batch = std::move(step.layers[index]);
    step.layers.clear();
    step.layers.push_back(std::move(batch));
  }
  trace.layers = {layer};
  return trace;
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
