#include "validation/micro_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "hwmodels/build_machine.h"
#include "sim/io/input_error.h"
#include "sim/units/integer.h"
#include "workloads/strategies/blocks.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr std::int64_t kWarp = 32;          // threads, in the harnesses
constexpr std::int64_t kThreads = 128;      // of a CTA, where a row does not say
constexpr std::int64_t kReadBlock = 16384;  // bytes of a CTA that reads once: 8 loads of 16 bytes a thread
constexpr std::int64_t kLoadBytes = 16;     // of one load of a thread
constexpr std::int64_t kLoadsTogether = 4;  // of a thread in a loop: what the compiled code issues before it waits
constexpr std::int64_t kRingStages = 4;
constexpr std::int64_t kReadRegisters = 38;  // of the reading kernels, as compiled; with up to four loads a thread:
constexpr std::int64_t kFewRegisters = 30;
// The CUDA harness's kernels are a few hundred bytes of code: to their first load, and no cost of being on all units.
constexpr double kCudaStart = 250e-9;
constexpr double kBulkLatency = 90e-9;  // what a bulk copy takes beyond a plain load
constexpr std::int64_t kHops = 1000;    // of a pointer chase, where a row does not say

constexpr std::size_t index(PipeKind pipe) { return static_cast<std::size_t>(pipe); }

// The row, the device, and what most benchmarks state.
struct Bench {
  const MicroMeasurement& row;
  const HardwareModel& hardware;
  Device device;

  // Bounds of sense: beyond them a row is a slip, and no product of two overflows.
  [[nodiscard]] std::int64_t ctas() const { return row.whole("ctas", std::int64_t{1} << 24); }
  [[nodiscard]] std::int64_t bytes(const char* name) const { return row.whole(name, std::int64_t{1} << 44); }
  [[nodiscard]] std::int64_t small(const char* name) const { return row.whole(name, std::int64_t{1} << 20); }
  // The CUDA harness states threads; the Triton set does not.
  [[nodiscard]] std::int64_t threads() const { return row.has("threads") ? small("threads") : kThreads; }
  [[nodiscard]] std::int64_t warps() const { return divide_up(threads(), kWarp); }
  [[nodiscard]] bool cuda() const {
    const auto source = row.texts.find("source");
    return source != row.texts.end() && source->second.find("cuda harness") != std::string::npos;
  }
  [[nodiscard]] Duration start() const {
    return duration_from_seconds(cuda() ? kCudaStart : device.constant(Hw::kLaunchPrologue));
  }

  [[nodiscard]] MicroKernel kernel(ItemClass item, std::int64_t ctas, const LaunchShape& shape) const {
    MicroKernel micro;
    micro.spread = !cuda();
    micro.kernel.name = micro.kernel.stage = row.benchmark;
    micro.kernel.footprint = footprint(hardware, shape);
    ItemGroup group;
    group.count = ctas;
    micro.read = Bytes(std::llround(item.read.as_double() * item.first_share * static_cast<double>(ctas)));
    micro.written = item.write * ctas;
    micro.kernel.classes = {std::move(item)};
    micro.kernel.groups = {group};
    return micro;
  }
};

// `bytes` of an item in `steps` rounds of plain loads; a warp issues its loads one after another and waits for the
// slowest.
ItemClass plain_reads(const Bench& bench, std::int64_t bytes, std::int64_t steps, bool warm,
                      std::int64_t rounds_of_block = 1) {
  ItemClass item;
  item.steps = steps;
  item.read = Bytes(bytes);
  const double of_step = static_cast<double>(bytes) / static_cast<double>(steps);
  const double of_warp = of_step / static_cast<double>(bench.warps());
  item.step_issue = bench.device.duration(of_warp / bench.device.constant(Hw::kAsyncCopyPerWarp));
  if (!warm) {
    // In code of several rounds a warp waits for its loads one by one: the next leave before the slowest has come.
    const double share = rounds_of_block > 1 ? 0.5 : 1;
    item.load_latency = duration_from_seconds(share * to_seconds(Device::latency_spread(of_warp / kLineBytes)));
  }
  item.pipe_seconds[index(PipeKind::kLoadPort)] = bench.device.load_port_seconds(of_step);
  item.first_prologue = bench.start();
  return item;
}

