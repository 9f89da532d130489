// Small models.
#pragma once

#include "workloads/moe_model.h"

namespace moesim::testkit {

// 8 experts of 256 x 128, top 2: at one token less than one wave on any device.
MoeModel tiny_model();

}  // namespace moesim::testkit
