// Collectives of a sharded step: latency + bytes / rate, both of the device file's link.
//
//   all-reduce of B bytes over n devices    reduce_latency + 2 (n - 1) / n x B / (bandwidth x reduce_fraction)
//   all-gather of B bytes in all            reduce_latency + (n - 1) / n x B / (bandwidth x reduce_fraction)
//   dispatch, combine of B bytes a device   exchange_latency + (n - 1) / n x B / (bandwidth x exchange_fraction)
// Leaves out: topology (all devices are as near as those of one node), unequal loads, traffic of the units' caches and
// memory, overlap with other kernels.
#pragma once

#include "workloads/step/step_chain.h"

namespace moesim {

// Why the step's shards cannot work together: the device file lacks what their collectives need. nullopt: it has it.
std::optional<Infeasible> link_shortage(const DecodeStep& step, const HardwareModel& hardware);

// Each adds itself where the step has more than one device of its kind.
void add_all_reduce(StepChain& chain);     // of the tokens' hidden states, over tp
void add_logits_gather(StepChain& chain);  // over tp
void add_dispatch(StepChain& chain);       // over ep: a token's state to each of its experts
void add_exchange_back(StepChain& chain);  // over ep: each expert's result, 16 bits

}  // namespace moesim
