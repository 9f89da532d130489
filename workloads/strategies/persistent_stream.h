// Weight streaming as a CUDA kernel with one CTA a unit does it (stream_gemv:persistent=1).
//
// Models: the CTAs share the weight rows of all active experts in blocks of 8; each keeps a ring of copies in flight from
// its first block to its last. The matrix pipe multiplies up to 16 picks of an expert in one pass over its rows, 8 at a
// time. Up: the blocks are dealt out to the CTAs one by one; not interleaved, each CTA has a run of them, expert after
// expert, so that CTAs with an expert of many picks work longer.
// Down: each CTA has all experts' blocks of its own output rows, so that the combine is local.
// A step is 4 KiB of a warp: 8 rows x 512 bytes. Equations, per step of a CTA of w warps:
//   chain       its compiled code (4 clocks an instruction, and a wait for the scheduler's other warps), the on-chip loads
//               and dependent products, once a round of up to 8 picks; of one warp: divided by w. A warp's place in the ring
//               is empty while it multiplies. A step that its row does not fill loads and multiplies piece by piece
//   pipes       the instructions that a unit's quarters issue, conversions, products, and what passes through on-chip
//               memory: the weights in and out, and inputs, which for different picks lie in the same banks
//   together    a batch of blocks, as many as the room for their partial sums allows, ends with a barrier, the sum over a
//               row's steps, and warps that wait for the last one: nothing else runs in that time. Rings fill meanwhile;
//               where warps wait for loads and not for their chains, what the sum takes longer than a load is lost
//   combine     of outputs that a CTA keeps, or (more than 16 KiB) from the cache, four of a thread at a time
// one_launch=1 (harness cuda-stream-block): both sides in one kernel. The ring runs on: a CTA that has ended up loads of
// down what its ring holds while it waits for all others (a round trip until its results have left, one to count it, one to
// see the count), then fetches down's inputs. Where the rings were full by then, loads begin anew. A CTA ends up with its
// last warp; in a launch of its own others take the bandwidth meanwhile, here down's loads do. CTA by CTA (H200), 335 MB of
// up ended after 57 to 61 us behind short ports and after 74 to 80 behind the others, and down went on at 81; simulated: 64
// to 69, 77 to 81, 81.
// Inputs: of all picks on chip where they fit, else fetched from the cache for every block of rows, which costs cache
// bandwidth and a round trip for as many as a warp's registers hold.
// Leaves out: inputs beyond the first four loads of a thread, which come behind the full rings (2.5 us on an H200); what the
// first-level cache keeps of the inputs; that few instructions of a step depend on each other while other warps issue.
// Compared: H200, bf16 and fp8_block128, 1 to 64 tokens, three routings (validation/README.md).
#pragma once

#include "workloads/strategies/strategy.h"

namespace moesim {

Lowered lower_persistent_stream(const LowerRequest& request);

}  // namespace moesim