LoweredMicro graph_node(const Bench& bench) { return bench.kernel({}, bench.ctas(), {bench.threads(), 4, 0}); }

LoweredMicro stream_launch(const Bench& bench) {
  MicroKernel micro = std::get<MicroKernel>(graph_node(bench));
  micro.launch = LaunchMode::kStream;
  return micro;
}

LoweredMicro programmatic_launch(const Bench& bench) {
  if (bench.row.text("launch") != "graph") return LeftOut{"programmatic launch in a stream is not a launch mode"};
  MicroKernel micro = std::get<MicroKernel>(graph_node(bench));
  micro.launch = LaunchMode::kProgrammatic;
  return micro;
}

LoweredMicro read_size(const Bench& bench) {
  const std::int64_t bytes = bench.bytes("bytes"), ctas = bench.ctas();
  const bool warm = bench.row.benchmark == "repeat_read_size";
  const double share = static_cast<double>(bytes) / bench.device.constant(Hw::kLlcCapacity);
  if (warm && share > 0.6 && share < 1.2) return LeftOut{"0.6 to 1.2 times the cache"};
  MicroKernel micro =
      bench.kernel(plain_reads(bench, bytes / ctas, 1, warm), ctas, {bench.threads(), kReadRegisters, 0});
  micro.warm = warm;
  return micro;
}

// A CTA reads block after block; the loads of a block are in flight together as far as the code goes.
LoweredMicro batches(const Bench& bench, std::int64_t ctas, std::int64_t block, bool warm) {
  const std::int64_t bytes = bench.bytes("bytes") / ctas;
  const std::int64_t loads = block / kLoadBytes / bench.threads();
  const std::int64_t rounds = std::max<std::int64_t>(1, divide_up(loads, kLoadsTogether));
  return bench.kernel(plain_reads(bench, bytes, bytes / block * rounds, warm, rounds), ctas,
                      {bench.threads(), rounds > 1 ? kReadRegisters : kFewRegisters, 0});
}

// A ring of stages in on-chip memory, filled by asynchronous or bulk copies.
LoweredMicro ring(const Bench& bench, std::int64_t ctas, std::int64_t block, bool bulk,
                  std::int64_t stages = kRingStages) {
  const std::int64_t bytes = bench.bytes("bytes") / ctas;
  const std::int64_t stage = std::max<std::int64_t>(1, block / stages);
  ItemClass item;
  item.steps = bytes / stage;
  item.stages = static_cast<double>(stages);
  item.read = Bytes(bytes);
  const double port = bench.device.load_port_seconds(static_cast<double>(stage));
  item.pipe_seconds[index(PipeKind::kLoadPort)] = port;
  // A stage waits at the unit's port behind half of what its ring has asked for; asynchronous copies are spaced by their
  // issue and wait behind the other stages only.
  const double before = static_cast<double>(bulk ? stages : stages - 1);
  item.load_latency =
      duration_from_seconds((bulk ? kBulkLatency : bench.device.constant(Hw::kAsyncCopyLatency)) + before * port / 2);
  if (!bulk) {
    item.step_issue =
        bench.device.duration(static_cast<double>(stage) /
                              (static_cast<double>(bench.warps()) * bench.device.constant(Hw::kAsyncCopyPerWarp)));
  }
  item.first_prologue = bench.start();
  return bench.kernel(item, ctas, {bench.threads(), 32, block});
}

