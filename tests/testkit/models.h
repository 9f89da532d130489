// Small models.
#pragma once

#include "workloads/moe_model.h"

namespace moesim::testkit {

// 8 experts of 256 x 128, top 2: at one token less than one wave on any device.
MoeModel tiny_model();
// Experts of two matrices that work at a quarter of the hidden width.
MoeModel tiny_latent_model();
// A third of what the router picks from are zero experts.
MoeModel tiny_zero_model();

}  // namespace moesim::testkit
