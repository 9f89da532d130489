#include "workloads/studies/samples.h"

#include <algorithm>
#include <cstddef>

#include "sim/units/check.h"
#include "workloads/routing/draw_sample.h"
#include "workloads/step/predict_step.h"

namespace moesim {
namespace {

// Each MoE layer of a step has a popularity of its own.
std::int64_t routing_layers(const ConcurrencyRequest& request) {
  return request.options.scope == Scope::kStep ? request.model.moe_layers : request.routing_layers;
}

RoutedBatch batch_of(const ConcurrencyRequest& request, std::int64_t concurrency, std::size_t number) {
  if (request.routing.kind == RoutingKind::kTrace) return request.trace[number % request.trace.size()];
  const RouterShape shape{request.model.experts + request.model.zero_experts, request.model.topk};
  return draw_sample(request.routing, request.routing_options, shape, routing_layers(request), concurrency,
                     request.seed, number);
}

// Batches of a sample: one, or one of each MoE layer of the model, simulated or not.
std::int64_t batches_per_sample(const ConcurrencyRequest& request) {
  return request.options.scope == Scope::kStep ? request.model.moe_layers : 1;
}

}  // namespace

std::int64_t sample_count(const ConcurrencyRequest& request) {
  if (request.routing.kind != RoutingKind::kTrace) return request.samples;
  const std::int64_t each = std::max<std::int64_t>(1, batches_per_sample(request));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(request.trace.size()) / each);
}

ConcurrencyRequest of_first_sample(ConcurrencyRequest request) {
  request.samples = 1;
  const auto each = static_cast<std::size_t>(std::max<std::int64_t>(1, batches_per_sample(request)));
  if (request.trace.size() > each)
    request.trace.erase(request.trace.begin() + static_cast<std::ptrdiff_t>(each), request.trace.end());
  return request;
}

DecodeStep sample_of(const ConcurrencyRequest& request, std::int64_t concurrency, std::size_t sample) {
  DecodeStep step{request.model, request.step, concurrency, request.tp, request.ep, request.activations, {}};
  const bool whole = request.options.scope == Scope::kStep;
  const std::int64_t layers = whole ? moe_layers_among(request.model, step.layers()) : 1;
  const std::size_t first = sample * static_cast<std::size_t>(batches_per_sample(request));
  for (std::int64_t l = 0; l < layers; ++l) {
    const RoutedBatch batch = batch_of(request, concurrency, first + static_cast<std::size_t>(l));
    MOESIM_CHECK(batch.tokens == concurrency);
    step.moe_layers.push_back(shard_layer(request.model, batch, request.activations, request.tp, request.ep));
  }
  return step;
}

DecodeStep mixed_sample_of(const ConcurrencyRequest& request, const std::vector<StepSequences>& mixed,
                           std::size_t sample) {
  MOESIM_CHECK(request.options.scope == Scope::kStep && request.routing.kind != RoutingKind::kTrace);
  std::vector<std::int64_t> tokens;
  for (const StepSequences& alike : mixed) {
    tokens.insert(tokens.end(), static_cast<std::size_t>(alike.count), alike.tokens);
  }
  const auto sequences = static_cast<std::int64_t>(tokens.size());
  DecodeStep step{request.model, request.step, sequences, request.tp, request.ep, request.activations, {}, mixed};
  const RouterShape shape{request.model.experts + request.model.zero_experts, request.model.topk};
  const std::int64_t layers = moe_layers_among(request.model, step.layers());
  for (std::int64_t l = 0; l < layers; ++l) {
    const auto number = sample * static_cast<std::size_t>(request.model.moe_layers) + static_cast<std::size_t>(l);
    const RoutedBatch batch = draw_mixed_sample(request.routing, request.routing_options, shape,
                                                request.model.moe_layers, tokens, request.seed, number);
    step.moe_layers.push_back(shard_layer(request.model, batch, request.activations, request.tp, request.ep));
  }
  return step;
}

PredictionOrInfeasible predict_sample(const DecodeStep& sample, const ConcurrencyRequest& request,
                                      const StrategyChoice& choice, const SimulateOptions& simulate) {
  PredictOptions options = request.options;
  options.simulate = simulate;
  if (request.calibration) options.calibration = &*request.calibration;
  return options.scope == Scope::kStep ? predict_step(sample, request.hardware, choice, options)
                                       : predict(sample.moe_layers.front(), request.hardware, choice, options);
}

std::int64_t moe_layers_among(const MoeModel& model, std::int64_t layers) {
  return std::count_if(model.decoder_layers.begin(), model.decoder_layers.begin() + layers,
                       [](const DecoderLayer& layer) { return layer.moe; });
}

}  // namespace moesim