LoweredMicro reads_of_blocks(const Bench& bench, bool warm) {
  const std::int64_t ctas = bench.ctas(), block = bench.bytes("block_bytes");
  const auto load = bench.row.texts.find("load");
  if (load == bench.row.texts.end()) {
    if (block >= 16384) return LeftOut{"a block of 16 KiB and more was several loads in flight only in part"};
    return batches(bench, ctas, block, warm);
  }
  if (load->second == "plain") return batches(bench, ctas, block, warm);
  return ring(bench, ctas, block, load->second == "bulk");
}

LoweredMicro read_inflight(const Bench& bench) { return reads_of_blocks(bench, false); }

// Bulk copies of what stays in the cache, `stages` of them in flight of a CTA.
LoweredMicro warm_inflight(const Bench& bench) {
  const std::int64_t stages = bench.small("stages"), stage = bench.bytes("block_bytes") / stages;
  ItemClass item;
  item.resident_read = Bytes(bench.bytes("bytes") / bench.ctas());
  item.steps = item.resident_read.value() / stage;
  item.stages = static_cast<double>(stages);
  const double port = bench.device.load_port_seconds(static_cast<double>(stage));
  item.pipe_seconds[index(PipeKind::kLoadPort)] = port;
  item.load_latency = duration_from_seconds(port / 2);  // a stage waits for its last byte
  item.first_prologue = bench.start();
  return bench.kernel(item, bench.ctas(), {bench.threads(), 32, bench.bytes("block_bytes")});
}

// The same of neighbours, or of CTAs far apart, that read the same lines.
LoweredMicro shared_read(const Bench& bench) {
  MicroKernel micro = std::get<MicroKernel>(warm_inflight(bench));
  micro.kernel.classes[0].resident_port_weight =
      1 / bench.device.sharers(bench.small("sharers"), bench.small("stride"));
  return micro;
}

LoweredMicro port_ends(const Bench& bench) {
  LoweredMicro lowered = ring(bench, bench.ctas(), bench.bytes("block_bytes"), true, bench.small("stages"));
  std::get<MicroKernel>(lowered).launched = false;
  return lowered;
}

LoweredMicro one_sm_read(const Bench& bench) {
  const bool warm = bench.row.text("state") == "warm";
  LoweredMicro lowered = reads_of_blocks(bench, warm);
  if (auto* const micro = std::get_if<MicroKernel>(&lowered)) micro->warm = warm;
  return lowered;
}

LoweredMicro same_read(const Bench& bench) {
  const std::int64_t bytes = bench.bytes("bytes"), ctas = bench.ctas();
  const std::int64_t rounds = bench.cuda() ? 2 : 1;
  ItemClass item = plain_reads(bench, bytes, std::max<std::int64_t>(1, bytes / kReadBlock) * rounds, true);
  item.first_share = 1 / static_cast<double>(ctas);
  item.read_port_weight = 1 / bench.device.sharers(ctas);
  MicroKernel micro = bench.kernel(std::move(item), ctas, {bench.threads(), kReadRegisters, 0});
  micro.warm = true;
  return micro;
}

LoweredMicro pointer_chase(const Bench& bench) {
  const std::int64_t bytes = bench.bytes("bytes");
  if (bytes <= 262144) return LeftOut{"caches of a unit are not modelled"};
  ItemClass item;
  item.steps = bench.row.has("hops") ? bench.small("hops") : kHops;
  item.read = Bytes(item.steps * static_cast<std::int64_t>(kLineBytes));
  MicroKernel micro = bench.kernel(std::move(item), 1, {32, 22, 0});
  micro.parts = micro.kernel.classes[0].steps;
  const double useful = bench.device.useful_cache_bytes();
  micro.warm = static_cast<double>(bytes) <= useful;
  return micro;
}

LoweredMicro mixed(const Bench& bench) {
  const std::int64_t bytes = bench.bytes("read_bytes");
  ItemClass item = plain_reads(bench, kReadBlock, 1, false);
  item.write = Bytes(kReadBlock / bench.small("write_every"));
  return bench.kernel(std::move(item), bytes / kReadBlock, {bench.threads(), 32, 0});
}

