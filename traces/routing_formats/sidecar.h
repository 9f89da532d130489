// What an array cannot say of itself: a JSON object beside it, or the first line of our JSON Lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "workloads/routed_trace.h"

namespace moesim {

inline constexpr const char* kRoutingSchema = "moesim.routing/1";

struct Sidecar {
  std::string model, source;
  std::int64_t experts = 0, topk = 0;     // 0: not stated
  std::vector<std::int64_t> layers;       // ids; empty: 0, 1, ...
  std::vector<std::int64_t> steps;        // ids; empty: 0, 1, ...
  std::vector<std::int64_t> step_tokens;  // where steps have various tokens: how an array's tokens divide into steps
  bool counts = false;                    // the array holds rows per expert, [steps, layers, experts], not ids
  bool from_counts = false;
  WarmUp warm_up;                   // dropped before
  std::vector<std::int64_t> shape;  // of the array; empty: not stated
};

// "a.json" of "a.npy" and "a.npz", "b.txt.json" of "b.txt".
std::string trace_sidecar_path(const std::string& path);
// Nothing where there is no such file, or one of another schema. Throws InputError.
std::optional<Sidecar> read_sidecar(const std::string& path);
// An object that states a version of our schema.
bool is_routing_schema(const JsonView& value);
Sidecar parse_sidecar(const JsonView& object);
// In one line.
std::string sidecar_text(const Sidecar& sidecar);
// The first bytes of a file: enough to tell binary formats. Throws InputError.
std::string read_head(const std::string& path);

}  // namespace moesim
