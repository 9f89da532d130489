// Measurements: JSON Lines, schema moesim.measurement/2 (README of this folder).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workloads/moe_model.h"

namespace moesim {

struct LaunchedKernel {
  std::string name;
  std::int64_t grid = 0;   // product of the dimensions
  std::int64_t block = 0;  // threads
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t cluster = 1;
  std::int64_t count = 1;
};

struct MoeMeasurement {
  std::string file;       // as given
  std::int64_t line = 0;  // 1-based, in its file
  std::string device;
  std::string model_name;
  std::int64_t hidden = 0, intermediate = 0, experts = 0, topk = 0;  // the whole model's
  bool gated = true;
  std::int64_t tp = 1, ep = 1;
  std::string weights, activations;  // "bf16", "fp8_block128", ...
  std::int64_t tokens = 0;
  std::string routing;
  std::string routed_trace;  // path as resolved against the measurement file's folder
  double mean_active_experts = 0;
  std::string strategy;
  std::string implementation;                     // its name
  std::map<std::string, std::string> parameters;  // the rest of "implementation", flattened: "up.block_n" -> "2"
  std::string launch;                             // "graph" | "stream" | "programmatic"
  std::string scope;                              // "expert_ffn" | "moe_layer"
  std::string stage;                              // "total", "gemm1", ...
  double us = 0;
  bool warm = false;  // "timing"."weights": "warm": they may have come from a cache
  std::string source;
  std::optional<double> p90_us;
  std::optional<double> sm_mhz;
  bool power_capped = false;
  std::vector<LaunchedKernel> kernels;
};

// A microbenchmark's point: its parameters are whatever the benchmark has.
struct MicroMeasurement {
  std::string place;  // "FILE:LINE"
  std::string device;
  std::string benchmark;  // "graph_node", "cold_read_size", ...
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  double us = 0;
  std::optional<double> sm_mhz;
  bool power_capped = false;
  std::vector<LaunchedKernel> kernels;

  [[nodiscard]] bool has(const std::string& name) const { return numbers.contains(name); }
  // A parameter: a whole number of 1 to `most`, or a text. Throws InputError when the row has none.
  [[nodiscard]] std::int64_t whole(const std::string& name, std::int64_t most) const;
  [[nodiscard]] const std::string& text(const std::string& name) const;
};

// All rows of kind "moe" in file order; "micro" rows are checked for being JSON objects with a benchmark name, and
// skipped. Unknown keys pass (the schema keeps extra keys). Throws InputError with file and line.
std::vector<MoeMeasurement> read_measurements(const std::string& path);
// One line, without its newline; `routed_trace` as it stands.
std::string measurement_text(const MoeMeasurement& row);

// The model that a row is of.
MoeModel model_of(const MoeMeasurement& row);
// Of its active experts, on the shard that ran.
double active_weight_bytes(const MoeMeasurement& row);

// The same for the rows of kind "micro"; those of benchmark "device" describe the card and are skipped.
std::vector<MicroMeasurement> read_micro_measurements(const std::string& path);

}  // namespace moesim
