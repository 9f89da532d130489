// Routings of a study, one after the other: what a law with options draws for batch `number` of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/routed_batch.h"
#include "workloads/router.h"
#include "workloads/routing/routing_options.h"

namespace moesim {

// Not for traces. Batch i has the popularity of layer i mod `layers`; options that need several steps are left out.
RoutedBatch draw_sample(const Routing& law, const RoutingOptions& options, RouterShape shape, std::int64_t layers,
                        std::int64_t tokens, std::uint64_t seed, std::uint64_t number);
// The same of a step in which requests have so many tokens each.
RoutedBatch draw_mixed_sample(const Routing& law, const RoutingOptions& options, RouterShape shape, std::int64_t layers,
                              const std::vector<std::int64_t>& requests, std::uint64_t seed, std::uint64_t number);

}  // namespace moesim
