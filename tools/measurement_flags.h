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

struct MeasurementFlags {
  std::vector<std::string> measurements;
  std::optional<std::string> device, max_tokens, models, weights, strategies;

  void add(FlagSet& flags);
  [[nodiscard]] MeasuredRows load(const HardwareFlags& hardware) const;
};

// Of the file's bytes.
std::string file_hash(const std::string& path);

}  // namespace moesim
