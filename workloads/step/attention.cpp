#include "workloads/step/attention.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kLeastBlockTokens = 8;
constexpr std::int64_t kWarps = 4;
constexpr std::int64_t kBuffers = 2;
constexpr std::int64_t kRegisters = 168;
constexpr std::int64_t kCtasPerUnit = 2;  // that the split aims at
constexpr std::int64_t kWarpLevelRows = 16;
constexpr double kRingShare = 0.8;          // of what a CTA may hold on the chip; the rest holds queries and results
constexpr double kScoreWork = 5;            // vector operations: scale, maximum, exponential, sum, rescaling
constexpr double kBytesPerMatrixStep = 32;  // K bytes of one mma instruction
constexpr double kExchanges = 3;
constexpr double kCodeBefore = 250, kCodeAfter = 100;  // instructions, as of the tile kernels (tiles.cpp)
constexpr double kPartBytes = 4;                       // float32 partial results
constexpr std::int64_t kPartsPerRound = 8;
constexpr double kStatePiece = 8192;  // bytes of state of a CTA: 64 float32 a thread of one warp
constexpr double kStateBytes = 4;

// A pass of every sequence and head over its tokens.
struct Pass {
  std::string name;
  std::int64_t heads;
  double values;  // of one head and token
  double rows;    // query rows that share them
  std::int64_t tokens;
};

struct Split {
  std::int64_t parts, blocks;  // of a sequence and head; of a part
};

class ContextKernel {
 public:
  ContextKernel(StepChain& chain, const Pass& pass) : chain_(chain), pass_(pass) {
    const double token = pass.values * value_bytes();
    const double room = kRingShare * device().constant(Hw::kSharedMaxPerItem);
    while (block_ > kLeastBlockTokens && kBuffers * static_cast<double>(block_) * token > room) block_ /= 2;
    const std::int64_t blocks = divide_up(pass.tokens, block_);
    const std::int64_t chains = chain.step().tokens() * pass.heads;
    const std::int64_t parts = std::clamp<std::int64_t>(kCtasPerUnit * device().units() / chains, 1, blocks);
    split_.blocks = divide_up(blocks, parts);
    split_.parts = divide_up(blocks, split_.blocks);
  }

  [[nodiscard]] std::int64_t parts() const { return split_.parts; }

  void add() {
    const std::int64_t ctas = chain_.step().tokens() * pass_.heads * split_.parts;
    const double bytes =
        static_cast<double>(chain_.step().tokens() * pass_.heads * pass_.tokens) * pass_.values * value_bytes();
    Kernel kernel;
    kernel.name = pass_.name;
    kernel.classes = {item(bytes / static_cast<double>(ctas))};
    ItemGroup group;
    group.count = ctas;
    group.region = chain_.region(pass_.name, Bytes(std::llround(bytes)));
    kernel.groups = {group};
    const auto warp = static_cast<std::int64_t>(device().constant(Hw::kWarpSize));
    chain_.add(StepPart::kContext, std::move(kernel),
               {kWarps * warp, kRegisters, std::llround(kBuffers * step_bytes())});
  }

 private:
  [[nodiscard]] const Device& device() const { return chain_.device(); }
  [[nodiscard]] double value_bytes() const { return payload_bits(chain_.step().options.cache) / 8; }
  [[nodiscard]] double block_values() const { return static_cast<double>(block_) * pass_.values; }
  [[nodiscard]] double step_bytes() const { return block_values() * value_bytes(); }

