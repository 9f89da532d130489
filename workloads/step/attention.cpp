#include "workloads/step/attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace moesim {
namespace {

constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kLeastBlockTokens = 8;
constexpr std::int64_t kWarps = 4;
constexpr std::int64_t kBuffers = 2;
constexpr std::int64_t kRegisters = 168;
constexpr std::int64_t kCtasPerUnit = 2;  // that the split aims at
constexpr std::int64_t kWarpLevelRows = 16;
constexpr double kTileRows = 128;           // query rows of a CTA at most: two warpgroups of FlashAttention 3
constexpr double kRingShare = 0.8;          // of what a CTA may hold on the chip; the rest holds queries and results
constexpr double kScoreWork = 5;            // vector operations: scale, maximum, exponential, sum, rescaling
constexpr double kBytesPerMatrixStep = 32;  // K bytes of one mma instruction
constexpr double kExchanges = 3;
constexpr double kCodeBefore = 250, kCodeAfter = 100;  // instructions, as of the tile kernels (tiles.cpp)
constexpr double kPartBytes = 4;                       // float32 partial results
constexpr std::int64_t kPartsPerRound = 8;
constexpr double kStatePiece = 8192;  // bytes of state of a CTA: 64 float32 a thread of one warp
constexpr double kStateBytes = 4;

// A pass of the query rows of every sequence and head over the tokens that they see.
struct Pass {
  std::string name;
  std::int64_t heads;
  double values;        // of one head and token
  double rows;          // query rows of one token that share them
  std::int64_t window;  // tokens that a query sees at most; 0: all
  bool alone = false;   // each query token has picked tokens of its own
};

// Alike tiles of query rows: of a chunk's tokens as many as fit kTileRows, of a decoding sequence its one.
struct Tiles {
  std::int64_t count = 0;     // sequences x heads x tiles of each
  std::int64_t tokens = 0;    // query tokens of one
  std::int64_t blocks = 0;    // of context that one streams
  std::int64_t streamed = 0;  // tokens of context, of all
  double first_share = 1;     // of these what no other tile of the sequence streams too
  std::int64_t parts = 1, blocks_of_part = 1;
};

void add_tiles(std::vector<Tiles>& all, const Pass& pass, const StepSequences& alike, std::int64_t block) {
  const std::int64_t together =
      pass.alone ? 1 : std::clamp<std::int64_t>(static_cast<std::int64_t>(kTileRows / pass.rows), 1, alike.tokens);
  const std::size_t begin = all.size();
  const std::int64_t chains = alike.count * pass.heads;
  std::int64_t streamed = 0;  // of one sequence and head
  for (std::int64_t first = 0; first < alike.tokens; first += together) {
    const std::int64_t tokens = std::min(together, alike.tokens - first);
    const std::int64_t seen = alike.context - alike.tokens + first + tokens;
    const std::int64_t needed = pass.window > 0 ? std::min(pass.window + tokens - 1, seen) : seen;
    const std::int64_t blocks = divide_up(needed, block);
    streamed += needed;
    if (all.size() == begin || all.back().tokens != tokens || all.back().blocks != blocks) {
      all.push_back({.tokens = tokens, .blocks = blocks});
    }
    all.back().count += chains;
    all.back().streamed += chains * needed;
  }
  const std::int64_t distinct =
      pass.window > 0 ? std::min(pass.window + alike.tokens - 1, alike.context) : alike.context;
  for (std::size_t i = begin; i < all.size() && !pass.alone; ++i) {
    all[i].first_share = std::min(1.0, static_cast<double>(distinct) / static_cast<double>(streamed));
  }
}

class ContextKernel {
 public:
  ContextKernel(StepChain& chain, const Pass& pass) : chain_(chain), pass_(pass) {
    const double token = pass.values * value_bytes();
    const double room = kRingShare * device().constant(Hw::kSharedMaxPerItem);
    while (block_ > kLeastBlockTokens && kBuffers * static_cast<double>(block_) * token > room) block_ /= 2;
    for (const StepSequences& alike : chain.step().local_sequences()) add_tiles(tiles_, pass, alike, block_);
    std::stable_sort(tiles_.begin(), tiles_.end(), [](const Tiles& a, const Tiles& b) { return a.blocks > b.blocks; });
    std::int64_t all_blocks = 0;
    for (const Tiles& tiles : tiles_) all_blocks += tiles.count * tiles.blocks;
    for (Tiles& tiles : tiles_) {
      const std::int64_t fair = kCtasPerUnit * device().units() * tiles.blocks / all_blocks;
      tiles.blocks_of_part = divide_up(tiles.blocks, std::clamp<std::int64_t>(fair, 1, tiles.blocks));
      tiles.parts = divide_up(tiles.blocks, tiles.blocks_of_part);
    }
  }

