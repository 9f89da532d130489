// The parts that sweeps call most: the solver of the channels' rates, and the drawing of routed batches.
#include <benchmark/benchmark.h>

#include <vector>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "sim/engine/channel_solver.h"
#include "workloads/router.h"

namespace moesim {
namespace {

// N classes that stream from memory through the cache, with numbers of items that change from call to call.
void channel_solver(benchmark::State& state) {
  const Machine machine = build_machine(load_hardware("h200"));
  ChannelSolver solver(machine);
  const auto classes = static_cast<std::size_t>(state.range(0));
  std::vector<FlowClass> flows(classes);
  std::vector<ActiveFlow> active;
  for (std::size_t i = 0; i < classes; ++i) {
    const double miss = 1 - 0.1 * static_cast<double>(i % 8);
    FlowClass& flow = flows[i];
    const double cache = to_seconds(machine.channels[0].latency), memory = to_seconds(machine.channels[1].latency);
    flow.bytes = {4096 * (1 + 0.5 * miss), 4096 * miss, 0};
    flow.hop = {(1 - miss) * cache, miss * memory, 0};
    flow.queue = {cache, miss * memory, 0};
    flow.stages = 3;
    flow.floor = i % 3 == 0 ? 2e-7 : 0;
    active.push_back({&flow, 0});
  }
  std::vector<double> steps(classes);
  ChannelArray factors{}, t{};
  double items = 100;
  for ([[maybe_unused]] const auto iteration : state) {
    items = items > 400 ? 100 : items + 7;
    for (ActiveFlow& flow : active) flow.items = items;
    solver.solve(active, steps, factors, t);
    benchmark::DoNotOptimize(steps.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(channel_solver)->ArgName("classes")->Arg(1)->Arg(2)->Arg(4)->Arg(16);

void draw(benchmark::State& state, const char* routing) {
  const Routing parsed = parse_routing(routing);
  std::uint64_t sample = 0;
  for ([[maybe_unused]] const auto iteration : state) {
    RoutedBatch batch = draw_batch(parsed, 512, 10, state.range(0), 1, sample++);
    benchmark::DoNotOptimize(batch.ids.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * 10);
}
BENCHMARK_CAPTURE(draw, uniform, "uniform")->ArgName("tokens")->Arg(1)->Arg(64)->Arg(1024);
BENCHMARK_CAPTURE(draw, zipf, "zipf:0.8")->ArgName("tokens")->Arg(64);
BENCHMARK_CAPTURE(draw, lognormal, "lognormal:1")->ArgName("tokens")->Arg(64);
BENCHMARK_CAPTURE(draw, disjoint, "disjoint")->ArgName("tokens")->Arg(64);

}  // namespace
}  // namespace moesim
