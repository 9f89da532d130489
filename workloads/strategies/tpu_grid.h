// What kernels of a sequential grid are made of: products on matrix arrays that hold the weights, rings of copies into
// on-chip memory, and the operations of a compiled program around them.
//
// Models: one core works through a grid step by step, while copies for the next steps are under way. Equations, of a step
// that loads b bytes from memory (L: their latency at the memory's present use) for a product of m rows with [k, n]:
//   ring of N     a copy is issued when the step N - 1 before its own begins: step >= L / (N - 1); a ring of one: L + step
//   product       ceil(tiles / arrays) tiles of [size, size] weights on each array, each
//                 max(m padded to the register tile / rows a clock, size / weight rows a clock): the next tile's weights
//                 come in while the present rows pass
//   in order      sequence.step + the first tile's weights + mxu.fill + results stored / vector.store; the core's own time,
//                 which no product overlaps
//   step          max(L / (N - 1), in order + max(product, conversions on the vector unit))
// A kernel begins with sequence.call, and its first step finds nothing to overlap its load with.
// Leaves out: on-chip bandwidth, spills, the slack that a ring gives unlike steps (one with little work lets copies run
// ahead for a later one; each is charged the larger of load and work on its own), banks, the scalar unit.
// Sources: scaling-book (arrays, tiles), jax docs on pipelining (a copy as latency + bytes / rate).
// Compared: two Pallas grids on v5e (tests/formula/tpu_grid_test.cpp), published gmm_v2 times (validation/published).
#pragma once

#include <cstdint>
#include <string>

#include "workloads/strategies/blocks.h"
#include "workloads/strategies/tiles.h"

namespace moesim {

// The work of one product on the core's arrays.
struct ArrayWork {
  double seconds = 0;           // the arrays are busy
  double useful_share = 1;      // rows asked for / rows issued, where rows bind
  double stationary_share = 0;  // of the time, waiting for weights
  double in_order = 0;          // seconds before and after: first weights, fill, results stored
};
// Operands as the arrays take them: 8-bit where these have such products and `activations` are of that type, else 16 bits.
Dtype array_operands(const Device& device, WeightFormat activations);
ArrayWork array_work(const Device& device, Dtype operands, std::int64_t rows, std::int64_t issued, std::int64_t n,
                     std::int64_t k);
// Rows that a product issues at least.
std::int64_t row_quantum(const Device& device, Dtype operands);
// Seconds on the vector unit to bring `weights` values of a format to the arrays' operands; 0 where they are that.
double conversion_seconds(const Device& device, WeightFormat format, Dtype operands, double weights);

// Steps of an item whose copies are under way together in a ring of `ring` steps, of `all` steps in the kernel.
void set_ring(ItemClass& item, std::int64_t ring, std::int64_t all);
// The first step's work or load, whichever is shorter, which nothing overlaps.
Duration first_step(const Device& device, const ItemClass& item);
// A kernel of one core: its items follow each other, the next ones' copies under way.
Kernel sequential_kernel(std::string name, std::string stage);
// What a kernel costs before its first copy goes on the first item that starts, whatever its class.
void set_call(Kernel& kernel, Duration call);

// An operation that reads and writes whole arrays in memory and keeps the core for `clocks`.
void add_operation(Chain& chain, const Device& device, std::string name, std::string stage, double read, double write,
                   double clocks);
// A dense product of all tokens, weights streamed in tiles.
void add_dense_operation(Chain& chain, const LowerRequest& request, std::string name, std::string stage, std::int64_t n,
                         std::int64_t k, WeightFormat weights, bool helper);
// Router product, top-k, and the sort of picks by expert with what follows from it.
void add_sequential_routing(Chain& chain, const LowerRequest& request);
// Projections to and from a latent width, shared experts, and the sum over the devices that share the layer: one device's
// part, then all_reduce as latency + bytes over the link (a stated constant of the device file, no topology).
void add_sequential_to_latent(Chain& chain, const LowerRequest& request);
void add_sequential_rest(Chain& chain, const LowerRequest& request);

}  // namespace moesim
