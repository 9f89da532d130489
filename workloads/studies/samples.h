// The samples of a study: a routing each, seen by all strategies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/studies/concurrency.h"

namespace moesim {

// Routings of a point: as asked for, or as many as the trace has.
std::int64_t sample_count(const ConcurrencyRequest& request);

// The request with its first routing alone.
ConcurrencyRequest of_first_sample(ConcurrencyRequest request);

// The sample's MoE layers, as the simulated device has them. It refers to the request's model.
DecodeStep sample_of(const ConcurrencyRequest& request, std::int64_t concurrency, std::size_t sample);

// The same of a step of continuous batching; not of a trace's routing. Requests of it, one after the other, have as many
// tokens as the sequences have new ones.
DecodeStep mixed_sample_of(const ConcurrencyRequest& request, const std::vector<StepSequences>& mixed,
                           std::size_t sample);

// A layer or a step, as the request's scope says.
PredictionOrInfeasible predict_sample(const DecodeStep& sample, const ConcurrencyRequest& request,
                                      const StrategyChoice& choice, const SimulateOptions& simulate);

// Of the first so many decoder layers.
std::int64_t moe_layers_among(const MoeModel& model, std::int64_t layers);

}  // namespace moesim
