#include "workloads/routing/draw_sample.h"

#include <numeric>

#include "workloads/routing/popularity.h"
#include "workloads/routing/random_stream.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {

RoutedBatch draw_sample(const Routing& law, const RoutingOptions& options, RouterShape shape, std::int64_t layers,
                        std::int64_t tokens, std::uint64_t seed, std::uint64_t number) {
  return draw_mixed_sample(law, options, shape, layers, equal_requests(tokens, options.tokens_per_request), seed,
                           number);
}

RoutedBatch draw_mixed_sample(const Routing& law, const RoutingOptions& options, RouterShape shape, std::int64_t layers,
                              const std::vector<std::int64_t>& requests, std::uint64_t seed, std::uint64_t number) {
  const RoutingOptions single = of_single_step(options);
  const bool alike = law.kind == RoutingKind::kUniform || layers == 1;
  if ((alike && single == RoutingOptions{}) || !is_popularity_law(law.kind)) {
    const auto tokens = std::accumulate(requests.begin(), requests.end(), std::int64_t{0});
    return draw_batch(law, shape.experts, shape.topk, tokens, seed, number);
  }
  const auto layer = static_cast<std::int64_t>(number) % layers;
  const LayerRouter router(law, single, shape, seed, layer);
  RoutedBatch batch{.topk = shape.topk, .experts = shape.experts, .ids = {}};
  RowScratch scratch(shape.experts);
  RandomStream stream = stream_of(seed, number);
  draw_fresh_batch(router, single, requests, batch, scratch, stream);
  return batch;
}

}  // namespace moesim
