// A strategy lowers a MoE layer to an execution plan. One file each; catalogue.cpp lists them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "sim/plan/execution_plan.h"
#include "workloads/moe_layer.h"

namespace moesim {

enum class Scope {
  kExpertFfn,  // routed experts with given routing: projections, activation, combine
  kMoeLayer,   // and router, top-k, grouping, activation quantisation, shared experts
  kStep,       // a decode step (workloads/step): strategies are asked for its MoE layers
};

// A strategy that cannot run here is a value: sweeps go on.
struct Infeasible {
  std::string reason;
};
using Lowered = std::variant<ExecutionPlan, Infeasible>;

// Whole numbers by name ("block_m", "up.registers"); what is absent follows the strategy's default rule.
using Parameters = std::map<std::string, std::int64_t>;
// What a lowering went by: of each parameter that it asked for its value, or nullopt where projections or experts differ.
using UsedParameters = std::map<std::string, std::optional<std::int64_t>>;

struct LowerRequest {
  const MoeLayer& layer;
  const HardwareModel& hardware;
  double clock_hz;
  Scope scope;
  LaunchMode launch;
  const Parameters& parameters;
  const ImplementationConstants& constants;  // fitted ones of the implementation; empty: none
  std::string stage;                         // "": all kernels; else only those of this stage ("gemm1", "act", ...)
  UsedParameters* used = nullptr;            // filled where wanted
};

struct ParameterInfo {
  const char* name;
  const char* default_rule;
  const char* meaning;
  std::int64_t min, max;
};

struct Strategy {
  const char* name;
  const char* summary;
  const char* counterpart;  // real kernels of this structure
  std::span<const ParameterInfo> parameters;
  Grid grid;  // of the devices that it can be lowered for
  Lowered (*lower)(const LowerRequest&);
  // A what-if: no such kernel exists. It is simulated where it is asked for by name, is never recommended, and takes the
  // constants fitted to the kernels of this strategy. nullptr: no what-if.
  const char* what_if_of = nullptr;
};

std::span<const Strategy> strategy_catalogue();
// Why a strategy cannot run there at all: it is written for the other kind of grid.
std::optional<Infeasible> wrong_grid(const Strategy& strategy, const HardwareModel& hardware);

struct StackProfile;

// "grouped_gemm", "grouped_gemm:block_m=32,swap_ab=1" or, by the rules of a stack profile, "vllm-triton". Throws
// InputError (of the flag) with the nearest right name.
struct StrategyChoice {
  const Strategy* strategy = nullptr;  // nullptr: auto, the best of all per routing
  Parameters parameters;
  std::string implementation;  // "implementation=NAME" among the parameters: whose fitted constants; "": the overlay's
  std::string text;
  const StackProfile* stack = nullptr;  // whose rules set what `parameters` do not
};
StrategyChoice parse_strategy(const std::string& text, const std::string& flag = "--strategy");
// The same with this parameter, in place of what was said of it; its text names what is stated. CHECKs that it is none of
// auto. Throws InputError (of `flag`).
StrategyChoice with_parameter(const StrategyChoice& choice, const std::string& parameter, std::int64_t value,
                              const std::string& flag = "--strategy");
// Parameters that choose another kernel than a strategy's default one, as an overlay names them: "persistent=1" or "".
std::string kernel_variant(const Parameters& parameters);
// Checks names and ranges against the strategy's parameter list.
void check_parameters(const Strategy& strategy, const Parameters& parameters, const std::string& flag = "--strategy");

}  // namespace moesim
