#include "tests/testkit/models.h"

namespace moesim::testkit {

MoeModel tiny_model() {
  MoeModel model;
  model.name = "tiny";
  model.hidden = 256;
  model.expert_intermediate = 128;
  model.experts = 8;
  model.topk = 2;
  model.layers = model.moe_layers = 1;
  return model;
}

MoeModel tiny_latent_model() {
  MoeModel model = tiny_model();
  model.name = "tiny-latent";
  model.latent = 64;
  model.gated = false;
  model.shared_experts = 1;
  model.shared_intermediate = 128;
  return model;
}

MoeModel tiny_zero_model() {
  MoeModel model = tiny_model();
  model.name = "tiny-zero";
  model.zero_experts = 4;
  return model;
}

}  // namespace moesim::testkit