LoweredMicro fill(const Bench& bench) {
  ItemClass item;
  item.write = Bytes(kReadBlock);
  item.first_prologue = bench.start();
  return bench.kernel(std::move(item), bench.bytes("write_bytes") / kReadBlock, {bench.threads(), 26, 0});
}

// A thread sums `parts` vectors: the first, then sixteens, eights and fours together, then one by one, as compiled.
LoweredMicro splitk_reduce(const Bench& bench) {
  const std::int64_t ctas = bench.ctas(), bytes = bench.bytes("bytes") / ctas;
  const std::int64_t rest = bench.small("parts") - 1;
  const std::int64_t rounds = 1 + rest / 16 + rest % 16 / 8 + rest % 8 / 4 + rest % 4;
  ItemClass item = plain_reads(bench, bytes, rounds, true);
  item.write = Bytes(kThreads * kLoadBytes);
  MicroKernel micro = bench.kernel(std::move(item), ctas, {bench.threads(), 32, 0});
  micro.warm = true;
  return micro;
}

// --- the unit's pipes ---

double matrix_rate(const Bench& bench) {
  return bench.device.constant(bench.row.text("dtype") == "bf16" ? Hw::kMatrixBf16 : Hw::kMatrixFp8);
}

// A warp's chains; a warp alone on its quarter of the unit does not keep the pipe busy.
LoweredMicro mma(const Bench& bench) {
  constexpr double kWarpInterval = 6.8;  // clocks between two instructions of a warp (H200: 6.4 e4m3, 7 bf16)
  constexpr double kFp8Share = 0.8;      // of the peak that e4m3 reaches (H200); matrix.sync_fraction is that of bf16
  const bool bf16 = bench.row.text("dtype") == "bf16";
  if (!bf16 && bench.row.benchmark == "mma_latency") return LeftOut{"matrix.latency is that of bf16"};
  const std::int64_t warps = bench.small("warps"), chains = bench.small("chains");
  const double flops =
      2.0 * static_cast<double>(bench.small("m") * bench.small("n")) * static_cast<double>(bench.small("k"));
  const double share = bf16 ? bench.device.constant(Hw::kMatrixSyncFraction) : kFp8Share;
  const Device device = bench.device.multiplying();
  ItemClass item;
  item.steps = bench.small("instructions") / chains;
  item.step_latency =
      device.duration(std::max(device.constant(Hw::kMatrixLatency), kWarpInterval * static_cast<double>(chains)));
  item.pipe_seconds[index(PipeKind::kMatrix)] =
      device.seconds(flops * static_cast<double>(chains * warps) / (matrix_rate(bench) * share));
  item.first_prologue = bench.start();
  return bench.kernel(item, bench.ctas(), {warps * kWarp, 64, 0});
}

// Both operands come from on-chip memory; the instructions between two waits overlap, and a warpgroup that waits leaves
// the pipe to the other.
LoweredMicro wgmma(const Bench& bench) {
  constexpr std::int64_t kBetweenWaits = 8;
  const std::int64_t groups = bench.small("warpgroups");
  const auto m = static_cast<double>(bench.small("m")), n = static_cast<double>(bench.small("n"));
  const auto k = static_cast<double>(bench.small("k"));
  const double element = bench.row.text("dtype") == "bf16" ? 2 : 1;
  const double operands = (m + n) * k * element / kSharedBytesPerClock;
  const double cycles = kBetweenWaits * std::max(2 * m * n * k / matrix_rate(bench), operands) / kAsyncProductShare;
  const Device device = bench.device.multiplying();
  ItemClass item;
  item.steps = bench.small("instructions") / kBetweenWaits;
  item.step_latency = device.duration(cycles + kAsyncProductLatency);
  item.pipe_seconds[index(PipeKind::kMatrix)] = device.seconds(cycles * static_cast<double>(groups));
  item.first_prologue = bench.start();
  return bench.kernel(item, bench.ctas(), {groups * 128, 90, 65536});
}

