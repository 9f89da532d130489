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
constexpr double kRingPadding = 1.0 / 8;   // 64 bytes beside each 512
constexpr double kTagBytes = 16;           // of a step in the ring: where it belongs
constexpr double kLeastSumsBytes = 14336;  // of each of two halves of partial sums
constexpr double kOutputsBytes = 16384;    // of all picks' outputs of a CTA, where these fit
constexpr std::int64_t kPassPicks = 16;    // of an expert that one pass multiplies
constexpr std::int64_t kFewPassPicks = 8;  // where no expert has more
constexpr std::int64_t kRoundPicks = 8;    // of these at a time; each round converts the weights anew
constexpr std::int64_t kSetPicks = 4;      // a matrix instruction's 8 columns hold 4 picks, twice
constexpr std::int64_t kSetColumns = 8;
constexpr std::int64_t kBlockRows = 8;     // weight rows of a block
constexpr std::int64_t kStepBytes = 512;   // of a row in a step
constexpr double kWeightsOfProduct = 256;  // 16 x 16
constexpr double kSumsOfChain = 2;         // products of a step go to two sums in turn
constexpr double kInputBits = 16;
constexpr double kInputsAtATime = 256;  // of a row that a warp's registers hold
constexpr double kWeightsPerConversion = 2;
constexpr double kLastWarp = 3.4;  // the last of 16 alike is so many of its own standard deviations late (12: 3.0)
constexpr double kInputLoadBytes = 16, kInputLoadsTogether = 4;  // of a thread, ahead of the weights; then one by one

// Instructions of a warp beside products, as compiled for sm_90a: of a step of up and of down (where it lies, its copies
// ahead), of a round and of each four picks in it, and where inputs are taken from the cache as they lie, more of these
// (selected, converted); of each piece in a round of a step that its row does not fill.
struct StepCode {
  double up, down, round, set, set_as_given, piece;
};
constexpr StepCode kWideCode = {200, 157, 20, 39, 18, 7}, kConvertCode = {243, 198, 15, 59, 118, 10};
constexpr double kPieceBytes = 64;  // of a row that one load of a warp takes from the ring
// Before the first copies are all on their way; of the combine.
constexpr double kStartCode = 300, kCombineCode = 100;
// Of an output's sum over its steps, and of four steps in it.
struct SumCode {
  double output, four_steps;
};
constexpr SumCode kUpSum = {120, 30}, kDownSum = {80, 17};
constexpr double kSumStepsAtATime = 4, kCombinedAtATime = 4;

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

