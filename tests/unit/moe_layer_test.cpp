// One device's shard of latent, zero-expert and plain layers.
#include "workloads/moe_layer.h"

#include <gtest/gtest.h>

#include "tests/testkit/models.h"

namespace moesim {
namespace {

constexpr WeightFormat kBf16{Dtype::kBf16};

TEST(ShardLayer, PicksOfZeroExpertsLoadNothing) {
  const MoeModel model = testkit::tiny_zero_model();  // 8 experts, 4 zero experts, top-2
  const RoutedBatch batch{.tokens = 3, .topk = 2, .experts = 12, .ids = {0, 9, 8, 11, 0, 7}};
  const MoeLayer layer = shard_layer(model, batch, kBf16, 1, 1);
  EXPECT_EQ(layer.rows, (std::vector<std::int64_t>{2, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(layer.picks, 3);
  EXPECT_EQ(layer.active, 2);
  EXPECT_EQ(layer.token_picks, (std::vector<std::int64_t>{1, 0, 2}));
  EXPECT_EQ(layer.router_experts, 12);
  EXPECT_EQ(layer.topk, 2);

  const RoutedBatch idle{.tokens = 1, .topk = 2, .experts = 12, .ids = {8, 9}};
  EXPECT_EQ(shard_layer(model, idle, kBf16, 1, 1).picks, 0);
  EXPECT_EQ(shard_layer(model, batch, kBf16, 1, 2).rows.size(), 4U) << "experts alone are dealt to devices";
}

TEST(ShardLayer, LatentExpertsAreNarrow) {
  const MoeModel model = testkit::tiny_latent_model();  // hidden 256, latent 64, width 128, two matrices
  const RoutedBatch batch{.tokens = 1, .topk = 2, .experts = 8, .ids = {0, 1}};
  const MoeLayer layer = shard_layer(model, batch, kBf16, 2, 1);
  EXPECT_EQ(layer.hidden, 256);
  EXPECT_EQ(layer.expert_hidden(), 64);
  EXPECT_EQ(layer.up_bytes(), Bytes(2 * 64 * 64)) << "half of the width on each of two devices";
  EXPECT_EQ(layer.down_bytes(), Bytes(2 * 64 * 64));
  EXPECT_EQ(shard_layer(testkit::tiny_model(), batch, kBf16, 1, 1).expert_hidden(), 256);
}

}  // namespace
}  // namespace moesim
