#include "workloads/step/predict_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwmodels/build_machine.h"
#include "sim/io/input_error.h"
#include "workloads/step/lower_step.h"
#include "workloads/step/step_memory.h"

namespace moesim {
namespace {

double parameters_of(const std::vector<WeightMatrix>& matrices, std::int64_t tp) {
  double sum = 0;
  for (const WeightMatrix& matrix : matrices) sum += static_cast<double>(local_matrix(matrix, tp).parameters());
  return sum;
}

// Multiply-adds of one token outside the routed experts, the attention over its context and the head: one a parameter.
double dense_work(const DecodeStep& step) {
  const MoeModel& model = step.model;
  double sum = 0;
  for (std::int64_t l = 0; l < step.layers(); ++l) {
    const DecoderLayer& layer = model.decoder_layers[static_cast<std::size_t>(l)];
    if (layer.mixer) {
      const Mixer& mixer = model.mixers[*layer.mixer];
      sum += parameters_of(mixer.before, step.tp) + parameters_of(mixer.after, step.tp);
    }
    if (layer.dense_intermediate > 0) {
      for (const WeightMatrix& matrix : dense_matrices(model, layer, step.tp)) {
        sum += static_cast<double>(matrix.parameters());
      }
    }
  }
  return sum;
}

double expert_work(const MoeLayer& layer) {
  return static_cast<double>(layer.picks) * static_cast<double>(layer.up_width() + layer.intermediate) *
         static_cast<double>(layer.expert_hidden());
}

PredictionOrInfeasible predict_one(const DecodeStep& step, const HardwareModel& hardware, const StrategyChoice& choice,
                                   PredictOptions options) {
  options.scope = Scope::kMoeLayer;
  options.stage.clear();
  StepPlanOrInfeasible lowered = lower_step(step, hardware, choice, options);
  if (auto* reason = std::get_if<Infeasible>(&lowered)) return std::move(*reason);
  const auto& plan = std::get<StepPlan>(lowered);
  Prediction prediction = simulate_plan(plan.plan, hardware, options);
  prediction.strategy = choice.text;
  const Implementation* implementation = implementation_of(choice, options.calibration, step.model.expert_weights);
  if (implementation != nullptr) prediction.implementation = implementation->name;
  prediction.bound = step_bound(step, hardware, options, &prediction.matrix_bound);
  for (const MoeLayer& layer : step.moe_layers) prediction.active_experts += layer.active;
  for (std::size_t k = 0; k < plan.parts.size(); ++k) {
    prediction.parts[static_cast<std::size_t>(plan.parts[k])] += sum(prediction.kernels[k].result.attribution);
  }
  return prediction;
}

}  // namespace

PredictionOrInfeasible predict_step(const DecodeStep& step, const HardwareModel& hardware, const StrategyChoice& choice,
                                    const PredictOptions& options) {
  if (hardware.grid == Grid::kSequential) {
    return Infeasible{fmt::format("a whole step is not simulated on a sequential grid, as {} has: its MoE layers are",
                                  hardware.name)};
  }
  if (std::optional<Infeasible> reason = memory_shortage(step, hardware)) return std::move(*reason);
  const auto one = [&](const StrategyChoice& of, const PredictOptions& with) {
    return predict_one(step, hardware, of, with);
  };
  return choice.strategy == nullptr ? best_strategy(hardware, one, options) : one(choice, options);
}

Duration step_bound(const DecodeStep& step, const HardwareModel& hardware, const PredictOptions& options,
                    bool* matrix_bound) {
  const Duration stream = duration_from_seconds(bytes_read(step).as_double() / highest_read_rate(hardware));
  const auto head = static_cast<double>(head_matrix(step.model, step.tp).parameters());
  double multiply_adds =
      dense_work(step) * static_cast<double>(step.tokens()) + head * static_cast<double>(step.sampled());
  for (const MoeLayer& layer : step.moe_layers) multiply_adds += expert_work(layer);
  const Duration work = duration_from_seconds(2 * multiply_adds / highest_matrix_rate(hardware, options));
  *matrix_bound = work > stream;
  return std::max(work, stream);
}

void check_step_model(const MoeModel& model) {
  const char* missing = model.decoder_layers.empty() ? "decoder layers"
                        : model.mixers.empty()       ? "attention"
                        : model.vocabulary == 0      ? "vocabulary"
                                                     : nullptr;
  if (missing == nullptr) return;
  throw InputError({model.file, "", fmt::format("a model without {}", missing),
                    "layers with attention, and a vocabulary: what --scope step simulates", ""});
}

}  // namespace moesim
