// The loads of a routing at several concurrencies: means, and how they spread over batches, layers and seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "workloads/routed_batch.h"
#include "workloads/routing/expert_loads.h"
#include "workloads/routing/routing_options.h"

namespace moesim {

struct RoutingStudyRequest {
  Routing law;  // a trace too: then `trace` has its batches
  RoutingOptions options;
  RouterShape router;
  std::vector<RoutedBatch> trace;
  std::vector<std::int64_t> concurrencies;
  std::int64_t layers = 1;
  std::int64_t steps = 1;
  std::int64_t samples = 1;  // traces of their own, of seeds from `seed` on
  std::uint64_t seed = 1;
  std::function<void(const RoutedBatch&)> sink;  // sees every batch, in order
  std::function<void(std::size_t done, std::size_t all)> progress;
};

struct LoadSummary {
  double mean = 0;
  double batch_deviation = 0;                             // of one batch
  std::optional<double> layer_deviation, seed_deviation;  // of a layer's, of a seed's mean; none: fewer than two
};

struct RoutingPoint {
  std::int64_t tokens = 0;
  std::int64_t batches = 0;
  std::array<LoadSummary, kLoadCount> loads;
  std::array<double, kHistogramBins> histogram{};  // mean number of experts
  // Effective experts of all batches of a layer together: how concentrated its popularity is in the long run. Means and
  // extremes over layers (of a trace: all batches together) and seeds.
  double long_run_mean = 0, long_run_least = 0, long_run_most = 0;
  std::optional<double> repeated;  // share of picks that the request's token of the step before had; none: one step
};

struct RoutingStudy {
  std::vector<RoutingPoint> points;
};

// Throws InputError where stickiness would need too much memory.
RoutingStudy run_routing_study(const RoutingStudyRequest& request);

}  // namespace moesim
