// The stages of a layer's kernels by their order: what a name alone leaves open.
#pragma once

#include <cstddef>
#include <vector>

#include "traces/kernel_classes.h"

namespace moesim {

// A kernel of one stream as the names and the host's ranges say; its stage is filled in.
struct OrderedKernel {
  KernelClass kernel_class = KernelClass::kUnknown;
  StageSet stages;      // known from the name or given; empty: to be found
  bool in_moe = false;  // launched by a MoE operator or within "stage:NAME"
  bool given = false;   // `stages` by "stage:NAME"
};

// Layers of a stream: indices into `kernels`, ascending; the stages of their kernels are filled in where the order tells.
std::vector<std::vector<std::size_t>> split_layers(std::vector<OrderedKernel>& kernels);

}  // namespace moesim
