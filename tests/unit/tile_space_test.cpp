// The spaces that are searched, and what is known of their kernels before they are compiled.
#include "workloads/strategies/tile_space.h"

#include <gmock/gmock.h>

#include <set>

#include "hwmodels/loader.h"
#include "workloads/model_config.h"
#include "workloads/router.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

const Strategy& grouped() { return *parse_strategy("grouped_gemm").strategy; }

TEST(TileSpace, GroupedGemmHasTheSpaceOfTheStacks) {
  const std::vector<ParameterRange> space = tile_space(grouped(), {Dtype::kBf16, 0});
  EXPECT_EQ(size_of(space), 1920U);
  EXPECT_EQ(size_of(tile_space(grouped(), {Dtype::kFp8Block128, 0})), 1280U);
}

TEST(TileSpace, EveryConfigurationOnceAndWithinTheLimitsOfItsParameters) {
  for (const Strategy& strategy : strategy_catalogue()) {
    for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp8Block128, Dtype::kMxfp4}) {
      const std::vector<ParameterRange> space = tile_space(strategy, {dtype, 0});
      if (space.empty()) continue;
      std::set<Parameters> seen;
      for (std::size_t i = 0; i < size_of(space); ++i) {
        EXPECT_TRUE(seen.insert(configuration(space, i)).second);
        EXPECT_NO_THROW(check_parameters(strategy, configuration(space, i)));
      }
    }
  }
}

// Registers and shared bytes of Triton 3.6's kernels for sm_90a, as ptxas reports them.
struct Compiled {
  const char* weights;
  std::int64_t m, n, k, warps, stages, registers, shared;
};

TEST(TileSpace, LaunchesAsCompiled) {
  const HardwareModel hardware = load_hardware("h200");
  const Device device(hardware, hardware[Hw::kClockBoost]);
  for (const Compiled& c :
       {Compiled{"bf16", 16, 32, 64, 4, 4, 38, 18432}, Compiled{"bf16", 16, 64, 128, 4, 4, 64, 61440},
        Compiled{"bf16", 32, 128, 64, 4, 3, 96, 40960}, Compiled{"bf16", 64, 128, 64, 8, 4, 64, 98304},
        Compiled{"bf16", 128, 128, 64, 8, 3, 118, 98304}, Compiled{"bf16", 128, 256, 64, 8, 3, 212, 147456},
        Compiled{"fp8_block128", 16, 128, 128, 4, 3, 98, 36864},
        Compiled{"fp8_block128", 64, 128, 128, 4, 3, 214, 73728}}) {
    TileShape tile;
    tile.block_m = c.m;
    tile.block_n = c.n;
    tile.block_k = c.k;
    tile.warps = c.warps;
    tile.buffers = c.stages - 1;
    tile.held = multiplies_async(device, tile) ? 1 : 0;
    const WeightFormat format = parse_format(c.weights, "weights");
    const Product product{"", "", 4096, 4096, format, format};
    EXPECT_EQ(tile_shared_bytes(tile, format, format), c.shared);
    EXPECT_NEAR(static_cast<double>(triton_registers(device, product, tile)), static_cast<double>(c.registers), 15);
  }
}

TEST(TileSpace, AccumulatorsBeyondTheRegistersSpill) {
  const HardwareModel hardware = load_hardware("h200");
  const MoeModel model = load_model("mixtral-8x7b");
  const RoutedBatch batch = draw_batch(parse_routing("uniform"), model.experts, model.topk, 64, 1, 0);
  MoeLayer layer = shard_layer(model, batch, default_activations(model.expert_weights), 1, 1);
  const auto tile = [](std::int64_t m, std::int64_t n, std::int64_t warps) {
    return Parameters{{"block_m", m}, {"block_n", n}, {"block_k", 64}, {"num_warps", warps}};
  };
  EXPECT_FALSE(spills(grouped(), tile(128, 256, 8), layer, hardware));
  EXPECT_TRUE(spills(grouped(), tile(128, 256, 4), layer, hardware));
  EXPECT_TRUE(spills(grouped(), tile(256, 256, 8), layer, hardware));
  EXPECT_FALSE(spills(grouped(), tile(128, 128, 4), layer, hardware));
  layer.weights = layer.activations = {Dtype::kFp8Block128, 0};  // the product of a step beside the sum
  EXPECT_TRUE(spills(grouped(), tile(128, 128, 4), layer, hardware));
}

}  // namespace
}  // namespace moesim
