// What a kernel's way of working does to its time, whatever the constants are.
#include <gmock/gmock.h>

#include "tests/property/cases.h"
#include "workloads/strategies/tiles.h"

namespace moesim::property {
namespace {

double microseconds(const MoeLayer& layer, const std::string& strategy, const std::string& stage, const Case& c,
                    const Calibration* calibration = nullptr) {
  PredictOptions options = c.options();
  options.stage = stage;
  options.calibration = calibration;
  const std::optional<Prediction> prediction = feasible(layer, device("h200"), strategy, options);
  EXPECT_TRUE(prediction) << strategy;
  return prediction ? to_microseconds(prediction->time) : 0;
}

Case expert_ffn(const std::string& model, const std::string& routing, std::int64_t tokens, const std::string& format) {
  Case c;
  c.model = model;
  c.routing = routing;
  c.tokens = tokens;
  c.format = c.activations = format;
  c.scope = Scope::kExpertFfn;
  return c;
}

// Where fetching inputs costs time, a CTA with a run of the blocks of an expert that all tokens picked works longer than
// one with an expert of one pick; dealt out, all work alike. Where all experts have as many picks, both ways are the same.
TEST(KernelChoices, RunsOfBlocksMakeSkewedRoutingSlower) {
  Calibration calibration;
  Implementation& implementation = calibration.implementations.emplace_back();
  implementation.name = "stream";
  implementation.strategy = "stream_gemv";
  implementation.variant = "persistent=1";
  implementation.weights = "bf16";
  implementation.constants["up.inputs_ns"].value = 100;
  const auto time = [&](const std::string& routing, std::int64_t tokens, const std::string& order) {
    const Case c = expert_ffn("qwen3-30b-a3b", routing, tokens, "bf16");
    return microseconds(c.layer(), "stream_gemv:persistent=1,up.interleaved=" + order, "gemm1", c, &calibration);
  };
  EXPECT_GT(time("zipf:1", 16, "0"), 1.3 * time("zipf:1", 16, "1"));
  EXPECT_NEAR(time("same", 16, "0"), time("same", 16, "1"), 0.01);
}

// Below the rows of an asynchronous instruction fp8 operands are converted on Hopper and multiplied as 16-bit ones: a
// step's products take longer than those of bf16, where they take half from 64 rows on.
TEST(KernelChoices, Fp8GainsNothingInProductsBelowTheAsynchronousRows) {
  const Device hopper(device("h200"), device("h200")[Hw::kClockBoost]);
  const Device ada(device("l40s"), device("l40s")[Hw::kClockBoost]);
  const auto products = [](const Device& on, std::int64_t rows, Dtype dtype) {
    TileShape tile;
    tile.block_m = rows;
    tile.block_n = 128;
    const Product product{"gemm1", "gemm1", 4096, 4096, {dtype, 0}, {dtype, 0}};
    const ItemClass item = tile_item(on, product, tile, rows, static_cast<double>(rows));
    return item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)];
  };
  EXPECT_GT(products(hopper, 32, Dtype::kFp8), 1.2 * products(hopper, 32, Dtype::kBf16));
  EXPECT_DOUBLE_EQ(2 * products(hopper, 64, Dtype::kFp8), products(hopper, 64, Dtype::kBf16));
  EXPECT_LT(products(ada, 32, Dtype::kFp8), products(ada, 32, Dtype::kBf16));  // multiplies fp8 as it is
}

// The copy by elements keeps a quarter of a megabyte in flight, which is about a tenth of what the memory needs.
TEST(KernelChoices, CopyByElementsIsLatencyBound) {
  const Case c = expert_ffn("mixtral-8x7b", "uniform", 1, "bf16");  // 2 picks: PyTorch copies by elements
  const MoeLayer layer = c.layer();
  const double elements = microseconds(layer, "gather_gemv", "gather1", c);
  EXPECT_DOUBLE_EQ(elements, microseconds(layer, "gather_gemv:element_copy=1", "gather1", c));
  EXPECT_GT(elements, 2.5 * microseconds(layer, "gather_gemv:element_copy=0", "gather1", c));
  const Case many = expert_ffn("mixtral-8x7b", "uniform", 16, "bf16");  // 32 picks: by 16 bytes
  const MoeLayer of_many = many.layer();
  EXPECT_DOUBLE_EQ(microseconds(of_many, "gather_gemv", "gather1", many),
                   microseconds(of_many, "gather_gemv:element_copy=0", "gather1", many));
}

// With the same weights to read, 16 picks of each expert cost more than 4: another round of products, inputs that lie in the
// same banks, a sum and a barrier for fewer blocks.
TEST(KernelChoices, PicksOfAnExpertCostAPersistentStreamTime) {
  for (const char* format : {"bf16", "fp8_block128"}) {
    const auto time = [&](std::int64_t tokens) {
      Case c = expert_ffn("qwen3-30b-a3b", "same", tokens, format);
      c.activations = "bf16";
      return microseconds(c.layer(), "stream_gemv:persistent=1", "", c);
    };
    EXPECT_GT(time(16), 1.3 * time(4)) << format;
    EXPECT_GE(time(4), time(1)) << format;
  }
}

// Loads straight to registers: the next step's wait for this one, whatever the compiler was told.
TEST(KernelChoices, StagesOfAStreamThroughRegistersHaveNoEffect) {
  const Case c = expert_ffn("qwen3-30b-a3b", "uniform", 2, "bf16");
  const MoeLayer layer = c.layer();
  EXPECT_DOUBLE_EQ(microseconds(layer, "stream_gemv", "", c),
                   microseconds(layer, "stream_gemv:up.num_stages=3,down.num_stages=3", "", c));
}

// Tile and split of a library's product by its shape, as its kernels' names and grids say.
TEST(KernelChoices, LibraryProductsChooseTileAndSplit) {
  const auto same = [](const std::string& model, const std::string& stage, const std::string& choice) {
    const Case c = expert_ffn(model, "uniform", 1, "bf16");
    const MoeLayer layer = c.layer();
    EXPECT_DOUBLE_EQ(microseconds(layer, "expert_loop", stage, c),
                     microseconds(layer, "expert_loop:" + choice, stage, c))
        << model << " " << stage;
  };
  same("mixtral-8x7b", "gemm1", "block_n=128,split_k=1");
  same("mixtral-8x7b", "gemm2", "block_n=128,split_k=4");
  same("deepseek-v3", "gemm1", "block_n=128,split_k=3");
  same("deepseek-v3", "gemm2", "block_n=64,split_k=1");
  same("qwen3-30b-a3b", "gemm2", "block_n=64,split_k=1");
}

// The partial sums of a split product are added up by a kernel of their own.
TEST(KernelChoices, SplittingAShortProductCostsALaunch) {
  const Case c = expert_ffn("qwen3-30b-a3b", "uniform", 1, "bf16");
  const MoeLayer layer = c.layer();
  const double whole = microseconds(layer, "expert_loop:split_k=1", "gemm2", c);
  const double launches = 0.4 * static_cast<double>(layer.active);  // more than a graph edge each
  EXPECT_GT(microseconds(layer, "expert_loop:split_k=2", "gemm2", c), whole + launches);
}

}  // namespace
}  // namespace moesim::property
