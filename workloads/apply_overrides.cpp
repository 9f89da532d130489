#include "workloads/apply_overrides.h"

#include <algorithm>

namespace moesim {
namespace {

void set_matrices(Mixer& mixer, WeightFormat format) {
  for (WeightMatrix& matrix : mixer.before) matrix.format = format;
  for (WeightMatrix& matrix : mixer.after) matrix.format = format;
}

}  // namespace

void apply_overrides(const ModelOverrides& stated, MoeModel& model) {
  const auto set_whole = [&](const char* name, std::int64_t& value) { value = stated.whole(name).value_or(value); };
  const auto set_flag = [&](const char* name, bool& value) { value = stated.flag(name).value_or(value); };
  const auto set_format = [&](const char* name, WeightFormat& value) {
    if (const auto text = stated.text(name)) value = parse_format(*text, "--model-override");
  };
  set_whole("shared_experts", model.shared_experts);
  set_whole("shared_intermediate", model.shared_intermediate);
  if (stated.whole("shared_experts") && !stated.whole("shared_intermediate")) {
    model.shared_intermediate = model.shared_experts * model.expert_intermediate;
  }
  if (stated.whole("shared_intermediate") && !stated.whole("shared_experts")) {
    model.shared_experts = model.shared_intermediate == 0 ? 0 : std::max<std::int64_t>(1, model.shared_experts);
  }
  if (model.shared_intermediate == 0) model.shared_experts = 0;
  set_whole("latent", model.latent);
  set_whole("groups", model.groups);
  set_whole("topk_groups", model.topk_groups);
  set_whole("vocabulary", model.vocabulary);
  if (stated.flag("gated")) model.dense_gated = *stated.flag("gated");
  set_flag("gated", model.gated);
  set_flag("shared_gate", model.shared_gate);
  set_flag("norm_topk", model.norm_topk);
  set_flag("tied_embeddings", model.tied_embeddings);
  model.routed_scale = stated.number("routed_scale").value_or(model.routed_scale);
  if (const auto name = stated.text("scoring")) model.scoring = scoring_of(*name);
  set_format("weights", model.expert_weights);
  set_format("shared_weights", model.other_weights);
  set_format("dense_weights", model.dense_weights);
  set_format("head_weights", model.head_weights);
  if (const auto text = stated.text("attention_weights")) {
    for (Mixer& mixer : model.mixers) set_matrices(mixer, parse_format(*text, "--model-override"));
  }
}

Scoring scoring_of(const std::string& name) {
  return name == "sigmoid" ? Scoring::kSigmoid : name == "softmax" ? Scoring::kSoftmax : Scoring::kSqrtSoftplus;
}

}  // namespace moesim
