// Measurements: JSON Lines, schema moesim.measurement/2 (README of this folder).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
  std::optional<double> p90_us;
  std::optional<double> sm_mhz;
  bool power_capped = false;
  std::vector<LaunchedKernel> kernels;
};

// All rows of kind "moe" in file order; "micro" rows are checked for being JSON objects with a benchmark name, and
// skipped. Unknown keys pass (the schema keeps extra keys). Throws InputError with file and line.
std::vector<MoeMeasurement> read_measurements(const std::string& path);

}  // namespace moesim
