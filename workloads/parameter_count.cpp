#include "workloads/parameter_count.h"

namespace moesim {
namespace {

constexpr std::int64_t kGatedMatrices = 3, kPlainMatrices = 2;

std::int64_t ffn_parameters(std::int64_t hidden, std::int64_t width, bool gated) {
  return (gated ? kGatedMatrices : kPlainMatrices) * hidden * width;
}

std::int64_t expert_parameters(const MoeModel& model) {
  const std::int64_t hidden = model.latent > 0 ? model.latent : model.hidden;
  const std::int64_t biases = model.expert_bias ? (model.gated ? 2 : 1) * model.expert_intermediate + hidden : 0;
  return ffn_parameters(hidden, model.expert_intermediate, model.gated) + biases;
}

void add_mixer(const Mixer& mixer, ParameterCount& count) {
  for (const WeightMatrix& matrix : mixer.before) count.mixers += matrix.parameters();
  for (const WeightMatrix& matrix : mixer.after) count.mixers += matrix.parameters();
  count.small += mixer.small_parameters;
}

void add_moe(const MoeModel& model, const DecoderLayer& layer, ParameterCount& count) {
  if (!layer.hash_routed) count.routers += (model.experts + model.zero_experts) * model.hidden;
  count.routed_experts += model.experts * expert_parameters(model);
  count.shared_experts += ffn_parameters(model.hidden, model.shared_intermediate, model.gated);
  if (model.shared_gate) count.shared_experts += model.hidden;
  count.latent += 2 * model.hidden * model.latent;
}

}  // namespace

ParameterCount total_parameters(const MoeModel& model) {
  ParameterCount count;
  count.embeddings = model.vocabulary * model.hidden;
  count.head = model.tied_embeddings ? 0 : count.embeddings;
  count.small = model.small_parameters;
  for (const DecoderLayer& layer : model.decoder_layers) {
    count.small += layer.small_parameters;
    count.dense += ffn_parameters(model.hidden, layer.dense_intermediate, model.dense_gated);
    if (layer.mixer) add_mixer(model.mixers[*layer.mixer], count);
    if (layer.moe) add_moe(model, layer, count);
  }
  return count;
}

ParameterCount active_parameters(const MoeModel& model) {
  ParameterCount count = total_parameters(model);
  const std::int64_t picks = model.topk * model.moe_layers * model.experts;
  count.routed_experts = picks / (model.experts + model.zero_experts) * expert_parameters(model);
  return count;
}

}  // namespace moesim
