#include "workloads/routed_trace.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
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

}  // namespace moesim
