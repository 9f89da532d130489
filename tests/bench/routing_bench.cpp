// Routed traces: the time of a million tokens through 60 layers of 512 experts, top-10, on one core ("slow"), and of parts
// of it. Items are rows: a token in a layer.
#include <benchmark/benchmark.h>

#include "workloads/routing/expert_loads.h"
#include "workloads/routing/match.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

constexpr TraceShape kShape{60, 64, {512, 10}};

void generate(benchmark::State& state, const char* law, const RoutingOptions& options, std::int64_t tokens) {
  const std::int64_t steps = tokens / kShape.tokens;
  for ([[maybe_unused]] const auto iteration : state) {
    RoutingGenerator generator(parse_routing(law), options, kShape, 1);
    for (std::int64_t i = 0; i < steps * kShape.layers; ++i) benchmark::DoNotOptimize(generator.next().ids.data());
  }
  state.SetItemsProcessed(state.iterations() * steps * kShape.tokens * kShape.layers);
}

RoutingOptions sticky() {
  RoutingOptions options;
  options.sticky = 0.4;
  return options;
}

RoutingOptions drifting() {
  RoutingOptions options;
  options.drift = 0.3;
  options.domains = 4;
  return options;
}

RoutingOptions grouped() {
  RoutingOptions options;
  options.groups = 8;
  options.topk_groups = 4;
  options.scoring = Scoring::kSigmoid;
  return options;
}

constexpr std::int64_t kMillion = 1'000'000;
BENCHMARK_CAPTURE(generate, uniform_slow, "uniform", RoutingOptions{}, kMillion)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(generate, zipf_slow, "zipf:0.63", RoutingOptions{}, kMillion)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(generate, zipf_steep_slow, "zipf:1.5", RoutingOptions{}, kMillion)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(generate, lognormal_slow, "lognormal:1.02", RoutingOptions{}, kMillion)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(generate, sticky_slow, "zipf:0.63", sticky(), kMillion)->Unit(benchmark::kSecond)->Iterations(1);
BENCHMARK_CAPTURE(generate, drift_and_domains_slow, "zipf:0.63", drifting(), kMillion)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(generate, groups_slow, "zipf:0.63", grouped(), kMillion)->Unit(benchmark::kSecond)->Iterations(1);
BENCHMARK_CAPTURE(generate, zipf, "zipf:0.63", RoutingOptions{}, 4096)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(generate, groups, "zipf:0.63", grouped(), 128)->Unit(benchmark::kMillisecond);

void measure_loads(benchmark::State& state) {
  const RoutedBatch batch = draw_batch(parse_routing("zipf:0.63"), 512, 10, state.range(0), 1, 0);
  LoadMeter meter(512);
  for ([[maybe_unused]] const auto iteration : state) benchmark::DoNotOptimize(meter.measure(batch));
  state.SetItemsProcessed(state.iterations() * batch.tokens);
}
BENCHMARK(measure_loads)->ArgName("tokens")->Arg(1)->Arg(64)->Arg(1024);

void match_slow(benchmark::State& state) {
  const MatchTarget target = parse_match("duplicates=5%@3");
  const MatchScope scope{.router = {512, 10}, .layers = 60, .seeds = 1, .seed = 1};
  for ([[maybe_unused]] const auto iteration : state) {
    benchmark::DoNotOptimize(match_duplicates(RoutingKind::kZipf, {}, target, scope));
  }
}
BENCHMARK(match_slow)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace moesim
