// A recorded routing: which experts the tokens of each step picked, MoE layer by MoE layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/routed_batch.h"

namespace moesim {

struct TraceStep {
  std::int64_t id = 0;              // as recorded, unique in a trace
  std::vector<RoutedBatch> layers;  // in the order of RoutedTrace::layers; all of the same tokens
};

// Leading steps that a reader dropped.
struct WarmUp {
  std::int64_t steps = 0, tokens = 0;
  std::int64_t first = 0, last = 0;  // their ids

  bool operator==(const WarmUp&) const = default;
};

struct RoutedTrace {
  std::string model, source;  // "": not recorded
  std::int64_t experts = 0, topk = 0;
  std::vector<std::int64_t> layers;  // ids as recorded, ascending; layers without routed experts are not among them
  std::vector<TraceStep> steps;      // at least one; the tokens may differ from step to step
  bool from_counts = false;          // rows dealt from counts per expert: which token picked what was not recorded
  WarmUp warm_up;
  std::vector<std::string> notes;  // what was left out or made up, for the user
};

// Every step's batch of every layer, step by step.
std::vector<RoutedBatch> all_batches(RoutedTrace trace);

// Only the layer of that id, which the trace must have.
RoutedTrace only_layer(RoutedTrace trace, std::int64_t layer);

}  // namespace moesim