  void add() {
    Kernel kernel;
    kernel.name = pass_.name;
    for (const Tiles& tiles : tiles_) {
      const std::int64_t ctas = tiles.count * tiles.parts;
      const double bytes = static_cast<double>(tiles.streamed) * pass_.values * value_bytes();
      ItemGroup group;
      group.item_class = static_cast<std::uint32_t>(kernel.classes.size());
      group.count = ctas;
      group.region = chain_.region(pass_.name, Bytes(std::llround(bytes * tiles.first_share)));
      kernel.classes.push_back(item(tiles, bytes / static_cast<double>(ctas)));
      kernel.groups.push_back(group);
    }
    const auto warp = static_cast<std::int64_t>(device().constant(Hw::kWarpSize));
    chain_.add(StepPart::kContext, std::move(kernel),
               {kWarps * warp, kRegisters, std::llround(kBuffers * step_bytes())});
  }

  // Adds up the parts of each query row, where there are several.
  void add_reduction() {
    const double row = pass_.rows * pass_.values / 2;
    std::int64_t ctas = 0, most_parts = 0;
    double parts = 0;
    for (const Tiles& tiles : tiles_) {
      if (tiles.parts == 1) continue;
      ctas += tiles.count * tiles.tokens;
      parts += static_cast<double>(tiles.count * tiles.tokens * tiles.parts);
      most_parts = std::max(most_parts, tiles.parts);
    }
    if (ctas == 0) return;
    Kernel kernel =
        elementwise(device(), "attention_sum", "", ctas, parts / static_cast<double>(ctas) * row * kPartBytes,
                    row * kBytes16, divide_up(most_parts, kPartsPerRound));
    chain_.add(StepPart::kContext, std::move(kernel), {kHelperThreads, 32, 0});
  }

 private:
  [[nodiscard]] const Device& device() const { return chain_.device(); }
  [[nodiscard]] double value_bytes() const { return payload_bits(chain_.step().options.cache) / 8; }
  [[nodiscard]] double block_values() const { return static_cast<double>(block_) * pass_.values; }
  [[nodiscard]] double step_bytes() const { return block_values() * value_bytes(); }

  [[nodiscard]] ItemClass item(const Tiles& tiles, double bytes) const {
    const Device device = chain_.device().multiplying();
    const double rows = pass_.rows * static_cast<double>(tiles.tokens);
    const auto async_rows = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows));
    const bool async = async_rows > kWarpLevelRows && rows >= static_cast<double>(async_rows);
    const std::int64_t quantum = async ? async_rows : kWarpLevelRows;
    const auto issued =
        static_cast<double>(round_up(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(rows))), quantum));
    const double rate = device.constant(Hw::kMatrixBf16) *
                        (async || async_rows <= kWarpLevelRows ? 1.0 : device.constant(Hw::kMatrixSyncFraction));
    const double scores = rows * static_cast<double>(block_);
    const bool converted = payload_bits(chain_.step().options.cache) < 16;

    ItemClass item;
    item.steps = tiles.blocks_of_part;
    item.stages = kBuffers;
    item.read = Bytes(std::llround(bytes));
    item.first_share = tiles.first_share;
    item.write = Bytes(std::llround(rows * pass_.values / 2 * kPartBytes));
    item.useful_share = std::min(1.0, rows / issued);
    item.issued_flops = 2 * issued * block_values() * static_cast<double>(item.steps);
    item.useful_flops = item.issued_flops * item.useful_share;
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = device.seconds(2 * issued * block_values() / rate);
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
        device.vector_seconds(kScoreWork * scores, scores + (converted ? block_values() : 0));
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
        device.load_port_seconds(bytes / static_cast<double>(item.steps));
    item.step_issue =
        device.duration(step_bytes() / (static_cast<double>(kWarps) * device.constant(Hw::kAsyncCopyPerWarp)));
    item.load_latency = duration_from_seconds(device.constant(Hw::kAsyncCopyLatency));
    const double products = kBytes16 * (pass_.values / 2 + static_cast<double>(block_)) / kBytesPerMatrixStep;
    item.step_latency =
        device.duration(products * device.constant(Hw::kMatrixLatency) +
                        kExchanges * device.constant(Hw::kSharedLatency) + device.constant(Hw::kBarrier));
    item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
    item.prologue_after = device.cache_round_trips(2) + device.code(kCodeBefore);  // lengths, places of pages
    item.epilogue = device.cache_round_trips(1) + device.code(kCodeAfter);
    return item;
  }

  StepChain& chain_;
  const Pass& pass_;
  std::int64_t block_ = kBlockTokens;
  std::vector<Tiles> tiles_;
};

}  // namespace

