// The one call that everything to the right uses: (layer, hardware, strategy) -> Prediction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "sim/engine/simulate.h"
#include "workloads/moe_layer.h"
#include "workloads/step/step_part.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

struct PredictOptions {
  Scope scope = Scope::kMoeLayer;
  LaunchMode launch = LaunchMode::kGraph;
  std::optional<double> clock_hz;            // default: clock.boost
  std::string stage;                         // "": the whole scope
  const Calibration* calibration = nullptr;  // nullptr: uncalibrated
  SimulateOptions simulate;
};

struct KernelSummary {
  std::string name, stage;
  KernelResult result;
};

struct Prediction {
  std::string strategy;        // with its parameters, as given; of auto: the winner's
  std::string implementation;  // whose fitted constants were used; "": none, the device's alone
  Duration time;
  Attribution attribution;
  PartTimes parts{};  // of a decode step: they sum to the time
  Duration bound;  // closed form, never above time: distinct bytes / highest read rate, or work / highest matrix rate
  bool matrix_bound = false;  // which of the two the bound is
  Bytes memory_read, memory_reread, cache_read, written;
  std::int64_t active_experts = 0;
  std::int64_t work_items = 0, cohorts = 0;
  std::vector<KernelSummary> kernels;
  bool stopped = false;  // at the deadline of options.simulate: only that the time is above it is known

  [[nodiscard]] double achieved_rate() const {  // bytes a second from memory
    return memory_read.as_double() / to_seconds(time);
  }
};

using PredictionOrInfeasible = std::variant<Prediction, Infeasible>;

// `choice.strategy` nullptr (auto): the fastest of all feasible strategies with default parameters.
PredictionOrInfeasible predict(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                               const PredictOptions& options = {});

// What predict() is made of: a layer as the choice's strategy lowers it, with its parameters and fitted constants; a plan's
// figures, without bound and names; and the fastest of the strategies for the device's grid with default parameters, or all
// reasons (a listener hears the fastest only).
Lowered lower_layer(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                    const PredictOptions& options, UsedParameters* used = nullptr);
Prediction simulate_plan(const ExecutionPlan& plan, const HardwareModel& hardware, const PredictOptions& options);
PredictionOrInfeasible best_strategy(
    const HardwareModel& hardware,
    const std::function<PredictionOrInfeasible(const StrategyChoice&, const PredictOptions&)>& predict_one,
    const PredictOptions& options);

// Whose fitted constants a strategy takes: the implementation that the choice names, else the calibration's first of this
// strategy, variant and weights. nullptr: none is known, and the strategy has the device's constants alone.
const Implementation* implementation_of(const StrategyChoice& choice, const Calibration* calibration,
                                        WeightFormat weights);

// What a kernel of the choice's strategy would be launched with there: what was asked for, and of the rest its tile (block_*,
// tile_*, num_*), where that is the same for all experts and projections that share a name.
Parameters tile_parameters(const MoeLayer& layer, const HardwareModel& hardware, const StrategyChoice& choice,
                           const PredictOptions& options);

// FLOP a second of all units at the highest rate of any type.
double highest_matrix_rate(const HardwareModel& hardware, const PredictOptions& options);

// The bound alone. Bytes: active experts' matrices once (and router and shared experts for the whole layer);
// work: useful rows at the device's highest matrix rate.
Duration bound(const MoeLayer& layer, const HardwareModel& hardware, const PredictOptions& options, bool* matrix_bound);

// What a user would compute without moesim: active experts x all matrices / achieved read rate (15/16 of the
// datasheet, 4.5 of 4.8 TB/s on an H200). `active` may be a mean.
Duration roofline_floor(const MoeLayer& layer, const HardwareModel& hardware, double active);

const char* scope_name(Scope scope);
const char* launch_name(LaunchMode mode);
Scope parse_scope(const std::string& text);        // throws InputError (flag --scope)
LaunchMode parse_launch(const std::string& text);  // throws InputError (flag --launch)

}  // namespace moesim
