// Tuned tile configurations as vLLM and SGLang ship them: a folder of files
// "E=128,N=768,device_name=NVIDIA_H200[,dtype=fp8_w8a8][,block_shape=[128,128]].json", each a map from tokens to a tile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"

namespace moesim {

class TileConfigs {
 public:
  TileConfigs() = default;
  // All files below the folder that are named so and are of this device. Throws InputError.
  TileConfigs(const std::string& folder, const HardwareModel& hardware);

  // Sets the row's tile parameters where a file is for its shard and format: those of the nearest number of tokens.
  void apply(MoeMeasurement& row) const;
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  using Tile = std::map<std::string, std::string>;                  // by parameter name
  using Key = std::tuple<std::int64_t, std::int64_t, std::string>;  // experts, width, weights
  std::map<Key, std::map<std::int64_t, Tile>> files_;
};

}  // namespace moesim
