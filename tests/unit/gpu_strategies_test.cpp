// What the strategies of GPUs make of a layer.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"
#include "tests/testkit/models.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"

namespace moesim {
namespace {

const HardwareModel& h200() {
  static const HardwareModel hardware = load_hardware("h200");
  return hardware;
}

// One expert of [n, k] down weights, which `rows` tokens pick.
ExecutionPlan plan_of(const std::string& strategy, std::int64_t n, std::int64_t k, std::int64_t rows,
                      const std::string& stage = "", std::optional<double> clock_hz = std::nullopt) {
  MoeModel model = load_model("mixtral-8x7b");
  model.hidden = n;
  model.expert_intermediate = k;
  model.experts = model.topk = 1;
  RoutedBatch batch{rows, 1, 1, std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0)};
  PredictOptions options;
  options.scope = Scope::kExpertFfn;
  options.stage = stage;
  options.clock_hz = clock_hz;
  const MoeLayer layer = shard_layer(model, batch, {Dtype::kBf16, 0}, 1, 1);
  return std::get<ExecutionPlan>(lower_layer(layer, h200(), parse_strategy(strategy), options));
}

// Grids that cuBLAS launched (validation/measured/h200-2026-11-30-choice); as clusters fill them, some are larger.
struct LibraryGrid {
  std::int64_t n, k, rows, ctas;
  bool split;
};

TEST(ExpertLoop, GridsAreTheLibrarys) {
  for (const LibraryGrid& g : {LibraryGrid{4096, 1024, 1, 64, false}, LibraryGrid{4096, 1024, 16, 128, false},
                               LibraryGrid{4096, 1024, 128, 128, false}, LibraryGrid{4096, 1024, 512, 128, false},
                               LibraryGrid{2048, 2048, 8, 32, false}, LibraryGrid{2048, 2048, 48, 96, false},
                               LibraryGrid{2048, 2048, 256, 128, false}, LibraryGrid{7168, 2048, 64, 112, false},
                               LibraryGrid{28672, 4096, 64, 112, false}, LibraryGrid{2048, 4096, 32, 96, true},
                               LibraryGrid{2048, 4096, 128, 128, false}, LibraryGrid{2880, 2880, 8, 90, true},
                               LibraryGrid{2880, 2880, 64, 90, false}, LibraryGrid{4096, 14336, 1, 128, true},
                               LibraryGrid{4096, 14336, 512, 128, false}, LibraryGrid{4096, 7168, 16, 128, true},
                               LibraryGrid{4096, 7168, 128, 128, false}}) {
    const ExecutionPlan plan = plan_of("expert_loop", g.n, g.k, g.rows, "gemm2");
    EXPECT_EQ(plan.kernels().front().items(), g.ctas) << g.n << " x " << g.k << ", " << g.rows;
    EXPECT_EQ(plan.kernels().size(), g.split ? 2U : 1U) << g.n << " x " << g.k << ", " << g.rows;
  }
}

// Columns of the same weights take turns: their first read is the region's, and their lines pass a port once.
TEST(ExpertLoop, ColumnsShareTheWeights) {
  const ExecutionPlan plan = plan_of("expert_loop", 2048, 2048, 256, "gemm2");
  const ItemClass& item = plan.kernels().front().classes.front();
  EXPECT_EQ(item.first_share, 0.25);
  EXPECT_DOUBLE_EQ(item.read_port_weight, 1.0 / 2);
  EXPECT_DOUBLE_EQ(item.resident_port_weight, 1.0 / 3);
  EXPECT_EQ(plan.regions()[plan.kernels().front().groups.front().region->index()].bytes, Bytes(2048 * 2048 * 2));
  EXPECT_EQ(plan_of("expert_loop:block_m=256", 2048, 2048, 256, "gemm2").kernels().front().items(), 32);
}

// PyTorch's grids (validation/measured/h200-2026-11-30, `vectorized_gather_kernel`): 4 KiB a CTA, wherever rows begin, up to
// 65,535 of them.
TEST(GatherGemv, CopiesAreCutByBytes) {
  const auto copy = [](std::int64_t n, std::int64_t k, const std::string& parameters = "") {
    return plan_of("gather_gemv:element_copy=0" + parameters, n, k, 2, "gather2").kernels().front();
  };
  EXPECT_EQ(copy(4096, 1024).items(), 2 * 2048);
  EXPECT_EQ(copy(2048, 768).items(), 2 * 768);
  EXPECT_EQ(copy(4096, 1024).classes[0].read, Bytes(4096));
  const Kernel large = copy(32768, 16384);
  EXPECT_EQ(large.items(), 2 * 65535);
  EXPECT_EQ(large.classes[0].steps, 5);
  const Kernel chunks = copy(4096, 1024, ",copy.bytes=65536,copy.loads=8");
  EXPECT_EQ(chunks.items(), 2 * 128);
  EXPECT_EQ(chunks.classes[0].steps, 2);
}

// The library's copy takes a piece of each pick in turn, so that an expert's later picks read what its first has; in turn, what is
// left of the expert in the cache.
TEST(GatherGemv, PicksOfAnExpertReadItOnce) {
  const auto copy = [](const std::string& parameters) {
    return plan_of("gather_gemv:element_copy=0" + parameters, 4096, 1024, 4, "gather2").kernels().front();
  };
  const Kernel together = copy(""), in_turn = copy(",copy.in_turn=1");
  EXPECT_EQ(together.items(), in_turn.items());
  ASSERT_EQ(together.groups.size(), 1U);
  EXPECT_EQ(together.classes[0].first_share, 0.25);
  ASSERT_EQ(in_turn.groups.size(), 4U);
  EXPECT_EQ(in_turn.classes[0].first_share, 1);
  EXPECT_EQ(in_turn.groups[0].region, in_turn.groups[3].region);
}

// Tokens on the same rows walk their picks side by side. Where the cache holds what all of them read in turn, each expert is read
// once; where it does not, once for each place that it has in their lists: 3 / 2 times of two tokens with the same two picks in any
// order, 3 / 4 of their reads.
TEST(StreamGemv, WalksReadAgainWhatTheCacheLost) {
  MoeModel model = load_model("mixtral-8x7b");
  const auto share = [&](std::int64_t k, const std::vector<std::int32_t>& picks) {
    model.expert_intermediate = k;
    const RoutedBatch batch{static_cast<std::int64_t>(picks.size()) / 2, 2, 8, picks};
    PredictOptions options;
    options.scope = Scope::kExpertFfn;
    options.stage = "gemm2";
    const MoeLayer layer = shard_layer(model, batch, {Dtype::kBf16, 0}, 1, 1);
    return std::get<ExecutionPlan>(lower_layer(layer, h200(), parse_strategy("stream_gemv"), options))
        .kernels()
        .front()
        .classes[0]
        .first_share;
  };
  EXPECT_DOUBLE_EQ(share(14336, {0, 1, 2, 3}), 1);
  EXPECT_DOUBLE_EQ(share(14336, {0, 1, 0, 1}), 0.75);
  EXPECT_DOUBLE_EQ(share(64, {0, 1, 0, 1}), 0.5);
}

// A tile of fewer steps than its three buffers fills them all, and multiplies what it has.
TEST(Tiles, TritonFillsAllBuffers) {
  const auto port = [](std::int64_t steps) {
    const ItemClass item =
        plan_of("grouped_gemm:block_m=16,block_n=64,block_k=128,num_stages=4", 4096, 128 * steps, 1, "gemm2")
            .kernels()
            .front()
            .classes[0];
    EXPECT_EQ(item.steps, steps);
    return static_cast<double>(steps) * item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)];
  };
  const double copy = 128.0 * (64 + 16) * 2 / 128 / h200()[Hw::kClockMatrix];  // 128 bytes a clock
  const double product = port(2) - port(1);
  EXPECT_NEAR(port(1), 3 * copy + product, 1e-12);
  EXPECT_NEAR(port(3), 3 * (copy + product), 1e-12);
  EXPECT_NEAR(port(6), 6 * (copy + product), 1e-12);
}