void add_context_attention(StepChain& chain, const Mixer& mixer) {
  if (mixer.cached_values == 0) return;
  const std::int64_t heads = divide_up(mixer.cache_heads, chain.step().tp);
  const auto cache = [&](std::int64_t context) { return local_cache(mixer, context, chain.step().tp); };
  const bool indexed = mixer.indexed_values > 0;
  if (indexed) {
    const Pass index{"index", 1, cache(1).indexed_values, static_cast<double>(kWarpLevelRows), 0};
    ContextKernel(chain, index).add();
    std::int64_t stored = 0, attended = 0;  // of all query tokens
    for (const StepSequences& alike : chain.step().local_sequences()) {
      stored += alike.count * alike.tokens * cache(alike.context).stored;
      attended += alike.count * alike.tokens * cache(alike.context).attended;
    }
    chain.elementwise("index_topk", divide_up(stored, chain.step().tokens()),
                      divide_up(attended, chain.step().tokens()));
  }
  // Devices beyond the cache's heads share the queries of a head.
  const std::int64_t sharers = divide_up(chain.step().tp, mixer.cache_heads);
  const double values = static_cast<double>(mixer.cached_values - mixer.indexed_values);
  const double rows =
      std::max(1.0, static_cast<double>(mixer.context_flops) / (2 * values * static_cast<double>(sharers)));
  const Pass attention{"attention", heads, cache(1).head_values, rows, mixer.window, indexed};
  ContextKernel kernel(chain, attention);
  kernel.add();
  kernel.add_reduction();
}

void add_state_update(StepChain& chain, const Mixer& mixer) {
  if (mixer.state_values == 0) return;
  const DecodeStep& step = chain.step();
  const Device& device = chain.device();
  const LocalCache local = local_cache(mixer, 1, step.tp);
  const auto pieces = static_cast<std::int64_t>(std::ceil(local.state_bytes / kStatePiece));
  const double piece = local.state_bytes / static_cast<double>(pieces);
  Kernel kernel;
  kernel.name = "state_update";
  for (const StepSequences& alike : step.local_sequences()) {
    const auto tokens = static_cast<double>(alike.tokens);
    const double flops =
        static_cast<double>(mixer.state_flops) / static_cast<double>(mixer.state_values) * piece / kStateBytes * tokens;
    ItemClass item;
    item.read = item.write = Bytes(std::llround(piece));
    item.useful_flops = item.issued_flops = flops;
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] = device.vector_seconds(flops / 2, 0);
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] = device.load_port_seconds(piece);
    item.step_latency = device.duration(tokens * kExchanges * device.constant(Hw::kSharedLatency));
    item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
    item.prologue_after = device.cache_round_trips(2) + device.code(kCodeBefore);  // whose state; keys, values, gates
    item.epilogue = device.cache_round_trips(1) + device.code(kCodeAfter);
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(kernel.classes.size());
    group.count = alike.count * local.state_heads * pieces;
    group.region = chain.region(
        "state", Bytes(std::llround(local.state_bytes * static_cast<double>(alike.count * local.state_heads))));
    group.write_region = group.region;
    kernel.classes.push_back(item);
    kernel.groups.push_back(group);
  }
  constexpr std::int64_t kStateRegisters = 128;
  chain.add(StepPart::kContext, std::move(kernel),
            {static_cast<std::int64_t>(device.constant(Hw::kWarpSize)), kStateRegisters, 0});
}

}  // namespace moesim
