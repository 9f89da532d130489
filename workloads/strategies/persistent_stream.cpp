#include "workloads/strategies/persistent_stream.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/units/integer.h"
#include "workloads/strategies/blocks.h"

namespace moesim {
namespace {

constexpr std::int64_t kWarpBytes = 8192;   // in flight of a warp
constexpr std::int64_t kWarps = 16;         // of a CTA
constexpr std::int64_t kConvertWarps = 12;  // where weights are converted, which takes registers
constexpr std::int64_t kRegisters = 126, kConvertRegisters = 166;
constexpr double kRingPadding = 1.0 / 8;  // 64 bytes beside each 512
constexpr double kSumsBytes = 28672;      // two halves of partial sums, at least
constexpr double kOutputsBytes = 16384;   // of all picks' outputs of a CTA, where these fit
constexpr std::int64_t kPassPicks = 16;   // of an expert that one pass multiplies
constexpr std::int64_t kRoundPicks = 8;   // of these at a time; each round converts the weights anew
constexpr std::int64_t kSetPicks = 4;     // a matrix instruction's 8 columns hold 4 picks, twice
constexpr std::int64_t kSetColumns = 8;
constexpr std::int64_t kBlockRows = 8;     // weight rows of a block
constexpr std::int64_t kStepBytes = 512;   // of a row in a step
constexpr double kWeightsOfProduct = 256;  // 16 x 16
constexpr double kSumsOfChain = 2;         // products of a step go to two sums in turn
constexpr double kInputBits = 16;
constexpr double kInputsAtATime = 256;  // of a row that a warp's registers hold
constexpr double kWeightsPerConversion = 2;

// What one block of weight rows costs, beside its bytes.
struct BlockWork {
  double picks = 0, sets = 0, rounds = 0;
  double first = 0;  // share of its bytes that no other block reads too

