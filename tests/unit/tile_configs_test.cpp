// Tile files as vLLM and SGLang name and read them: what is written is read again.
#include "traces/tile_configs.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"
#include "tests/testkit/run_command.h"
#include "workloads/strategies/tile_space.h"

namespace moesim {
namespace {

TileFile file_of(const std::string& weights) {
  return {.experts = 128, .width = 384, .weights = parse_format(weights, "weights"), .tiles = {}};
}

TEST(TileConfigs, NamesAreThoseOfTheStacks) {
  const HardwareModel h200 = load_hardware("h200");
  const auto vllm = [&](const char* weights) { return tile_file_name(file_of(weights), h200, TileStack::kVllm); };
  const auto sglang = [&](const char* weights) { return tile_file_name(file_of(weights), h200, TileStack::kSglang); };
  EXPECT_EQ(vllm("bf16"), "E=128,N=384,device_name=NVIDIA_H200.json");
  EXPECT_EQ(sglang("bf16"), vllm("bf16"));
  EXPECT_EQ(vllm("fp8"), "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8.json");
  EXPECT_EQ(vllm("fp8_block128"), "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json");
  EXPECT_EQ(sglang("fp8_block128"), "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json");
  EXPECT_EQ(tile_file_name(file_of("bf16"), load_hardware("h100-sxm"), TileStack::kVllm),
            "E=128,N=384,device_name=NVIDIA_H100_80GB_HBM3.json");
  EXPECT_THROW(vllm("mxfp4"), InputError);
  EXPECT_THROW(tile_file_name(file_of("bf16"), load_hardware("tpu7x"), TileStack::kVllm), InputError);
}

TEST(TileConfigs, WhatIsWrittenIsReadAgain) {
  const HardwareModel hardware = load_hardware("h200");
  const Strategy& grouped = *parse_strategy("grouped_gemm").strategy;
  for (const char* weights : {"bf16", "fp8", "fp8_block128"}) {
    for (const TileStack stack : {TileStack::kVllm, TileStack::kSglang}) {
      TileFile file = file_of(weights);
      const std::vector<ParameterRange> space = tile_space(grouped, file.weights);
      std::size_t number = 7;
      for (const std::int64_t tokens : {1, 2, 24, 4096}) {
        file.tiles[tokens] = configuration(space, number);
        number = (number * 31 + 5) % size_of(space);
      }
      const std::string folder = temp_folder();
      std::ofstream(folder + tile_file_name(file, hardware, stack)) << tile_file_text(file);
      const TileConfigs read(folder, hardware);
      EXPECT_EQ(read.size(), 1U);
      for (const auto& [tokens, tile] : file.tiles) {
        MoeMeasurement row;
        row.experts = 128;
        row.intermediate = 768;
        row.tp = 2;
        row.weights = weights;
        row.tokens = tokens;
        read.apply(row);
        Parameters again;
        for (const auto& [name, value] : row.parameters) again[name] = std::stoll(value);
        EXPECT_EQ(again, tile) << weights << " " << tokens;
      }
    }
  }
}

}  // namespace
}  // namespace moesim
