// How long the simulation of a whole decode step takes: all layers, each with a routing of its own.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "hwmodels/loader.h"
#include "workloads/model_config.h"
#include "workloads/router.h"
#include "workloads/step/predict_step.h"

namespace moesim {
namespace {

constexpr std::int64_t kDevices = 8;

void predict_whole_step(benchmark::State& state, const std::string& name, const std::string& strategy,
                        std::int64_t sequences) {
  const MoeModel model = load_model(name);
  const HardwareModel hardware = load_hardware("h200");
  const WeightFormat activations = default_activations(model.expert_weights);
  DecodeStep step{model, {}, sequences, kDevices, 1, activations, {}};
  for (std::int64_t l = 0; l < model.moe_layers; ++l) {
    const RoutedBatch batch = draw_batch({}, model.experts, model.topk, sequences, 1, static_cast<std::uint64_t>(l));
    step.moe_layers.push_back(shard_layer(model, batch, activations, kDevices, 1));
  }
  const StrategyChoice choice = parse_strategy(strategy);
  Prediction last;
  for ([[maybe_unused]] const auto iteration : state) {
    last = std::get<Prediction>(predict_step(step, hardware, choice));
  }
  state.counters["kernels"] = static_cast<double>(last.kernels.size());
  state.counters["simulated_us"] = to_microseconds(last.time);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const char* model : {"mixtral-8x7b", "deepseek-v3", "qwen3.5-397b-a17b-fp8"}) {
    for (const char* strategy : {"grouped_gemm", "stream_gemv"}) {
      for (const std::int64_t sequences : {1, 64}) {
        benchmark::RegisterBenchmark(fmt::format("predict_step/{}/{}/{}", model, strategy, sequences).c_str(),
                                     predict_whole_step, std::string(model), std::string(strategy), sequences)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace moesim