  BlockWork& add(const BlockWork& other, double weight) {
    picks += weight * other.picks;
    sets += weight * other.sets;
    rounds += weight * other.rounds;
    first += weight * other.first;
    return *this;
  }
};

struct Passes {
  std::int64_t count = 0;
  BlockWork work;  // mean over them
};

Passes passes_of(std::int64_t rows) {
  Passes passes;
  passes.count = divide_up(rows, kPassPicks);
  if (passes.count == 0) return passes;
  const auto count = static_cast<double>(passes.count);
  passes.work = {static_cast<double>(rows) / count, static_cast<double>(divide_up(rows, kSetPicks)) / count,
                 static_cast<double>(divide_up(rows, kRoundPicks)) / count, 1 / count};
  return passes;
}

// CTAs with as many blocks and nearly the same work in them.
struct CtaClass {
  std::int64_t ctas = 0;
  BlockWork work;  // sum over the CTAs of their means
};
using CtaClasses = std::map<std::pair<std::int64_t, std::int64_t>, CtaClass>;  // by blocks and quantised work

constexpr double kWorkQuantum = 0.25;  // sets a block

void add_cta(CtaClasses& classes, std::int64_t blocks, const BlockWork& mean) {
  if (blocks == 0) return;
  CtaClass& c = classes[{blocks, std::llround(mean.sets / kWorkQuantum)}];
  ++c.ctas;
  c.work.add(mean, 1);
}

// A run of each expert's blocks after the other, shared evenly.
CtaClasses runs_of_blocks(const MoeLayer& layer, std::int64_t row_blocks, std::int64_t units) {
  std::vector<std::pair<std::int64_t, BlockWork>> experts;  // blocks up to the end of this expert
  std::int64_t blocks = 0;
  for (const std::int64_t rows : layer.rows) {
    const Passes passes = passes_of(rows);
    if (passes.count == 0) continue;
    blocks += row_blocks * passes.count;
    experts.emplace_back(blocks, passes.work);
  }
  CtaClasses classes;
  std::size_t e = 0;
  std::int64_t at = 0;
  for (std::int64_t cta = 0; cta < units; ++cta) {
    const std::int64_t share = blocks / units + (cta < blocks % units ? 1 : 0), end = at + share;
    BlockWork mean;
    while (at < end) {
      const std::int64_t here = std::min(end, experts[e].first) - at;
      mean.add(experts[e].second, static_cast<double>(here) / static_cast<double>(share));
      at += here;
      if (at == experts[e].first) ++e;
    }
    add_cta(classes, share, mean);
  }
  return classes;
}

// All experts' passes and their mean work.
Passes all_passes(const MoeLayer& layer) {
  Passes all;
  for (const std::int64_t rows : layer.rows) all.count += passes_of(rows).count;
  for (const std::int64_t rows : layer.rows) {
    const Passes of_expert = passes_of(rows);
    all.work.add(of_expert.work, static_cast<double>(of_expert.count) / static_cast<double>(all.count));
  }
  return all;
}

// Pieces of `piece` blocks dealt out one after another, so that each CTA's are like all of them.
CtaClasses dealt_blocks(std::int64_t pieces, std::int64_t piece, const BlockWork& mean, std::int64_t units) {
  CtaClasses classes;
  for (std::int64_t cta = 0; cta < units; ++cta) {
    add_cta(classes, (pieces / units + (cta < pieces % units ? 1 : 0)) * piece, mean);
  }
  return classes;
}

struct Side {
  std::string name, stage;
  std::int64_t n = 0, k = 0;
  Bytes matrix;
  double inputs = 0;         // rows of K inputs that all picks have
  double outputs_bytes = 0;  // that a CTA keeps for the combine
};

void add_pass(Chain& chain, const LowerRequest& request, const Side& side, const CtaClasses& classes,
              LabelOrder order) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const double block_bytes = side.matrix.as_double() / static_cast<double>(divide_up(side.n, kBlockRows));
  const double row_bytes = static_cast<double>(side.k) * payload_bits(layer.weights) / 8;
  const std::int64_t block_steps = std::llround(std::ceil(row_bytes / static_cast<double>(kStepBytes)));
  const double steps_d = static_cast<double>(block_steps);
  const double step_weights = static_cast<double>(kBlockRows * side.k) / steps_d;
  const bool converted = payload_bits(layer.weights) < kInputBits;
  const std::int64_t warps = parameter(request, side.name + ".num_warps", converted ? kConvertWarps : kWarps);
  const double side_by_side = static_cast<double>(warps);  // each warp has its own ring and chain
  const auto on_chip = static_cast<std::int64_t>(device.constant(Hw::kSharedMaxPerItem));
  const std::int64_t ring =
      parameter(request, side.name + ".bytes_in_flight", std::min(warps * kWarpBytes, 3 * on_chip / 4));
  const double row_inputs = static_cast<double>(side.k) * kInputBits / 8;
  const double room = static_cast<double>(on_chip) - static_cast<double>(ring) * (1 + kRingPadding) - kSumsBytes -
                      (side.outputs_bytes <= kOutputsBytes ? side.outputs_bytes : 0);
  const bool from_cache = row_inputs * side.inputs > room;
  const auto fitted = request.constants.find(side.name + ".inputs_ns");