LoweredMicro convert(const Bench& bench) {
  const std::string& what = bench.row.text("what");
  const auto values = static_cast<double>(bench.small("values_per_operation"));
  // Pairs of e4m3 become pairs of f16 in one instruction; what e4m3 to f32 takes is the strategies' own figure.
  const std::map<std::string, DequantWork> work = {{"e4m3_to_f16", {0.5, 0}},
                                                   {"f16_to_f32", {1, 0}},
                                                   {"bf16_to_f32", {1, 0}},
                                                   {"e4m3_to_f32", dequant_to_float({Dtype::kFp8, 0})}};
  const auto known = work.find(what);
  if (known == work.end()) return LeftOut{"integer arithmetic, not a conversion"};
  const std::int64_t warps = bench.small("warps");
  ItemClass item;
  item.steps = bench.small("operations");
  item.pipe_seconds[index(PipeKind::kVector)] =
      values * static_cast<double>(warps * kWarp) *
      bench.device.vector_seconds(known->second.multiply_adds, known->second.conversions);
  item.first_prologue = bench.start();
  return bench.kernel(item, bench.ctas(), {warps * kWarp, 32, 0});
}

// `rounds` dependent steps of `cycles` each.
MicroKernel chain(const Bench& bench, std::int64_t rounds, double cycles, std::int64_t ctas, std::int64_t threads) {
  ItemClass item;
  item.steps = rounds;
  item.step_latency = bench.device.duration(cycles);
  item.first_prologue = bench.start();
  return bench.kernel(item, ctas, {threads, 32, 0});
}

LoweredMicro barrier(const Bench& bench) {
  if (bench.threads() != kThreads) return LeftOut{"matrix.barrier is that of 128 threads"};
  return chain(bench, bench.small("rounds"), bench.device.constant(Hw::kBarrier), bench.ctas(), kThreads);
}

LoweredMicro shared_latency(const Bench& bench) {
  return chain(bench, bench.small("hops"), bench.device.constant(Hw::kSharedLatency), 1, 32);
}

// Tiles of a grouped product, one row each, as Triton compiles them.
LoweredMicro tiles(const Bench& bench, std::int64_t ctas) {
  TileShape tile;
  tile.block_n = bench.small("block_n");
  tile.block_k = bench.small("block_k");
  tile.buffers = bench.small("stages") - 1;
  tile.triton = true;
  if (tile.buffers < 1) return LeftOut{"fewer than two stages"};
  const WeightFormat bf16{Dtype::kBf16};
  const Product product{"tiles", "gemm1", ctas * tile.block_n, bench.small("k"), bf16, bf16};
  const LaunchShape shape{tile.warps * kWarp, triton_registers(bench.device, product, tile),
                          tile_shared_bytes(tile, bf16, bf16)};
  ItemClass item = tile_item(bench.device, product, tile, issued_rows(bench.device, product, tile, 1), 1);
  // They are timed from a CTA's first lines to its last, whose results may still be on their way.
  item.first_prologue -= bench.start() + bench.device.cache_round_trips(1);
  MicroKernel micro = bench.kernel(std::move(item), ctas, shape);
  micro.launched = false;
  return micro;
}

// So many CTAs on each of some units, which look nothing up (harness/torch/unit_shares.py).
LoweredMicro tile_shares(const Bench& bench) {
  const std::int64_t units = bench.small("units");
  if (units > static_cast<std::int64_t>(bench.device.units())) return LeftOut{"more units than the device has"};
  LoweredMicro lowered = tiles(bench, units * bench.small("ctas"));
  if (auto* const micro = std::get_if<MicroKernel>(&lowered)) {
    micro->kernel.classes[0].prologue_after -= bench.device.cache_round_trips(2);
    micro->units = units;
  }
  return lowered;
}

