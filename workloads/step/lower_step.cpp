#include "workloads/step/lower_step.h"

#include "workloads/step/attention.h"
#include "workloads/step/collectives.h"

namespace moesim {
namespace {

std::int64_t width_of(const std::vector<WeightMatrix>& matrices) {
  std::int64_t sum = 0;
  for (const WeightMatrix& matrix : matrices) sum += matrix.n * matrix.count;
  return sum;
}

std::vector<WeightMatrix> local_matrices(std::vector<WeightMatrix> matrices, std::int64_t tp) {
  for (WeightMatrix& matrix : matrices) matrix = local_matrix(matrix, tp);
  return matrices;
}

void add_mixer(StepChain& chain, const Mixer& mixer) {
  const std::int64_t hidden = chain.step().model.hidden;
  const std::vector<WeightMatrix> before = local_matrices(mixer.before, chain.step().tp);
  const std::vector<WeightMatrix> after = local_matrices(mixer.after, chain.step().tp);
  for (const WeightMatrix& matrix : before) {
    if (matrix.k != hidden && matrix.count == 1) chain.norm("norm", matrix.k, matrix.k);
    chain.product(StepPart::kAttention, matrix);
  }
  const std::int64_t width = width_of(before);
  if (mixer.cached_values > 0) chain.elementwise("rotate_and_store", width, width);
  add_context_attention(chain, mixer);
  if (mixer.state_values > 0) {
    chain.elementwise("convolve", width, width);
    add_state_update(chain, mixer);
    if (!after.empty()) chain.norm("gated_norm", 2 * after.front().k, after.front().k);
  }
  for (const WeightMatrix& matrix : after) {
    if (payload_bits(chain.activations_for(matrix.format)) < 16) {
      chain.elementwise("quantise", matrix.k * matrix.count, matrix.k * matrix.count / 2);
    }
    chain.product(StepPart::kAttention, matrix);
  }
}

void add_dense(StepChain& chain, const DecoderLayer& layer) {
  const MoeModel& model = chain.step().model;
  const std::vector<WeightMatrix> matrices = dense_matrices(model, layer, chain.step().tp);
  chain.product(StepPart::kDense, matrices[0]);
  chain.elementwise("activation", matrices[0].n, matrices[1].k);
  chain.product(StepPart::kDense, matrices[1]);
}

// Nothing, or why the strategy cannot.
std::optional<Infeasible> add_moe(StepChain& chain, const MoeLayer& layer, const HardwareModel& hardware,
                                  const StrategyChoice& choice, const PredictOptions& options, bool hash_routed) {
  add_dispatch(chain);
  StrategyChoice of_layer = choice;
  if (hash_routed) of_layer.parameters["router"] = 0;
  Lowered lowered = lower_layer(layer, hardware, of_layer, options);
  if (auto* reason = std::get_if<Infeasible>(&lowered)) return std::move(*reason);
  chain.append(std::get<ExecutionPlan>(std::move(lowered)));
  add_exchange_back(chain);
  return std::nullopt;
}

void add_head(StepChain& chain) {
  const MoeModel& model = chain.step().model;
  chain.norm("add_norm", 2 * model.hidden, model.hidden);
  const WeightMatrix head = head_matrix(model, chain.step().tp);
  const std::int64_t rows = chain.step().sampled();
  chain.product(StepPart::kHead, head, rows);
  add_logits_gather(chain);
  chain.elementwise("sample", model.vocabulary, 1, rows);
  chain.norm("sample", divide_up(model.vocabulary, kElementsPerCta), 1, rows);
}

}  // namespace

StepPlanOrInfeasible lower_step(const DecodeStep& step, const HardwareModel& hardware, const StrategyChoice& choice,
                                const PredictOptions& options) {
  if (std::optional<Infeasible> reason = link_shortage(step, hardware)) return std::move(*reason);
  StepChain chain(step, hardware, options);
  const std::int64_t hidden = step.model.hidden;
  chain.elementwise("embed", hidden, hidden);
  add_all_reduce(chain);
  std::size_t moe_layer = 0;
  for (std::int64_t l = 0; l < step.layers(); ++l) {
    const DecoderLayer& layer = step.model.decoder_layers[static_cast<std::size_t>(l)];
    chain.begin_layer(static_cast<std::int32_t>(l));
    if (layer.mixer) {
      chain.norm("add_norm", 2 * hidden, 2 * hidden);
      add_mixer(chain, step.model.mixers[*layer.mixer]);
      add_all_reduce(chain);
    }
    if (!layer.moe && layer.dense_intermediate == 0) continue;
    chain.norm("add_norm", 2 * hidden, 2 * hidden);
    if (layer.dense_intermediate > 0) add_dense(chain, layer);
    if (layer.moe) {
      std::optional<Infeasible> reason =
          add_moe(chain, step.moe_layers.at(moe_layer++), hardware, choice, options, layer.hash_routed);
      if (reason) return std::move(*reason);
    }
    add_all_reduce(chain);
  }
  chain.begin_layer(-1);
  add_head(chain);
  return chain.seal();
}

}  // namespace moesim
