// Routed traces in and out: .npy, .npz and JSON Lines of our own, and what engines write (routing_formats/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/routed_batch.h"
#include "workloads/routed_trace.h"

namespace moesim {

// What a file may leave out. `experts` must agree with what the file says; the others are asked only where it does not.
struct TraceHints {
  std::optional<std::int64_t> experts;
  std::optional<std::int64_t> topk;
  std::optional<std::int64_t> layers;  // of the model, those without experts included
  std::optional<std::int64_t> tokens;  // of a step made from counts [default: what the counts sum to]
};

// `file` is a path, or FORMAT=PATH where a file's content does not tell its format. Every id must be in [0, experts) and
// no row may name an expert twice. Leading warm-up steps of a recording are dropped, and a note says so. Throws
// InputError with file, place (line, JSON pointer, index), found and expected.
RoutedTrace load_routed_trace(const std::string& file, const TraceHints& hints);

// All batches of the trace in order: one per repeat, or per (step, layer).
std::vector<RoutedBatch> read_routed_trace(const std::string& file, std::int64_t experts);

// The bytes of a .npy file of int16 (int32 beyond 32,767 experts) [repeats, tokens, k]. All batches have one shape.
std::string routed_trace_bytes(const std::vector<RoutedBatch>& batches);

// One file of a trace that is written.
struct TraceFile {
  std::string path, bytes;
};

// `path` ends in .npy, .npz (each with a sidecar, path + ".json") or .jsonl. The array is [steps, layers, tokens, k];
// where the tokens differ from step to step, [1, layers, all steps' tokens, k], and the sidecar says where a step ends.
// Throws InputError for another ending.
std::vector<TraceFile> routed_trace_files(const RoutedTrace& trace, const std::string& path);

}  // namespace moesim