  Kernel kernel;
  kernel.name = kernel.stage = side.stage;
  for (const auto& [key, cta_class] : classes) {
    const auto blocks = static_cast<double>(key.first);
    const BlockWork work = BlockWork{}.add(cta_class.work, 1 / static_cast<double>(cta_class.ctas));
    ItemClass item;
    item.steps = key.first * block_steps;
    item.stages = static_cast<double>(ring) / static_cast<double>(kBlockRows * kStepBytes);
    item.read = Bytes(std::llround(block_bytes * blocks));
    item.first_share = std::min(1.0, work.first);
    item.write = Bytes(2 * key.first * kBlockRows);
    item.useful_flops = 2 * work.picks * blocks * static_cast<double>(kBlockRows * side.k);
    item.issued_flops =
        2 * static_cast<double>(kSetColumns) * work.sets * blocks * static_cast<double>(kBlockRows * side.k);
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
        device.vector_seconds(0, converted ? step_weights * work.rounds / kWeightsPerConversion : 0);
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] =
        device.seconds(2 * step_weights * kSetColumns * work.sets /
                       (device.constant(Hw::kMatrixBf16) * device.constant(Hw::kMatrixSyncFraction)));
    // A round: where its picks' inputs are, the inputs, the weights, dependent products, the sum over lanes.
    const double products = step_weights / kWeightsOfProduct / kSumsOfChain;
    item.step_latency = device.duration(
        work.rounds * (4 * device.constant(Hw::kSharedLatency) + products * device.constant(Hw::kMatrixLatency)) /
        side_by_side);
    if (from_cache) {
      const double trips = std::ceil(step_weights / static_cast<double>(kBlockRows) / kInputsAtATime);
      item.step_latency += device.cache_round_trips(work.rounds * trips / side_by_side);
      item.resident_read = Bytes(std::llround(row_inputs * work.picks * blocks));
      if (fitted != request.constants.end()) {
        item.step_latency += duration_from_seconds(fitted->second * work.sets * 1e-9);
      }
    }
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
        device.load_port_seconds((item.read + item.resident_read).as_double() / static_cast<double>(item.steps));
    item.load_latency = duration_from_seconds(device.constant(Hw::kAsyncCopyLatency));
    item.step_issue = device.duration(static_cast<double>(kBlockRows * kStepBytes) /
                                      (side_by_side * device.constant(Hw::kAsyncCopyPerWarp)));
    item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
    item.prologue_after = device.cache_round_trips(2);  // the groups of picks, then their numbers
    item.epilogue = device.duration(5 * device.constant(Hw::kSharedLatency) + device.constant(Hw::kBarrier)) +
                    device.cache_round_trips(1);
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(kernel.classes.size());
    group.count = cta_class.ctas;
    // Each class streams rows of its own: a region of its own.
    group.region = chain.region(
        side.name, Bytes(std::llround(block_bytes * blocks * work.first * static_cast<double>(cta_class.ctas))));
    kernel.classes.push_back(item);
    kernel.groups.push_back(group);
  }
  label_experts(kernel, layer, order);
  chain.add(std::move(kernel),
            {warps * static_cast<std::int64_t>(request.hardware[Hw::kWarpSize]),
             parameter(request, side.name + ".registers", converted ? kConvertRegisters : kRegisters),
             parameter(request, side.name + ".shared_bytes", ring + ring / 4)});
}

}  // namespace

Lowered lower_persistent_stream(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const std::int64_t units = std::llround(request.hardware[Hw::kUnitCount]);
  Chain chain(request);
  const bool fused = parameter(request, "down.fused", 1) != 0;
  add_before_experts(chain, request, true, 1);
  if (layer.picks > 0) {
    const Passes all = all_passes(layer);
    const std::int64_t up_blocks = divide_up(layer.up_width(), kBlockRows);
    const std::int64_t down_blocks = divide_up(layer.expert_hidden(), kBlockRows);
    const bool interleaved = parameter(request, "up.interleaved", 1) != 0;
    const auto tokens = static_cast<double>(layer.tokens), picks = static_cast<double>(layer.picks);
    add_pass(
        chain, request, {"up", "gemm1", layer.up_width(), layer.expert_hidden(), layer.up_bytes(), tokens, 0},
        interleaved ? dealt_blocks(up_blocks * all.count, 1, all.work, units) : runs_of_blocks(layer, up_blocks, units),
        interleaved ? LabelOrder::kEachInTurn : LabelOrder::kInterleaved);
    const auto most_rows = static_cast<double>(divide_up(down_blocks, units) * kBlockRows);
    const double outputs = fused ? picks * most_rows * sizeof(float) : 0;
    add_pass(chain, request,
             {"down", "gemm2", layer.expert_hidden(), layer.intermediate, layer.down_bytes(), picks, outputs},
             dealt_blocks(down_blocks, all.count, all.work, units), LabelOrder::kEachInTurn);
  }
  if (!fused) add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace moesim