// As many as all groups have (harness/torch/tile_waves.py).
LoweredMicro tile_waves(const Bench& bench) { return tiles(bench, bench.small("ctas")); }

// CTAs that do nothing for so many clocks, timed from the first one's start to the last one's end.
LoweredMicro cta_turnaround(const Bench& bench) {
  ItemClass item;
  item.steps = 1;
  item.step_latency = bench.device.duration(static_cast<double>(bench.small("cta_clocks")));
  MicroKernel micro =
      bench.kernel(std::move(item), bench.ctas(),
                   {bench.threads(), kFewRegisters, bench.row.whole("shared_bytes", std::int64_t{1} << 20)});
  micro.launched = false;
  return micro;
}

using Lower = std::function<LoweredMicro(const Bench&)>;

const std::map<std::string, Lower>& benchmarks() {
  const auto because = [](const char* reason) {
    return [reason](const Bench&) -> LoweredMicro { return LeftOut{reason}; };
  };
  static const std::map<std::string, Lower> table = {
      {"graph_node", graph_node},
      {"graph_node_threads", graph_node},
      {"stream_launch", stream_launch},
      {"programmatic_launch", programmatic_launch},
      {"cold_read_size", read_size},
      {"repeat_read_size", read_size},
      {"cold_read_inflight", read_inflight},
      {"one_sm_read", one_sm_read},
      {"warm_read_inflight", warm_inflight},
      {"same_read", same_read},
      {"pointer_chase", pointer_chase},
      {"mixed", mixed},
      {"fill", fill},
      {"splitk_reduce", splitk_reduce},
      {"mma_rate", mma},
      {"mma_latency", mma},
      {"wgmma_rate", wgmma},
      {"convert", convert},
      {"barrier", barrier},
      {"shared_latency", shared_latency},
      {"cta_turnaround", cta_turnaround},
      {"tile_shares", tile_shares},
      {"tile_waves", tile_waves},
      {"shared_read", shared_read},
      {"port_ends", port_ends},
      {"group_ends", port_ends},
      {"atomic_latency", because("atomics are not modelled")},
      {"eager_launch", because("the host's time is not part of a plan")},
      {"mm_bf16", because("a library's choice of kernel is not modelled")},
      {"box_read", because("what rows beyond a tensor's end take is a constant of grouped_gemm_persistent")},
      {"library_choice", because("a library's choice, from which expert_loop's rule was taken")},
      {"sustained_mm", because("power is not modelled")},
      {"sustained_read", because("power is not modelled")},
  };
  return table;
}

}  // namespace

LoweredMicro lower_micro(const MicroMeasurement& row, const HardwareModel& hardware) {
  const auto found = benchmarks().find(row.benchmark);
  if (found == benchmarks().end()) return LeftOut{fmt::format("no lowering of benchmark '{}'", row.benchmark)};
  if (hardware.grid == Grid::kSequential) {
    return LeftOut{fmt::format("{} is a benchmark of parallel grids", row.benchmark)};
  }
  const double clock = row.sm_mhz ? *row.sm_mhz * 1e6 : hardware[Hw::kClockBoost];
  LoweredMicro lowered = found->second({row, hardware, Device(hardware, clock)});
  if (const auto* const micro = std::get_if<MicroKernel>(&lowered)) {
    const Kernel& kernel = micro->kernel;
    const bool fits = items_per_unit(build_machine(hardware), kernel.footprint) > 0;
    if (!fits || kernel.classes[0].steps < 1 || kernel.groups[0].count < 1) {
      throw InputError({row.place, "", fits ? "less than a block for each CTA" : "CTAs that do not fit a unit",
                        fmt::format("a {} that could run", row.benchmark), ""});
    }
  }
  return lowered;
}

}  // namespace moesim
