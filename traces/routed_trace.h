// Reads routed traces: .npy int16/int32/int64, [steps, layers, tokens, k], [repeats, tokens, k] or [tokens, k].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/routed_batch.h"

namespace moesim {

// All batches of the trace in order: one per repeat, or per (step, layer). Every id must be in [0, experts) and a row
// may not name an expert twice. Throws InputError with file, index of the bad id, found and expected.
std::vector<RoutedBatch> read_routed_trace(const std::string& path, std::int64_t experts);

// The bytes of a .npy file of int16 (int32 beyond 32,767 experts) [repeats, tokens, k]. All batches have one shape.
std::string routed_trace_bytes(const std::vector<RoutedBatch>& batches);

}  // namespace moesim
