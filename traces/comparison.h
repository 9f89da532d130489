// A profiler trace beside the simulation of the same MoE layers: stage by stage what was measured, what is simulated, how far
// apart they are and what limits the simulated one.
//
// Measured: of a section's layers that are alike, the median, least and most. A kernel's time is that in which it ran and
// none did that had begun before it (programmatic launches overlap), so that stages sum to the time in which any ran; the
// same on the simulated side (means over the routings drawn). Stages that either side fuses are compared fused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "traces/layer_simulation.h"
#include "traces/trace_layers.h"
#include "workloads/predict.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

struct MeasuredTime {
  Duration median, least, most;  // over layers
};

struct MeasuredStage {
  MeasuredTime time;
  std::int64_t kernels = 0;  // of a layer, median
};

struct SimulatedStage {
  Duration time;                      // mean over routings
  double kernels = 0;                 // of a layer, mean
  Blame limited_by = Blame::kHelper;  // its largest part but launch, which stands in the gaps
  double share = 0;                   // of all parts but launch
};

struct StageRow {
  StageSet stages;
  std::optional<MeasuredStage> measured;
  std::optional<SimulatedStage> simulated;
};

// In percent of the measured time; nullopt where that is below 0.05 us.
std::optional<double> error_percent(Duration simulated, Duration measured);

struct SectionComparison {
  std::size_t section = 0;  // of TraceLayers
  std::string name;
  std::int64_t repeats = 1;
  std::int64_t layers = 0, alike = 0;
  std::optional<std::int64_t> period;
  std::string signature;  // of the layers that are alike
  std::int64_t tokens = 0;
  std::string scope, launch;
  std::vector<StageRow> stages;  // in the order of a layer
  MeasuredTime busy, gaps, span;
  std::vector<std::string> limits;  // what this comparison cannot tell, for the reader
  std::variant<SimulatedLayer, Infeasible> simulated;
  Duration moe_time;     // of all layers: at least one MoE kernel runs
  Duration device_time;  // of all events: at least one runs

  [[nodiscard]] const SimulatedLayer* layer() const { return std::get_if<SimulatedLayer>(&simulated); }
  // Sums of the stages that both sides have.
  [[nodiscard]] Duration compared_measured() const;
  [[nodiscard]] Duration compared_simulated() const;
};

struct Comparison {
  std::string tool_version, trace_file;
  std::string model, model_file, weights, activations;
  std::string device, device_title, device_file, device_hash;
  std::vector<std::string> overrides, model_overrides;
  double clock_hz = 0;
  std::string calibration, routing;
  std::int64_t samples = 0;  // routings simulated, of a section at most
  std::int64_t tp = 1, ep = 1;
  std::uint64_t seed = 0;
  std::vector<std::string> taken;  // what was read off the trace instead of said by flags

  std::int64_t all_events = 0, device_events = 0;
  Duration device_time, named_time;
  std::map<std::string, Duration> by_class;
  std::int64_t moe_kernels = 0, staged_kernels = 0;
  std::vector<SectionComparison> sections;  // those with layers
};

struct ComparisonRequest : SimulationInputs {
  std::string tool_version;
  std::vector<std::string> overrides, model_overrides;  // for the record
  std::uint64_t seed = 1;
  std::string routing;
  // Where not given: as each section's kernels, operators and annotations say. InputError where they do not.
  std::optional<StrategyChoice> strategy;
  std::optional<std::int64_t> tokens;
  std::optional<Scope> scope;
  std::optional<LaunchMode> launch;
  std::vector<std::string> taken;
};

// `layers` has at least one layer. Throws InputError.
Comparison compare(const ProfilerTrace& trace, const TraceLayers& layers, const ComparisonRequest& request);

}  // namespace moesim
