// Models built by hand, with all their layers.
#pragma once

#include "workloads/moe_model.h"

namespace moesim::testkit {

// The tiny model as a whole: 4 layers, of which the first has a dense FFN; full and linear attention in turn.
MoeModel tiny_step_model();

// With the sizes of their published configs and the matrices that engines fuse.
MoeModel mixtral_model();      // grouped-query attention, bf16
MoeModel deepseek_v3_model();  // latent attention with absorbed projections, three dense layers, fp8 in blocks
MoeModel qwen35_model();       // 397B: three layers of gated delta net to one of grouped-query attention, fp8 in blocks

}  // namespace moesim::testkit
