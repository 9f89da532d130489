#include "workloads/routing/routing_generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "sim/units/check.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::int64_t kStepsPerMove = 16;        // popularities drift in moves of so many steps
constexpr double kStepsOfDriftFlag = 1000;        // over which drift is stated
constexpr std::uint64_t kRequests = 1ULL << 62U;  // the stream of the requests' domains

std::vector<std::int64_t> draw_domains(const RoutingOptions& options, std::int64_t requests, RandomStream& stream) {
  std::vector<std::int64_t> domains(static_cast<std::size_t>(requests), 0);
  if (options.domains == 1) return domains;
  const auto draw = [&] { return static_cast<std::int64_t>(stream.below(static_cast<std::size_t>(options.domains))); };
  if (options.same_domain) {
    std::fill(domains.begin(), domains.end(), draw());
  } else {
    std::generate(domains.begin(), domains.end(), draw);
  }
  return domains;
}

// `requests`: tokens of each. `previous`: the last token of each request, replaced; empty where none is kept.
void draw_rows(const LayerRouter& router, const RoutingOptions& options, std::span<const std::int64_t> requests,
               std::span<const std::int64_t> domains, bool first_step, std::vector<std::int32_t>& previous,
               RoutedBatch& batch, RowScratch& scratch, RandomStream& stream) {
  const auto topk = static_cast<std::size_t>(batch.topk);
  const std::span<std::int32_t> ids(batch.ids);
  std::int64_t token = 0;
  for (std::size_t request = 0; request < domains.size(); ++request) {
    std::span<const std::int32_t> before;
    if (!first_step && !previous.empty()) before = std::span(previous).subspan(request * topk, topk);
    double keep = options.sticky;
    const std::int64_t end = token + requests[request];
    for (; token < end; ++token) {
      const std::span<std::int32_t> row = ids.subspan(static_cast<std::size_t>(token) * topk, topk);
      router.draw_row(domains[request], before, keep, row, scratch, stream);
      before = row;
      keep = options.sticky_prefill;
    }
    if (!previous.empty()) {
      std::copy(before.begin(), before.end(), previous.begin() + static_cast<std::ptrdiff_t>(request * topk));
    }
  }
}

}  // namespace

std::vector<std::int64_t> equal_requests(std::int64_t tokens, std::int64_t tokens_per_request) {
  std::vector<std::int64_t> requests(static_cast<std::size_t>(divide_up(tokens, tokens_per_request)),
                                     tokens_per_request);
  requests.back() = tokens - tokens_per_request * (static_cast<std::int64_t>(requests.size()) - 1);
  return requests;
}

RoutingGenerator::RoutingGenerator(const Routing& law, const RoutingOptions& options, TraceShape shape,
                                   std::uint64_t seed)
    : law_(law), options_(options), shape_(shape), seed_(seed), layer_(shape.layers), scratch_(shape.router.experts) {
  MOESIM_CHECK(shape.layers >= 1 && shape.tokens >= 1);
  MOESIM_CHECK(shape.router.topk >= 1 && shape.router.topk <= shape.router.experts);
  if (!is_popularity_law(law.kind)) return;
  batch_ = {.tokens = shape.tokens, .topk = shape.router.topk, .experts = shape.router.experts, .ids = {}};
  batch_.ids.resize(static_cast<std::size_t>(batch_.picks()));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    routers_.emplace_back(law, options, shape.router, seed, layer);
    streams_.push_back(stream_of(seed, static_cast<std::uint64_t>(layer)));
  }
  RandomStream requests = stream_of(seed, kRequests);
  requests_ = equal_requests(shape.tokens, options.tokens_per_request);
  domains_ = draw_domains(options, static_cast<std::int64_t>(requests_.size()), requests);
  const std::size_t kept = options.sticky > 0 ? domains_.size() * static_cast<std::size_t>(shape.router.topk) : 0;
  previous_.assign(static_cast<std::size_t>(shape.layers), std::vector<std::int32_t>(kept));
}

void RoutingGenerator::start_step() {
  layer_ = 0;
  ++step_;
  if (options_.drift == 0 || step_ == 0 || step_ % kStepsPerMove != 0) return;
  const double correlation = std::pow(1 - options_.drift, static_cast<double>(kStepsPerMove) / kStepsOfDriftFlag);
  for (LayerRouter& router : routers_) router.drift(correlation);
}

const RoutedBatch& RoutingGenerator::next() {
  if (layer_ == shape_.layers) start_step();
  const auto layer = static_cast<std::size_t>(layer_++);
  if (routers_.empty()) {
    const auto sample = static_cast<std::uint64_t>(step_ * shape_.layers) + layer;
    batch_ = draw_batch(law_, shape_.router.experts, shape_.router.topk, shape_.tokens, seed_, sample);
  } else {
    draw_rows(routers_[layer], options_, requests_, domains_, step_ == 0, previous_[layer], batch_, scratch_,
              streams_[layer]);
  }
  return batch_;
}

void draw_fresh_batch(const LayerRouter& router, const RoutingOptions& options, std::int64_t tokens, RoutedBatch& batch,
                      RowScratch& scratch, RandomStream& stream) {
  draw_fresh_batch(router, options, equal_requests(tokens, options.tokens_per_request), batch, scratch, stream);
}

void draw_fresh_batch(const LayerRouter& router, const RoutingOptions& options,
                      const std::vector<std::int64_t>& requests, RoutedBatch& batch, RowScratch& scratch,
                      RandomStream& stream) {
  batch.tokens = std::accumulate(requests.begin(), requests.end(), std::int64_t{0});
  batch.ids.resize(static_cast<std::size_t>(batch.picks()));
  const std::vector<std::int64_t> domains = draw_domains(options, static_cast<std::int64_t>(requests.size()), stream);
  std::vector<std::int32_t> nothing_kept;
  draw_rows(router, options, requests, domains, true, nothing_kept, batch, scratch, stream);
}

}  // namespace moesim
