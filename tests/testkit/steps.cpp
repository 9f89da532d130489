#include "tests/testkit/steps.h"

#include <stdexcept>

#include "workloads/router.h"
#include "workloads/step/predict_step.h"

namespace moesim::testkit {

DecodeStep step_of(const MoeModel& model, const StepShape& shape) {
  const WeightFormat activations = default_activations(model.expert_weights);
  DecodeStep step{model, shape.options, shape.sequences, shape.tp, shape.ep, activations, {}, shape.mixed};
  std::int64_t tokens = shape.sequences;
  if (!shape.mixed.empty()) {
    step.sequences = tokens = 0;
    for (const StepSequences& alike : shape.mixed) {
      step.sequences += alike.count;
      tokens += alike.count * alike.tokens;
    }
  }
  std::uint64_t draw = 0;
  for (std::int64_t l = 0; l < step.layers(); ++l) {
    if (!model.decoder_layers[static_cast<std::size_t>(l)].moe) continue;
    const RoutedBatch batch = draw_batch({}, model.experts, model.topk, tokens, 1, draw++);
    step.moe_layers.push_back(shard_layer(model, batch, activations, shape.tp, shape.ep));
  }
  return step;
}

Prediction predicted(const DecodeStep& step, const HardwareModel& hardware, const std::string& strategy,
                     const PredictOptions& options) {
  PredictionOrInfeasible result = predict_step(step, hardware, parse_strategy(strategy), options);
  if (const auto* infeasible = std::get_if<Infeasible>(&result)) throw std::logic_error(infeasible->reason);
  return std::get<Prediction>(std::move(result));
}

std::string refusal(const DecodeStep& step, const HardwareModel& hardware) {
  const PredictionOrInfeasible result = predict_step(step, hardware, parse_strategy("grouped_gemm"));
  const auto* infeasible = std::get_if<Infeasible>(&result);
  if (infeasible == nullptr) throw std::logic_error("feasible");
  return infeasible->reason;
}

Duration part_of(const Prediction& prediction, StepPart part) {
  return prediction.parts[static_cast<std::size_t>(part)];
}

}  // namespace moesim::testkit
