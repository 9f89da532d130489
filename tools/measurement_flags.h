// Which measured rows: flags that validate and calibrate share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "tools/common_flags.h"
#include "traces/measurement.h"

namespace moesim {

struct MeasuredRows {
  std::vector<std::string> files;
  HardwareModel hardware;  // with all overrides
  std::vector<MoeMeasurement> rows;
  std::vector<std::string> filters;  // flags that left rows out, as given
  std::int64_t rows_in_file = 0;
  std::int64_t rows_of_other_devices = 0;
  std::int64_t rows_filtered = 0;

  [[nodiscard]] std::string file() const;  // what outputs call them
};

struct MicroRows {
  std::string file;
  HardwareModel hardware;  // with all overrides
  std::vector<MicroMeasurement> rows;
  std::int64_t rows_of_other_devices = 0;
};

struct MeasurementFlags {
  std::vector<std::string> measurements;
  std::optional<std::string> device, max_tokens, models, weights, strategies, min_cache_multiple;
  std::string kind = "moe";

  void add(FlagSet& flags);
  // Rows of microbenchmarks are asked for. Throws InputError for another word.
  [[nodiscard]] bool micro() const;
  // Flags that choose among rows of layers are errors.
  [[nodiscard]] MicroRows load_micro(const HardwareFlags& hardware) const;
  [[nodiscard]] MeasuredRows load(const HardwareFlags& hardware) const;
};

// Of the file's bytes.
std::string file_hash(const std::string& path);

}  // namespace moesim