// Of an expert's rows: passes of `most` picks, the last one of what is left.
Passes passes_of(std::int64_t rows, std::int64_t most) {
  Passes passes;
  passes.count = divide_up(rows, most);
  for (std::int64_t pass = 0; pass < passes.count; ++pass) {
    const std::int64_t picks = std::min(most, rows - pass * most);
    const std::int64_t rounds = divide_up(picks, kRoundPicks);
    const std::int64_t sets = picks <= kSetPicks ? 1 : rounds * (kRoundPicks / kSetPicks);
    passes.work.add(
        {static_cast<double>(picks), static_cast<double>(sets), static_cast<double>(rounds), pass == 0 ? 1.0 : 0.0},
        1 / static_cast<double>(passes.count));
  }
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
CtaClasses runs_of_blocks(const MoeLayer& layer, std::int64_t most, std::int64_t row_blocks, std::int64_t units) {
  std::vector<std::pair<std::int64_t, BlockWork>> experts;  // blocks up to the end of this expert
  std::int64_t blocks = 0;
  for (const std::int64_t rows : layer.rows) {
    const Passes passes = passes_of(rows, most);
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
Passes all_passes(const MoeLayer& layer, std::int64_t most) {
  Passes all;
  for (const std::int64_t rows : layer.rows) {
    const Passes of_expert = passes_of(rows, most);
    all.count += of_expert.count;
    all.work.add(of_expert.work, static_cast<double>(of_expert.count));
  }
  all.work = BlockWork{}.add(all.work, 1 / static_cast<double>(all.count));
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
  double inputs = 0;            // rows of K inputs that all picks have
  bool after_up = false;        // the down projection; its inputs lie as products take them
  double outputs = 0;           // of a block
  double outputs_bytes = 0;     // that a CTA keeps for the combine
  double combined = 0;          // picks of a token that it adds up at its end
  double outputs_combined = 0;  // of a CTA, by all its tokens
  std::int64_t passes = 0;      // of all experts
  std::int64_t widest = 0;      // picks of the widest pass
  double least_sums_bytes = 0;  // of each half of the partial sums
  bool hands_over = false;      // the other side follows in the same launch
  bool joined = false;          // follows the other side
  double run_on = 0;            // of its steps, those whose loads come while the other side's last warps are late
};

// What a warp does for one step of 4 KiB, and what all warps do together for a batch of blocks.
struct StepWork {
  double instructions = 0;  // of a warp
  double shared_bytes = 0;  // through on-chip memory
  double conversions = 0;
  Duration chain;     // of a warp, after its data are there
  Duration together;  // a step's share of what all warps wait for
  Duration stall;     // of a place in the ring: what a batch's end takes beyond the loads that it hides
};

double steps_of_row(const MoeLayer& layer, std::int64_t k) {
  return std::ceil(static_cast<double>(k) * payload_bits(layer.weights) / 8 / static_cast<double>(kStepBytes));
}

class StreamPass {
 public:
  StreamPass(const LowerRequest& request, const Side& side)
      : request_(request),
        layer_(request.layer),
        device_(Device(request.hardware, request.clock_hz).multiplying()),
        side_(side) {
    converted_ = payload_bits(layer_.weights) < kInputBits;
    code_ = converted_ ? kConvertCode : kWideCode;
    block_steps_ = steps_of_row(layer_, side.k);
    step_weights_ = static_cast<double>(kBlockRows * side.k) / block_steps_;
    warps_ = parameter(request, side.name + ".num_warps", converted_ ? kConvertWarps : kWarps);
    const auto on_chip = static_cast<std::int64_t>(device_.constant(Hw::kSharedMaxPerItem));
    ring_ = parameter(request, side.name + ".bytes_in_flight", std::min(warps_ * kWarpBytes, 3 * on_chip / 4));
    stages_ = static_cast<double>(ring_) / static_cast<double>(kBlockRows * kStepBytes);
    const double lists = 12 * static_cast<double>(layer_.picks) + 16 * static_cast<double>(side.passes);
    const double room = static_cast<double>(on_chip) - static_cast<double>(ring_) * (1 + kRingPadding) -
                        stages_ * kTagBytes - 2 * side.least_sums_bytes - lists -
                        (side.outputs_bytes <= kOutputsBytes ? side.outputs_bytes : 0);
    const double inputs = row_inputs() * side.inputs;
    from_cache_ = inputs > room;
    const double sums = side.least_sums_bytes + (from_cache_ ? 0 : (room - inputs) / 2);
    const double block_sums =
        block_steps_ * static_cast<double>(side.widest * kBlockRows) * static_cast<double>(sizeof(float));
    batch_ = std::max(1.0, std::floor(sums / block_sums));
  }

  [[nodiscard]] Kernel kernel(Chain& chain, const CtaClasses& classes) const;
  // Steps of the other side that come while a CTA's last warps are late, mean over the CTAs.
  [[nodiscard]] double run_on(const CtaClasses& classes) const;
  [[nodiscard]] LaunchShape launch() const {
    return {warps_ * static_cast<std::int64_t>(request_.hardware[Hw::kWarpSize]),
            parameter(request_, side_.name + ".registers", converted_ ? kConvertRegisters : kRegisters),
            parameter(request_, side_.name + ".shared_bytes", ring_ + ring_ / 4)};
  }

 private:
  [[nodiscard]] double row_inputs() const { return static_cast<double>(side_.k) * kInputBits / 8; }
  [[nodiscard]] Duration batch_sum(double blocks) const;
  [[nodiscard]] double wait_to_issue(double instructions, Duration chain) const;
  [[nodiscard]] StepWork step(const BlockWork& work, double blocks) const;
  [[nodiscard]] ItemClass item(std::int64_t blocks, const BlockWork& work) const;
  [[nodiscard]] double late_steps(std::int64_t blocks) const;
  [[nodiscard]] double late_rounds(double rounds) const;  // the last warp after so many
  void load_more(ItemClass& item, double steps) const;

  const LowerRequest& request_;
  const MoeLayer& layer_;
  Device device_;
  const Side& side_;
  bool converted_ = false, from_cache_ = false;
  StepCode code_{};
  double block_steps_ = 1;
  double step_weights_ = 0;
  std::int64_t warps_ = 1, ring_ = 0;  // each warp has its own part of the ring, and its chain
  double stages_ = 1;                  // steps in the ring
  double batch_ = 1;                   // blocks between two barriers
};

// All threads add up the steps of each row of `blocks` blocks, after a barrier.
Duration StreamPass::batch_sum(double blocks) const {
  const double threads = static_cast<double>(warps_) * device_.constant(Hw::kWarpSize);
  const double turns = std::ceil(blocks * static_cast<double>(side_.widest) * side_.outputs / threads);
  const double fours = block_steps_ / kSumStepsAtATime;
  const SumCode& code = side_.after_up ? kDownSum : kUpSum;
  // The group of picks, the pick, its weight; then the steps.
  return device_.duration(device_.constant(Hw::kBarrier) +
                          turns * (2 + std::ceil(fours)) * device_.constant(Hw::kSharedLatency)) +
         device_.code(turns * (code.output + fours * code.four_steps));
}

// Clocks that each of a warp's instructions waits for those of the other warps of its scheduler, which issues one a clock:
// mean value analysis of a closed queue whose customers spend the rest of the chain elsewhere (Reiser and Lavenberg 1980).
double StreamPass::wait_to_issue(double instructions, Duration chain) const {
  const double elsewhere = to_seconds(chain) / device_.seconds(instructions) - 1;
  double waiting = 0;
  for (double warps = 1, queue = 0; warps <= static_cast<double>(warps_) / static_cast<double>(kSchedulers); ++warps) {
    waiting = queue;
    queue = warps * (1 + waiting) / (elsewhere + 1 + waiting);
  }
  return waiting;
}

StepWork StreamPass::step(const BlockWork& work, double blocks) const {
  StepWork step;
  step.conversions = converted_ ? step_weights_ * work.rounds / kWeightsPerConversion : 0;
  const bool as_given = from_cache_ && !side_.after_up;
  // Of a step that its row does not fill one piece is multiplied after another.
  const double row_bytes = static_cast<double>(side_.k) * payload_bits(layer_.weights) / 8;
  const double left = std::fmod(row_bytes, static_cast<double>(kStepBytes));
  const double pieces = work.rounds * std::ceil(left / kPieceBytes) / block_steps_;
  const double other = (side_.after_up ? code_.down : code_.up) + code_.round * work.rounds +
                       (code_.set + (as_given ? code_.set_as_given : 0)) * work.sets + code_.piece * pieces;
  const double products = step_weights_ / kWeightsOfProduct;
  step.instructions = other + products * work.sets + step.conversions / device_.constant(Hw::kWarpSize);
  // Weights go in and come out once a round; inputs of different picks lie in the same banks: 16-bit ones of each pick, of
  // each two where a lane takes twice as many at once, pass one after another.
  const double weight_bytes = step_weights_ * payload_bits(layer_.weights) / 8;
  const double inputs = step_weights_ / static_cast<double>(kBlockRows) * kInputBits / 8;
  const double passes = !converted_ ? work.picks : as_given ? 4 * work.sets : (work.picks + 2 * work.sets) / 3;
  step.shared_bytes = weight_bytes * (1 + work.rounds) + inputs * static_cast<double>(kBlockRows) / 2 * passes;
  step.chain = device_.code(other) +
               device_.duration((3 + pieces) * device_.constant(Hw::kSharedLatency) +
                                work.rounds * (3 * device_.constant(Hw::kSharedLatency) +
                                               products / kSumsOfChain * device_.constant(Hw::kMatrixLatency)));
  step.chain += device_.duration(step.instructions * wait_to_issue(step.instructions, step.chain));
  if (from_cache_) {
    const double trips = std::ceil(step_weights_ / static_cast<double>(kBlockRows) / kInputsAtATime);
    step.chain += device_.cache_round_trips(work.rounds * trips);
  }
  const double batches = std::ceil(blocks / batch_), steps = blocks * block_steps_;
  const double chain = to_seconds(step.chain), sum = to_seconds(batch_sum(std::min(batch_, blocks)));
  step.together = duration_from_seconds(((batches - 1) * sum + batches * chain / 2) / steps);
  const double rounds = steps / batches / stages_;
  const double loads = device_.constant(Hw::kHbmLatency) + device_.constant(Hw::kAsyncCopyLatency);
  const double late = late_rounds(rounds) * (loads + chain * stages_ / static_cast<double>(warps_));
  step.stall = duration_from_seconds((batches - 1) * std::max(0.0, sum + late - loads) / steps * stages_);
  return step;
}

ItemClass StreamPass::item(std::int64_t blocks, const BlockWork& work) const {
  const auto count = static_cast<double>(blocks);
  const double block_bytes = side_.matrix.as_double() / static_cast<double>(divide_up(side_.n, kBlockRows));
  const StepWork of_step = step(work, count);
  const auto side_by_side = static_cast<double>(warps_);
  const auto pipe = [](PipeKind kind) { return static_cast<std::size_t>(kind); };
  ItemClass item;
  item.steps = blocks * std::llround(block_steps_);
  item.stages = stages_;
  item.read = Bytes(std::llround(block_bytes * count));
  item.first_share = std::min(1.0, work.first);
  item.write = Bytes(2 * blocks * kBlockRows);
  const double weights = count * static_cast<double>(kBlockRows * side_.k);
  item.useful_flops = 2 * work.picks * weights;
  item.issued_flops = 2 * static_cast<double>(kSetColumns) * work.sets * weights;
  item.pipe_seconds[pipe(PipeKind::kVector)] =
      std::max(device_.vector_seconds(0, of_step.conversions),
               device_.vector_seconds(of_step.instructions * device_.constant(Hw::kWarpSize), 0));
  item.pipe_seconds[pipe(PipeKind::kMatrix)] =
      device_.seconds(2 * step_weights_ * kSetColumns * work.sets /
                      (device_.constant(Hw::kMatrixBf16) * device_.constant(Hw::kMatrixSyncFraction)));
  if (from_cache_) item.resident_read = Bytes(std::llround(row_inputs() * work.picks * count));
  item.pipe_seconds[pipe(PipeKind::kLoadPort)] = std::max(
      device_.load_port_seconds((item.read + item.resident_read).as_double() / static_cast<double>(item.steps)),
      device_.seconds(of_step.shared_bytes / kSharedBytesPerClock));
  item.step_latency = duration_from_seconds(to_seconds(of_step.chain) / side_by_side) + of_step.together;
  item.step_sequence = of_step.together;
  const auto fitted = request_.constants.find(side_.name + ".inputs_ns");
  if (from_cache_ && fitted != request_.constants.end()) {
    const Duration asked = duration_from_seconds(fitted->second * work.sets * 1e-9);  // of the unit's own cache
    item.step_latency += asked;
    item.step_sequence += asked;
  }
  // A warp sends for the next step only after it has multiplied one: that place of its ring is empty meanwhile.
  item.load_latency = duration_from_seconds(device_.constant(Hw::kAsyncCopyLatency) +
                                            to_seconds(of_step.chain) * (1 - 1 / side_by_side)) +
                      of_step.stall;
  item.step_issue = device_.duration(static_cast<double>(kBlockRows * kStepBytes) /
                                     (side_by_side * device_.constant(Hw::kAsyncCopyPerWarp)));
  item.first_prologue = duration_from_seconds(device_.constant(Hw::kLaunchPrologue));
  // The groups of picks, their numbers; of inputs that are kept, what the first loads of all threads leave.
  const double kept = from_cache_ ? 0 : row_inputs() * side_.inputs;
  const double turns = kept / (kInputLoadBytes * static_cast<double>(launch().threads));
  const double more = std::max(0.0, std::ceil(turns) - kInputLoadsTogether);
  item.prologue_after = device_.cache_round_trips(2 + more) + device_.code(kStartCode);
  // All CTAs have come; then inputs that are kept, of all threads so many loads at a time.
  item.tile_prologue = device_.cache_round_trips(1 + std::ceil(turns / kInputLoadsTogether)) +
                       duration_from_seconds(device_.load_port_seconds(kept));
  item.ahead = item.stages;
  // Handed over: the results have left, a count has gone up, and another CTA sees it.
  item.epilogue = batch_sum(std::min(batch_, count)) + device_.cache_round_trips(side_.hands_over ? 3 : 1);
  load_more(item, late_steps(blocks) - side_.run_on);
  if (side_.combined > 0) {
    if (side_.outputs_bytes > kOutputsBytes) {  // they lie in the cache
      const double each = std::ceil(side_.outputs_combined / static_cast<double>(launch().threads));
      item.epilogue += device_.cache_round_trips(each * std::ceil(side_.combined / kCombinedAtATime));
    }
    item.epilogue +=
        device_.code(kCombineCode) +
        device_.duration(device_.constant(Hw::kBarrier) + side_.combined * device_.constant(Hw::kSharedLatency));
  }
  return item;
}

Kernel StreamPass::kernel(Chain& chain, const CtaClasses& classes) const {
  Kernel kernel;
  kernel.name = kernel.stage = side_.stage;
  kernel.joined = side_.joined;
  if (side_.hands_over) kernel.schedule = {Schedule::Kind::kPersistent, 1, {}};  // the ring runs on while results leave
  for (const auto& [key, cta_class] : classes) {
    const BlockWork work = BlockWork{}.add(cta_class.work, 1 / static_cast<double>(cta_class.ctas));
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(kernel.classes.size());
    group.count = cta_class.ctas;
    kernel.classes.push_back(item(key.first, work));
    // Each class streams rows of its own: a region of its own.
    const double bytes = kernel.classes.back().read.as_double() * static_cast<double>(cta_class.ctas);
    group.region = chain.region(side_.name, Bytes(std::llround(bytes * work.first)));
    kernel.groups.push_back(group);
  }
  return kernel;
}

// Warps walk apart round by round, and a CTA ends with its last. In a launch of its own others take the bandwidth that those
// before it leave; here the other side's loads do.
double StreamPass::late_steps(std::int64_t blocks) const {
  if (!side_.hands_over) return 0;
  const double rounds = static_cast<double>(blocks) * block_steps_ / stages_;
  return stages_ * std::min(1.0, late_rounds(std::max(0.0, rounds - 1)));
}

double StreamPass::late_rounds(double rounds) const {
  const HardwareModel& hardware = device_.hardware();
  return hardware.has(Hw::kHbmRoundSpread) ? kLastWarp * hardware[Hw::kHbmRoundSpread] * std::sqrt(rounds) : 0;
}

double StreamPass::run_on(const CtaClasses& classes) const {
  double steps = 0, ctas = 0;
  for (const auto& [key, cta_class] : classes) {
    steps += static_cast<double>(cta_class.ctas) * late_steps(key.first);
    ctas += static_cast<double>(cta_class.ctas);
  }
  return steps / ctas;
}

// > 0: of the other side; < 0: the other side has loaded so many of this one's.
void StreamPass::load_more(ItemClass& item, double steps) const {
  if (steps == 0) return;
  const auto own = static_cast<double>(item.steps);
  const double loads = std::max(0.0, own + steps), step_bytes = item.read.as_double() / own;
  item.read = Bytes(std::llround(loads * step_bytes));
  if (steps > 0) {
    item.steps = std::llround(loads);
  } else {  // as many in flight of fewer
    item.ahead = loads > 0 ? std::max(0.0, stages_ + steps) * own / loads : 0;
    item.stages = loads > 0 ? stages_ * own / loads : own;
  }
}

// Returns the steps that it loads of the side after it.
double add_pass(Chain& chain, const LowerRequest& request, const Side& side, const CtaClasses& classes,
                LabelOrder order) {
  const StreamPass pass(request, side);
  Kernel kernel = pass.kernel(chain, classes);
  label_experts(kernel, request.layer, order);
  chain.add(std::move(kernel), pass.launch());
  return pass.run_on(classes);
}

}  // namespace

Lowered lower_persistent_stream(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const std::int64_t units = std::llround(request.hardware[Hw::kUnitCount]);
  Chain chain(request);
  const bool fused = parameter(request, "down.fused", 1) != 0;
  add_before_experts(chain, request, true, 1);
  if (layer.picks > 0) {
    const std::int64_t most_rows = *std::max_element(layer.rows.begin(), layer.rows.end());
    const std::int64_t most = most_rows > kFewPassPicks ? kPassPicks : kFewPassPicks;  // of a pass
    const Passes all = all_passes(layer, most);
    const std::int64_t up_blocks = divide_up(layer.up_width(), kBlockRows);
    const std::int64_t down_blocks = divide_up(layer.expert_hidden(), kBlockRows);
    const bool interleaved = parameter(request, "up.interleaved", 1) != 0;
    const auto tokens = static_cast<double>(layer.tokens), picks = static_cast<double>(layer.picks);
    Side up{"up", "gemm1", layer.up_width(), layer.expert_hidden(), layer.up_bytes(), tokens};
    up.outputs = static_cast<double>(kBlockRows) / (layer.gated ? 2 : 1);
    up.passes = all.count;
    up.widest = std::min(most, most_rows);
    const double most_steps =
        std::max(steps_of_row(layer, layer.expert_hidden()), steps_of_row(layer, layer.intermediate));
    up.least_sums_bytes = std::max(
        kLeastSumsBytes, most_steps * static_cast<double>(up.widest * kBlockRows) * static_cast<double>(sizeof(float)));
    Side down{"down", "gemm2", layer.expert_hidden(), layer.intermediate, layer.down_bytes(), picks};
    down.after_up = true;
    down.outputs = static_cast<double>(kBlockRows);
    down.passes = up.passes, down.widest = up.widest, down.least_sums_bytes = up.least_sums_bytes;
    up.hands_over = down.joined = parameter(request, "one_launch", 0) != 0 && request.stage.empty();
    if (fused) {
      const auto rows_of_cta = static_cast<double>(divide_up(down_blocks, units) * kBlockRows);
      down.outputs_bytes = picks * rows_of_cta * sizeof(float);
      down.combined = picks / tokens;
      down.outputs_combined = rows_of_cta * tokens;
    }
    down.run_on = add_pass(chain, request, up,
                           interleaved ? dealt_blocks(up_blocks * all.count, 1, all.work, units)
                                       : runs_of_blocks(layer, most, up_blocks, units),
                           interleaved ? LabelOrder::kEachInTurn : LabelOrder::kInterleaved);
    add_pass(chain, request, down, dealt_blocks(down_blocks, all.count, all.work, units), LabelOrder::kEachInTurn);
  }
  if (!fused) add_combine(chain, request);
  add_after_experts(chain, request);
  return chain.seal();
}

}  // namespace moesim
