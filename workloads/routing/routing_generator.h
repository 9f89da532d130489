// Draws routed traces, batch by batch: steps x layers x tokens. Same law, options, sizes and seed: same ids, on every
// machine. Memory does not grow with the number of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/routed_batch.h"
#include "workloads/routing/layer_router.h"

namespace moesim {

struct TraceShape {
  std::int64_t layers = 1, tokens = 0;
  RouterShape router;
};

// Requests stay for the whole trace: with T tokens a step and N tokens per request, request r holds tokens r N to
// r N + N - 1 of each step.
class RoutingGenerator {
 public:
  RoutingGenerator(const Routing& law, const RoutingOptions& options, TraceShape shape, std::uint64_t seed);

  // The next batch: all layers of step 0, then those of step 1, ... Valid until the next call.
  const RoutedBatch& next();

 private:
  void start_step();

  Routing law_;
  RoutingOptions options_;
  TraceShape shape_;
  std::uint64_t seed_ = 0;
  std::int64_t step_ = -1;
  std::int64_t layer_ = 0;
  RoutedBatch batch_;
  std::vector<LayerRouter> routers_;  // of a popularity law, one per layer
  std::vector<RandomStream> streams_;
  std::vector<std::int64_t> requests_;               // tokens of each
  std::vector<std::int64_t> domains_;                // of each request
  std::vector<std::vector<std::int32_t>> previous_;  // last token of each request in each layer; empty: not needed
  RowScratch scratch_;
};

// Tokens of each request where all but perhaps the last have as many.
std::vector<std::int64_t> equal_requests(std::int64_t tokens, std::int64_t tokens_per_request);

// One batch of new requests: what `draw_batch` is for a law without options.
void draw_fresh_batch(const LayerRouter& router, const RoutingOptions& options, std::int64_t tokens, RoutedBatch& batch,
                      RowScratch& scratch, RandomStream& stream);
// The same of requests with so many tokens each, whatever the options say of that.
void draw_fresh_batch(const LayerRouter& router, const RoutingOptions& options,
                      const std::vector<std::int64_t>& requests, RoutedBatch& batch, RowScratch& scratch,
                      RandomStream& stream);

}  // namespace moesim
