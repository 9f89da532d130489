// The simulated side of a comparison: MoE layers of so many tokens under one strategy, over several routings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "workloads/moe_model.h"
#include "workloads/predict.h"
#include "workloads/routed_batch.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

struct SimulationInputs {
  MoeModel model;
  WeightFormat activations;
  HardwareModel hardware;
  std::optional<Calibration> calibration;
  std::optional<double> clock_hz;
  std::int64_t tp = 1, ep = 1;
  // Routings of so many tokens, at least one. May throw InputError.
  std::function<std::vector<RoutedBatch>(std::int64_t tokens)> batches;
};

struct SimulatedKernel {
  std::string name, stage;
  TimePoint start, end;  // from the layer's first kernel on
  Blame limited_by = Blame::kLaunch;
  Bytes memory_read;
};

struct SimulatedLayer {
  std::string strategy, implementation;  // "": the device's constants alone
  Duration busy, span;                   // means: at least one kernel runs; first kernel's start to last one's end
  std::int64_t samples = 0;              // routings simulated
  double distinct_experts = 0;           // mean
  Blame limited_by = Blame::kLaunch;
  std::vector<SimulatedKernel> kernels;  // of the first routing

  [[nodiscard]] Duration gaps() const { return span - busy; }
};

struct LayerRun {
  std::variant<SimulatedLayer, Infeasible> layer;
  std::vector<std::vector<KernelSummary>> kernels;  // of each routing, by start
};

// Runs each combination once.
class LayerSimulation {
 public:
  explicit LayerSimulation(const SimulationInputs& inputs) : inputs_(inputs) {}
  const LayerRun& run(const StrategyChoice& choice, std::int64_t tokens, Scope scope, LaunchMode launch);

 private:
  [[nodiscard]] LayerRun simulate(const StrategyChoice& choice, std::int64_t tokens, Scope scope,
                                  LaunchMode launch) const;

  const SimulationInputs& inputs_;
  std::map<std::tuple<std::string, std::int64_t, Scope, LaunchMode>, LayerRun> runs_;
};

// Of kernels by start: how long each ran while none before it did. They sum to the time in which any ran.
std::vector<Duration> own_times(const std::vector<std::pair<TimePoint, TimePoint>>& kernels);

Duration mean_of(Duration total, std::size_t count);

// The largest part but launch, and its share of all others.
std::pair<Blame, double> limit_of(Attribution attribution);

}  // namespace moesim
