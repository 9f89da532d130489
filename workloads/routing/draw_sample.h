// Routings of a study, one after the other: what a law with options draws for batch `number` of one step.
#pragma once

#include <cstdint>

#include "workloads/routed_batch.h"
#include "workloads/router.h"
#include "workloads/routing/routing_options.h"

namespace moesim {

// Not for traces. Batch i has the popularity of layer i mod `layers`; options that need several steps are left out.
RoutedBatch draw_sample(const Routing& law, const RoutingOptions& options, RouterShape shape, std::int64_t layers,
                        std::int64_t tokens, std::uint64_t seed, std::uint64_t number);

}  // namespace moesim
