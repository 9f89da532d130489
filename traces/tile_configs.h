// Tuned tile configurations as vLLM and SGLang ship them: a folder of files
// "E=128,N=768,device_name=NVIDIA_H200[,dtype=fp8_w8a8][,block_shape=[128,128]].json", each a map from tokens to a tile.
// Names as vLLM's get_config_file_name and SGLang's write them: experts and width of a shard, the device as its driver
// names it with underscores; vLLM has no space in a block's shape, SGLang has one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

// Of whose kernel a file is.
enum class TileStack { kVllm, kSglang };

struct TileFile {
  std::int64_t experts = 0, width = 0;  // of a shard
  WeightFormat weights;
  std::map<std::int64_t, Parameters> tiles;  // by tokens: block_m, block_n, block_k, group_m, num_warps, num_stages
};

// "E=128,N=768,device_name=NVIDIA_H200.json". Throws InputError: weights or a device for which these stacks have no name.
std::string tile_file_name(const TileFile& file, const HardwareModel& hardware, TileStack stack);
std::string tile_file_text(const TileFile& file);

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
