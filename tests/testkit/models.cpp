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

}  // namespace moesim::testkit