// CUDA tiles find the rows of the down projection in order: one lookup less than in the up projection, where Triton's have as many.
// Their five copies a thread take 14 instructions each of every step.
TEST(Tiles, PlainCudaLooksUpLessAndComputesAddressesAnew) {
  const auto item = [](const std::string& instruction, const std::string& stage) {
    return plan_of("grouped_gemm:block_m=16,block_n=64,block_k=64,num_stages=6" + instruction, 4096, 4096, 1, stage)
        .kernels()
        .front()
        .classes[0];
  };
  const ItemClass cuda = item(",warp_level=1", "gemm2"), triton = item("", "gemm2");
  EXPECT_NEAR(to_seconds(item(",warp_level=1", "gemm1").prologue_after) - to_seconds(cuda.prologue_after),
              h200()[Hw::kLlcLatency], 1e-12);
  EXPECT_EQ(item("", "gemm1").prologue_after, triton.prologue_after);
  const double code = 5 * 14 * 4 / h200()[Hw::kClockMatrix];
  EXPECT_GT(to_seconds(cuda.step_latency), code);
  EXPECT_LT(to_seconds(triton.step_latency), to_seconds(cuda.step_latency));
}

// Kernels with matrix instructions run at clock.matrix, if that is the lower clock; others at the clock that is asked for.
TEST(Tiles, RunAtTheClockOfMatrixInstructions) {
  const auto arithmetic = [](const std::string& strategy, double clock_hz) {
    const ExecutionPlan plan = plan_of(strategy, 4096, 2048, 1, "gemm2", clock_hz);
    double seconds = 0;
    for (const Kernel& kernel : plan.kernels()) {
      for (const PipeKind pipe : {PipeKind::kMatrix, PipeKind::kVector}) {
        seconds += kernel.classes.front().pipe_seconds[static_cast<std::size_t>(pipe)];
      }
    }
    return seconds;
  };
  const double boost = h200()[Hw::kClockBoost], matrix = h200()[Hw::kClockMatrix];
  for (const char* const strategy :
       {"grouped_gemm", "grouped_gemm_persistent", "expert_loop", "stream_gemv:persistent=1"}) {
    const double at_boost = arithmetic(strategy, boost);
    EXPECT_EQ(at_boost, arithmetic(strategy, matrix)) << strategy;
    EXPECT_NEAR(arithmetic(strategy, matrix / 2) / at_boost, 2, 1e-9) << strategy;
  }
  const double at_boost = arithmetic("stream_gemv:persistent=0", boost);
  EXPECT_NEAR(arithmetic("stream_gemv:persistent=0", matrix) / at_boost, boost / matrix, 1e-9);
}

