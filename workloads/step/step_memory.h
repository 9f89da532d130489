// Bytes that one device holds and reads for a decode step, in closed form.
//
// Held: all matrices of the simulated layers (16-bit router and small parameters included), embeddings and LM head, each
// sequence's cache and state. Leaves out: activations, workspaces, fragmentation, the CUDA context.
#pragma once

#include <optional>
#include <string>

#include "hwmodels/hardware_model.h"
#include "workloads/step/decode_step.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

struct StepMemory {
  // Matrices that every step reads, but for idle experts; `shared` with the projections to a latent width and back.
  Bytes attention, dense, routers, experts, shared, head;
  Bytes rest;  // embeddings, biases, small parameters
  Bytes cache, state;

  [[nodiscard]] Bytes weights() const { return attention + dense + routers + experts + shared + head + rest; }
  [[nodiscard]] Bytes all() const { return weights() + cache + state; }
};

StepMemory memory_of(const DecodeStep& step);
// Of these the bytes that a step reads at least: active experts alone, of the cache what queries attend to.
Bytes bytes_read(const DecodeStep& step);

// Why the step does not fit the device, with the numbers and how many devices it needs; nullopt: it fits.
std::optional<Infeasible> memory_shortage(const DecodeStep& step, const HardwareModel& hardware);

}  // namespace moesim
