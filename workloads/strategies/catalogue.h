// The strategies, one definition in each file of this folder. (A registry filled by static constructors would come out
// empty in a static library.)
#pragma once

#include "workloads/strategies/strategy.h"

namespace moesim {

extern const Strategy kExpertLoop;
extern const Strategy kGroupedGemm;
extern const Strategy kGroupedGemmPersistent;
extern const Strategy kGatherGemv;
extern const Strategy kStreamGemv;
extern const Strategy kFusedStreamGemv;
extern const Strategy kTpuGmm;
extern const Strategy kTpuStream;

}  // namespace moesim