TEST(PersistentStream, OneLaunchJoinsTheProjections) {
  const ExecutionPlan two = plan_of("stream_gemv:persistent=1", 4096, 14336, 1);
  const ExecutionPlan one = plan_of("stream_gemv:persistent=1,one_launch=1", 4096, 14336, 1);
  ASSERT_EQ(one.kernels().size(), two.kernels().size());
  const auto joined = [](const Kernel& kernel) { return kernel.joined; };
  EXPECT_EQ(std::ranges::count_if(two.kernels(), joined), 0);
  ASSERT_EQ(std::ranges::count_if(one.kernels(), joined), 1);
  const auto read = [](const ExecutionPlan& plan) {
    double bytes = 0;
    for (const Kernel& kernel : plan.kernels()) {
      for (const ItemGroup& group : kernel.groups) {
        bytes += kernel.classes[group.item_class].read.as_double() * static_cast<double>(group.count);
      }
    }
    return bytes;
  };
  EXPECT_NEAR(read(one) / read(two), 1, 1e-6);
  // One stage alone has nothing to join.
  const ExecutionPlan down = plan_of("stream_gemv:persistent=1,one_launch=1", 4096, 14336, 1, "gemm2");
  EXPECT_EQ(std::ranges::count_if(down.kernels(), joined), 0);
}

// A warp that has its scheduler to itself never waits for it; one of four does, in every step. (Of n warps' places in the ring all
// but one are counted empty while a warp multiplies.)
TEST(PersistentStream, WarpsTakeTurnsAtTheirScheduler) {
  const auto chain = [](std::int64_t warps) {
    const std::string text = std::to_string(warps);
    const ItemClass item =
        plan_of("stream_gemv:persistent=1,down.bytes_in_flight=65536,down.num_warps=" + text, 4096, 2048, 1, "gemm2")
            .kernels()
            .front()
            .classes[0];
    return (to_seconds(item.load_latency) - h200()[Hw::kAsyncCopyLatency]) / (1 - 1 / static_cast<double>(warps));
  };
  EXPECT_GT(chain(16), 1.05 * chain(4));
  EXPECT_LT(chain(16), 1.3 * chain(4));
  EXPECT_GT(chain(12), chain(8));
}

// Outputs of more than 16 KiB a CTA lie in the cache: 32 rows of 136 tokens are nine loads for each of 512 threads.
TEST(PersistentStream, CombinesFromTheCacheWhatItCannotKeep) {
  const auto end = [](const std::string& parameters) {
    return to_seconds(plan_of("stream_gemv:persistent=1" + parameters, 4096, 1024, 136, "gemm2")
                          .kernels()
                          .front()
                          .classes[0]
                          .epilogue);
  };
  const double loads = 9 * h200()[Hw::kLlcLatency];
  const double code = (100 * 4 + h200()[Hw::kBarrier] + h200()[Hw::kSharedLatency]) / h200()[Hw::kClockMatrix];
  EXPECT_NEAR(end("") - end(",down.fused=0"), loads + code, 1e-11);
}

// Where the first wave of loads holds all, nothing is late; else the launch that is saved is worth more than what is.
TEST(PersistentStream, OneLaunchIsFasterForSmallBlocks) {
  for (const std::int64_t k : {512, 2048, 8192}) {
    const Machine machine = build_machine(h200());
    EXPECT_LT(simulate(plan_of("stream_gemv:persistent=1,one_launch=1", 2048, k, 1), machine).total,
              simulate(plan_of("stream_gemv:persistent=1", 2048, k, 1), machine).total)
        << k;
  }
}

}  // namespace
}  // namespace moesim
