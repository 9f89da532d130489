// What `run`, `report` and `tune` simulate: the flags that say so, and the request that they make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/ladder_flags.h"
#include "tools/routing_flags.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

struct RequestFlags {
  std::string model = "qwen3.5-397b-a17b-fp8";
  std::string device = "h200";
  std::optional<std::string> concurrency, samples;
  std::string usual_concurrency = kDefaultConcurrency;  // where none is given
  std::vector<std::string> strategies;
  std::vector<std::string>
      parameters;  // "grouped_gemm.block_m=32": of each choice of that strategy; of studies, no flag
  std::string scope = "moe_layer";
  std::string launch = "graph";
  RoutingFlags routing;
  std::optional<std::string> trace_layer;
  std::string seed = "1";
  std::string tp = "1", ep = "1";
  std::optional<std::string> weights, other_weights, activations, clock;
  std::optional<std::string> context, kv_dtype, layers;  // of a step
  ModelFlags model_flags;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  LadderFlags ladder;

  void add(FlagSet& set);
  // Those of one strategy of a layer: no --strategy, no step, no ladder.
  void add_of_layer(FlagSet& set, std::int64_t default_samples);
  // Of a study that draws its own batches of steps.
  void add_of_steps(FlagSet& set);

 private:
  void add_what(FlagSet& set);
  void add_concurrency(FlagSet& set);
  void add_strategies(FlagSet& set);
  void add_layers(FlagSet& set);
  void add_samples(FlagSet& set, const std::string& help);
  void add_how(FlagSet& set);
};

// Reads the files that the flags name. Throws InputError.
ConcurrencyRequest request_of(const RequestFlags& flags);

// Of a study of which no strategy is feasible: each with its reason, once; what holds for all of them alone.
CommandResult infeasible_result(const ConcurrencyStudy& study);

}  // namespace moesim