  [[nodiscard]] ItemClass item(double bytes) const {
    const auto async_rows = static_cast<std::int64_t>(device().constant(Hw::kMatrixAsyncRows));
    const bool async = async_rows > kWarpLevelRows && pass_.rows >= static_cast<double>(async_rows);
    const std::int64_t quantum = async ? async_rows : kWarpLevelRows;
    const auto issued = static_cast<double>(
        round_up(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(pass_.rows))), quantum));
    const double rate = device().constant(Hw::kMatrixBf16) *
                        (async || async_rows <= kWarpLevelRows ? 1.0 : device().constant(Hw::kMatrixSyncFraction));
    const double scores = pass_.rows * static_cast<double>(block_);
    const bool converted = payload_bits(chain_.step().options.cache) < 16;

    ItemClass item;
    item.steps = split_.blocks;
    item.stages = kBuffers;
    item.read = Bytes(std::llround(bytes));
    item.write = Bytes(std::llround(pass_.rows * pass_.values / 2 * kPartBytes));
    item.useful_share = std::min(1.0, pass_.rows / issued);
    item.issued_flops = 2 * issued * block_values() * static_cast<double>(item.steps);
    item.useful_flops = item.issued_flops * item.useful_share;
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] =
        device().seconds(2 * issued * block_values() / rate);
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
        device().vector_seconds(kScoreWork * scores, scores + (converted ? block_values() : 0));
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
        device().load_port_seconds(bytes / static_cast<double>(item.steps));
    item.step_issue =
        device().duration(step_bytes() / (static_cast<double>(kWarps) * device().constant(Hw::kAsyncCopyPerWarp)));
    item.load_latency = duration_from_seconds(device().constant(Hw::kAsyncCopyLatency));
    const double products = kBytes16 * (pass_.values / 2 + static_cast<double>(block_)) / kBytesPerMatrixStep;
    item.step_latency =
        device().duration(products * device().constant(Hw::kMatrixLatency) +
                          kExchanges * device().constant(Hw::kSharedLatency) + device().constant(Hw::kBarrier));
    item.first_prologue = duration_from_seconds(device().constant(Hw::kLaunchPrologue));
    item.prologue_after = device().cache_round_trips(2) + device().code(kCodeBefore);  // lengths, places of pages
    item.epilogue = device().cache_round_trips(1) + device().code(kCodeAfter);
    return item;
  }

  StepChain& chain_;
  const Pass& pass_;
  std::int64_t block_ = kBlockTokens;
  Split split_{};
};

// Adds up the parts of each query row.
void add_reduction(StepChain& chain, const Pass& pass, std::int64_t parts) {
  const double row = pass.rows * pass.values / 2;
  Kernel kernel =
      elementwise(chain.device(), "attention_sum", "", chain.step().tokens() * pass.heads,
                  static_cast<double>(parts) * row * kPartBytes, row * kBytes16, divide_up(parts, kPartsPerRound));
  chain.add(StepPart::kContext, std::move(kernel), {kHelperThreads, 32, 0});
}

}  // namespace

void add_context_attention(StepChain& chain, const Mixer& mixer) {
  if (mixer.cached_values == 0) return;
  const LocalCache local = local_cache(mixer, chain.step().options.context, chain.step().tp);
  if (mixer.indexed_values > 0) {
    const Pass index{"index", 1, local.indexed_values, static_cast<double>(kWarpLevelRows), local.stored};
    ContextKernel(chain, index).add();
    chain.elementwise("index_topk", local.stored, local.attended);
  }
  // Devices beyond the cache's heads share the queries of a head.
  const std::int64_t sharers = divide_up(chain.step().tp, mixer.cache_heads);
  const double values = static_cast<double>(mixer.cached_values - mixer.indexed_values);
  const double rows =
      std::max(1.0, static_cast<double>(mixer.context_flops) / (2 * values * static_cast<double>(sharers)));
  const Pass attention{"attention", local.heads, local.head_values, rows, local.attended};
  ContextKernel kernel(chain, attention);
  kernel.add();
  if (kernel.parts() > 1) add_reduction(chain, attention, kernel.parts());
}

void add_state_update(StepChain& chain, const Mixer& mixer) {
  if (mixer.state_values == 0) return;
  const DecodeStep& step = chain.step();
  const Device& device = chain.device();
  const LocalCache local = local_cache(mixer, step.options.context, step.tp);
  const auto pieces = static_cast<std::int64_t>(std::ceil(local.state_bytes / kStatePiece));
  const std::int64_t ctas = step.tokens() * local.state_heads * pieces;
  const double piece = local.state_bytes / static_cast<double>(pieces);
  const double flops =
      static_cast<double>(mixer.state_flops) / static_cast<double>(mixer.state_values) * piece / kStateBytes;
  Kernel kernel;
  kernel.name = "state_update";
  ItemClass item;
  item.read = item.write = Bytes(std::llround(piece));
  item.useful_flops = item.issued_flops = flops;
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] = device.vector_seconds(flops / 2, 0);
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] = device.load_port_seconds(piece);
  item.step_latency = device.duration(kExchanges * device.constant(Hw::kSharedLatency));
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(2) + device.code(kCodeBefore);  // whose state; keys, values, gates
  item.epilogue = device.cache_round_trips(1) + device.code(kCodeAfter);
  kernel.classes = {item};
  ItemGroup group;
  group.count = ctas;
  group.region = chain.region(
      "state", Bytes(std::llround(local.state_bytes * static_cast<double>(step.tokens() * local.state_heads))));
  group.write_region = group.region;
  kernel.groups = {group};
  constexpr std::int64_t kStateRegisters = 128;
  chain.add(StepPart::kContext, std::move(kernel),
            {static_cast<std::int64_t>(device.constant(Hw::kWarpSize)), kStateRegisters, 0});
}

}  // namespace moesim
