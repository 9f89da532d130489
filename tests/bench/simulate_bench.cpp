// How fast the simulator is. Counters: items (work items simulated a second), real_time (simulated time / wall time),
// simulated_us, cohorts. Of predict() as a whole: lowering and simulation.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "tests/testkit/collector.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"
#include "workloads/router.h"

namespace moesim {
namespace {

MoeLayer layer_of(const MoeModel& model, std::int64_t tokens) {
  const RoutedBatch batch = draw_batch({}, model.experts, model.topk, tokens, 1, 0);
  return shard_layer(model, batch, default_activations(model.expert_weights), 1, 1);
}

void count(benchmark::State& state, std::int64_t items, std::int64_t cohorts, Duration time) {
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["items"] = {static_cast<double>(items) * iterations, benchmark::Counter::kIsRate};
  state.counters["real_time"] = {to_seconds(time) * iterations, benchmark::Counter::kIsRate};
  state.counters["simulated_us"] = to_microseconds(time);
  state.counters["cohorts"] = static_cast<double>(cohorts);
}

void predict_layer(benchmark::State& state, const std::string& model, const std::string& strategy, std::int64_t tokens,
                   bool cohorts) {
  const MoeLayer layer = layer_of(load_model(model), tokens);
  const HardwareModel hardware = load_hardware("h200");
  const StrategyChoice choice = parse_strategy(strategy);
  PredictOptions options;
  options.simulate.cohorts = cohorts;
  Prediction last;
  for ([[maybe_unused]] const auto iteration : state) {
    PredictionOrInfeasible result = predict(layer, hardware, choice, options);
    if (const auto* infeasible = std::get_if<Infeasible>(&result)) {
      state.SkipWithError(infeasible->reason.c_str());
      return;
    }
    last = std::move(std::get<Prediction>(result));
  }
  count(state, last.work_items, last.cohorts, last.time);
}

void lower_layer(benchmark::State& state, const std::string& model, const Strategy& strategy, std::int64_t tokens) {
  const MoeLayer layer = layer_of(load_model(model), tokens);
  const HardwareModel hardware = load_hardware("h200");
  const Parameters no_parameters;
  const ImplementationConstants no_constants;
  const LowerRequest request{
      layer,        hardware, hardware[Hw::kClockBoost], Scope::kMoeLayer, LaunchMode::kGraph, no_parameters,
      no_constants, ""};
  for ([[maybe_unused]] const auto iteration : state) {
    Lowered lowered = strategy.lower(request);
    benchmark::DoNotOptimize(lowered);
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const char* model : {"qwen3.5-397b-a17b", "qwen3.5-397b-a17b-fp8"}) {
    for (const Strategy& strategy : strategy_catalogue()) {
      if (strategy.grid == Grid::kSequential) continue;
      for (const std::int64_t tokens : {1, 8, 64}) {
        const std::string point = fmt::format("{}/{}/{}", model, strategy.name, tokens);
        benchmark::RegisterBenchmark(("predict/" + point).c_str(), predict_layer, std::string(model),
                                     std::string(strategy.name), tokens, true)
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(("lower/" + point).c_str(), lower_layer, std::string(model), std::cref(strategy),
                                     tokens)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  benchmark::RegisterBenchmark("predict_without_cohorts/qwen3.5-397b-a17b/grouped_gemm/8", predict_layer,
                               std::string("qwen3.5-397b-a17b"), std::string("grouped_gemm"), 8, false)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("predict_without_cohorts/qwen3.5-397b-a17b/stream_gemv/1", predict_layer,
                               std::string("qwen3.5-397b-a17b"), std::string("stream_gemv"), 1, false)
      ->Unit(benchmark::kMillisecond);
  return true;
}();

// --- growth: one kernel of N items in groups of 48, which alternate between two classes as experts do ---

ExecutionPlan one_kernel(std::int64_t items) {
  PlanBuilder builder(LaunchMode::kGraph);
  Kernel kernel;
  kernel.name = "kernel";
  kernel.footprint = {128, 8192, 65536, 1};
  ItemClass item;
  item.steps = 32;
  item.stages = 3;
  item.read = Bytes(32 * 4096);
  item.epilogue = duration_from_seconds(2e-7);
  kernel.classes = {item, item};
  kernel.classes[1].pipe_seconds[0] = 1e-7;
  for (std::int64_t g = 0; g < items / 48; ++g) {
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(g % 2);
    group.count = 48;
    group.region = builder.add_region("weights", item.read * group.count);
    kernel.groups.push_back(group);
  }
  builder.add_kernel(std::move(kernel));
  return builder.seal();
}

void kernel_of_items(benchmark::State& state, bool cohorts) {
  const ExecutionPlan plan = one_kernel(state.range(0));
  const Machine machine = build_machine(load_hardware("h200"));
  SimulateOptions options;
  options.cohorts = cohorts;
  SimulationResult result;
  for ([[maybe_unused]] const auto iteration : state) result = simulate(plan, machine, options);
  count(state, result.items, result.cohorts, result.total);
  state.SetComplexityN(state.range(0));
}
BENCHMARK_CAPTURE(kernel_of_items, cohorts, true)
    ->Arg(4'800)
    ->Arg(48'000)
    ->Arg(480'000)
    ->Complexity(benchmark::oN)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(kernel_of_items, without_cohorts, false)
    ->Arg(4'800)
    ->Arg(48'000)
    ->Arg(480'000)
    ->Complexity(benchmark::oN)
    ->Unit(benchmark::kMillisecond);

// A listener costs only where there is one.
void listener(benchmark::State& state) {
  const ExecutionPlan plan = one_kernel(48'000);
  const Machine machine = build_machine(load_hardware("h200"));
  SimulateOptions options;
  testkit::Collector collector;
  if (state.range(0) != 0) options.listener = &collector;
  SimulationResult result;
  for ([[maybe_unused]] const auto iteration : state) {
    collector = {};
    result = simulate(plan, machine, options);
  }
  count(state, result.items, result.cohorts, result.total);
}
BENCHMARK(listener)->ArgName("listening")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim
