#include "hwmodels/schema.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

using enum Dimension;
constexpr bool kWhole = true;
constexpr bool kReal = false;

// Of devices with a parallel grid, a sequential one, or both.
struct Kinds {
  Presence parallel, sequential;
};
constexpr Kinds kBoth = {Presence::kRequired, Presence::kRequired};
constexpr Kinds kBothMay = {Presence::kOptional, Presence::kOptional};
constexpr Kinds kParallel = {Presence::kRequired, Presence::kUnknown};
constexpr Kinds kParallelMay = {Presence::kOptional, Presence::kUnknown};
constexpr Kinds kParallelTogether = {Presence::kWithGroup, Presence::kUnknown};
constexpr Kinds kSequential = {Presence::kUnknown, Presence::kRequired};
constexpr Kinds kSequentialMay = {Presence::kUnknown, Presence::kOptional};

constexpr HwEntry entry(Hw id, const char* path, Dimension dimension, double min, double max, bool whole, Kinds kinds,
                        const char* meaning) {
  return {id, path, dimension, min, max, whole, kinds.parallel, kinds.sequential, meaning};
}

// Ranges only keep out what no device can be: a wrong unit or a slipped decimal point. Times of launches may be zero,
// so that --set can ask what a device without that cost would do.
constexpr std::array<HwEntry, kHwCount> kHwTable = {{
    entry(Hw::kUnitCount, "unit.count", kDimensionless, 1, 4096, kWhole, kBoth, "SMs, CUs or cores of the device"),
    entry(Hw::kUnitLoadPort, "unit.load_port", kBytesPerCycle, 1, 4096, kReal, kParallel,
          "bytes a clock that one unit can take from the last-level cache"),
    entry(Hw::kClockBoost, "clock.boost", kFrequency, 1e8, 1e10, kReal, kBoth, "clock of decode-size work"),
    entry(Hw::kClockSustained, "clock.sustained", kFrequency, 1e8, 1e10, kReal, kBoth,
          "clock under long matrix-heavy load at the power cap"),
    entry(Hw::kClockMatrix, "clock.matrix", kFrequency, 1e8, 1e10, kReal, kParallelMay,
          "highest clock of a unit while matrix instructions run"),
    entry(Hw::kHbmCapacity, "hbm.capacity", kBytes, 1e8, 1e14, kWhole, kBoth, "device memory"),
    entry(Hw::kHbmBandwidth, "hbm.bandwidth", kBandwidth, 1e10, 1e15, kReal, kBoth, "datasheet peak of device memory"),
    entry(Hw::kHbmReadFraction, "hbm.read_fraction", kDimensionless, 0.1, 1, kReal, kBoth,
          "highest achieved read rate / datasheet peak"),
    entry(Hw::kHbmLatency, "hbm.latency", kTime, 1e-9, 1e-4, kReal, kBoth,
          "unloaded memory latency: a pointer chase, or a copy's round trip where the grid is sequential"),
    entry(Hw::kHbmKnee, "hbm.knee", kDimensionless, 1, 64, kReal, kBoth, "exponent p of the memory's soft knee"),
    entry(Hw::kHbmWriteWeight, "hbm.write_weight", kDimensionless, 1, 10, kReal, kBoth,
          "what a written byte costs beside as many reads, in read bytes"),
    entry(Hw::kHbmRoundSpread, "hbm.round_spread", kDimensionless, 0, 1, kReal, kParallelMay,
          "standard deviation of the time of a round of loads, all that an item keeps in flight, beside its mean"),
    entry(Hw::kLlcCapacity, "llc.capacity", kBytes, 1e5, 1e11, kWhole, kParallel, "last-level cache, nominal"),
    entry(Hw::kLlcUsefulFraction, "llc.useful_fraction", kDimensionless, 0.01, 1, kReal, kParallel,
          "share of the last-level cache that repeated reads can use"),
    entry(Hw::kLlcBandwidth, "llc.bandwidth", kBandwidth, 1e10, 1e15, kReal, kParallel,
          "highest achieved whole-chip read rate of the last-level cache"),
    entry(Hw::kLlcLatency, "llc.latency", kTime, 1e-9, 1e-4, kReal, kParallel,
          "unloaded last-level cache latency, mean over near and far"),
    entry(Hw::kLlcKnee, "llc.knee", kDimensionless, 1, 64, kReal, kParallel,
          "exponent p of the last-level cache's soft knee"),
    entry(Hw::kLlcFillWeight, "llc.fill_weight", kDimensionless, 0, 4, kReal, kParallel,
          "what filling a missed byte costs the cache beside reading it, in read bytes"),
    entry(Hw::kMaxThreads, "occupancy.threads", kDimensionless, 1, 65536, kWhole, kParallel,
          "resident threads per unit"),
    entry(Hw::kMaxItems, "occupancy.ctas", kDimensionless, 1, 4096, kWhole, kParallel, "resident CTAs per unit"),
    entry(Hw::kRegisters, "occupancy.registers", kDimensionless, 1, 1e7, kWhole, kParallel,
          "32-bit registers per unit"),
    entry(Hw::kRegisterGranule, "occupancy.register_granule", kDimensionless, 1, 65536, kWhole, kParallel,
          "registers that a warp is given at a time"),
    entry(Hw::kMaxRegistersPerThread, "occupancy.registers_per_thread", kDimensionless, 1, 4096, kWhole, kParallel,
          "most registers of one thread"),
    entry(Hw::kWarpSize, "occupancy.warp_size", kDimensionless, 1, 1024, kWhole, kParallel,
          "threads of a warp or wave"),
    entry(Hw::kSharedBytes, "occupancy.shared", kBytes, 1024, 1e9, kWhole, kParallel, "on-chip bytes per unit"),
    entry(Hw::kSharedReserved, "occupancy.shared_reserved", kBytes, 0, 1e6, kWhole, kParallel,
          "on-chip bytes that the system takes per CTA"),
    entry(Hw::kSharedMaxPerItem, "occupancy.shared_per_cta", kBytes, 1024, 1e9, kWhole, kParallel,
          "most on-chip bytes of one CTA"),
    entry(Hw::kVectorFma, "vector.fma", kDimensionless, 1, 65536, kReal, kBoth,
          "float32 multiply-adds a clock and unit"),
    entry(Hw::kVectorConvert, "vector.convert", kDimensionless, 1, 65536, kReal, kBoth,
          "8/16-bit <-> 32-bit conversions a clock and unit"),
    entry(Hw::kMatrixBf16, "matrix.bf16", kFlopsPerCycle, 1, 1e7, kReal, kBoth, "dense bf16 FLOP a clock and unit"),
    entry(Hw::kMatrixFp8, "matrix.fp8", kFlopsPerCycle, 1, 1e7, kReal, kBothMay,
          "dense fp8 FLOP a clock and unit; absent: no such products"),
    entry(Hw::kMatrixInt8, "matrix.int8", kFlopsPerCycle, 1, 1e7, kReal, kBothMay,
          "dense int8 operations a clock and unit; absent: no such products"),
    entry(Hw::kMatrixFp4, "matrix.fp4", kFlopsPerCycle, 1, 1e7, kReal, kBothMay,
          "dense fp4 FLOP a clock and unit; absent: no such products"),
    entry(Hw::kMatrixSyncFraction, "matrix.sync_fraction", kDimensionless, 0.01, 1, kReal, kParallel,
          "share of the matrix peak that synchronous warp-level MMA reaches"),
    entry(Hw::kMatrixAsyncRows, "matrix.async_rows", kDimensionless, 1, 4096, kWhole, kParallel,
          "rows that one asynchronous MMA works on: wgmma 64, tcgen05 128, none 16"),
    entry(Hw::kMatrixLatency, "matrix.latency", kCycles, 1, 10000, kReal, kParallel,
          "one dependent warp-level MMA step (k = 32 bytes)"),
    entry(Hw::kSharedLatency, "matrix.shared_latency", kCycles, 1, 10000, kReal, kParallel, "on-chip memory load"),
    entry(Hw::kBarrier, "matrix.barrier", kCycles, 0, 10000, kReal, kParallel, "CTA-wide barrier"),
    entry(Hw::kAsyncCopyPerWarp, "unit.async_copy_per_warp", kBytesPerCycle, 0.01, 4096, kReal, kParallel,
          "bytes a clock that one warp can issue as asynchronous copies"),
    entry(Hw::kAsyncCopyLatency, "unit.async_copy_latency", kTime, 0, 1e-4, kReal, kParallel,
          "what an asynchronous copy and its wait take beyond a plain load"),
    entry(Hw::kLaunchStream, "launch.stream", kTime, 0, 1e-3, kReal, kParallel,
          "edge between dependent kernels in a stream"),
    entry(Hw::kLaunchGraph, "launch.graph", kTime, 0, 1e-3, kReal, kParallel, "edge of a graph, kernel of one CTA"),
    entry(Hw::kLaunchSpread, "launch.spread", kTime, 0, 1e-3, kReal, kParallel,
          "extra once the grid covers all units; below by the logarithm"),
    entry(Hw::kLaunchProgrammatic, "launch.programmatic", kTime, 0, 1e-3, kReal, kParallel,
          "what remains of the edge with programmatic dependent launch"),
    entry(Hw::kLaunchHost, "launch.host", kTime, 0, 1e-1, kReal, kParallelMay,
          "host time of one eager launch, queue empty"),
    entry(Hw::kLaunchPrologue, "launch.prologue", kTime, 0, 1e-3, kReal, kParallel,
          "first CTA on a unit, from its start to its first load"),
    entry(Hw::kDispatchInterval, "launch.dispatch_interval", kTime, 0, 1e-6, kReal, kParallel,
          "time between two CTAs that the device starts"),
    entry(Hw::kLaunchTurnaround, "launch.turnaround", kTime, 0, 1e-4, kReal, kParallelMay,
          "from the end of a CTA to the start of the next one on its slot"),
    entry(Hw::kPortUnits, "port.units", kDimensionless, 1, 4096, kWhole, kParallelTogether,
          "units that share a port to cache and memory; absent: ports make no difference"),
    entry(Hw::kPortUnitsOnShort, "port.units_on_short", kDimensionless, 0, 4096, kWhole, kParallelTogether,
          "units behind ports of fewer, of all"),
    entry(Hw::kPortAdvantage, "port.advantage", kDimensionless, 1, 16, kReal, kParallelTogether,
          "how many times as fast as the others these are, where all is in flight that a unit may have"),
    entry(Hw::kPortQueue, "port.queue", kBytes, 0, 1e12, kWhole, kParallelTogether,
          "bytes that wait in the memory's own queues; what more is in flight waits at the ports"),
    entry(Hw::kGroupCount, "group.count", kDimensionless, 1, 4096, kWhole, kParallelTogether,
          "groups of units, as GPCs, each with a way to caches and memory; absent: these make no difference"),
    entry(Hw::kGroupBandwidth, "group.bandwidth", kBandwidth, 1e10, 1e15, kReal, kParallelTogether,
          "highest achieved read rate of one group, from the cache or memory"),
    entry(Hw::kGroupFirst, "group.first", kDimensionless, 1, 4096, kWhole, kParallelTogether,
          "of a grid's first CTAs, those that all come to one group; the next go around all groups"),
    entry(Hw::kGroupMost, "group.most", kDimensionless, 1, 4096, kWhole, kParallelTogether,
          "CTAs of a small grid that come to that group at most"),
    entry(Hw::kVmemCapacity, "vmem.capacity", kBytes, 1024, 1e12, kWhole, kSequential,
          "on-chip bytes of the unit that programs manage"),
    entry(Hw::kVmemUsefulFraction, "vmem.useful_fraction", kDimensionless, 0.01, 1, kReal, kSequential,
          "share of these that a kernel's buffers may take"),
    entry(Hw::kSmemCapacity, "smem.capacity", kBytes, 1024, 1e9, kWhole, kSequential,
          "scalar memory of the unit, which holds a kernel's group table"),
    entry(Hw::kMxuCount, "mxu.count", kDimensionless, 1, 1024, kWhole, kSequential, "matrix arrays of the unit"),
    entry(Hw::kMxuSize, "mxu.size", kDimensionless, 8, 4096, kWhole, kSequential,
          "rows and columns of the weights that one array holds"),
    entry(Hw::kMxuWeightRows, "mxu.weight_rows", kDimensionless, 0.01, 64, kReal, kSequential,
          "16-bit weight rows a clock that one array takes in; narrower ones as their products are faster"),
    entry(Hw::kMxuFill, "mxu.fill", kCycles, 0, 10000, kReal, kSequential,
          "from a product's first row in to its first row out"),
    entry(Hw::kTileLanes, "tile.lanes", kDimensionless, 1, 4096, kWhole, kSequential,
          "values side by side in a register tile"),
    entry(Hw::kTileRows16, "tile.rows_16bit", kDimensionless, 1, 1024, kWhole, kSequential,
          "rows of a tile of 16-bit values: products have multiples of it"),
    entry(Hw::kTileRows8, "tile.rows_8bit", kDimensionless, 1, 1024, kWhole, kSequential,
          "rows of a tile of 8-bit values: products have multiples of it"),
    entry(Hw::kVectorStore, "vector.store", kDimensionless, 1, 65536, kReal, kSequential,
          "32-bit values a clock that the vector unit stores on the chip"),
    entry(Hw::kSequenceStep, "sequence.step", kTime, 0, 1e-3, kReal, kSequential,
          "the core's own time for a grid step: waits, copies issued, addresses"),
    entry(Hw::kSequenceScan, "sequence.scan", kTime, 0, 1e-3, kReal, kSequential,
          "a grouped kernel's scalar work for each resident group, active or not"),
    entry(Hw::kSequenceCall, "sequence.call", kTime, 0, 1e-2, kReal, kSequential,
          "from a kernel's start to its first copy"),
    entry(Hw::kSequenceOperation, "sequence.operation", kTime, 0, 1e-2, kReal, kSequential,
          "from the end of one operation of a compiled program to the start of the next"),
    entry(Hw::kSparseCall, "sparse_core.call", kTime, 0, 1e-2, kReal, kSequentialMay,
          "start of a gather or scatter on the sparse cores; absent: there are none"),
    entry(Hw::kSparseBandwidth, "sparse_core.bandwidth", kBandwidth, 1e6, 1e15, kReal, kSequentialMay,
          "rows that the sparse cores gather, bytes a second"),
    entry(Hw::kLinkBandwidth, "link.bandwidth", kBandwidth, 1e9, 1e14, kReal, kBothMay,
          "to other devices, datasheet peak of one direction; absent: no collectives"),
    entry(Hw::kLinkReduceLatency, "link.reduce_latency", kTime, 0, 1e-2, kReal, kBothMay,
          "an all-reduce of few bytes; absent: no tensor-parallel steps"),
    entry(Hw::kLinkReduceFraction, "link.reduce_fraction", kDimensionless, 0.01, 1, kReal, kBothMay,
          "share of the link's peak that large all-reduces reach"),
    entry(Hw::kLinkExchangeLatency, "link.exchange_latency", kTime, 0, 1e-2, kReal, kBothMay,
          "dispatch or combine of few bytes; absent: no expert-parallel steps"),
    entry(Hw::kLinkExchangeFraction, "link.exchange_fraction", kDimensionless, 0.01, 1, kReal, kBothMay,
          "share of the link's peak that large dispatches and combines reach"),
}};

constexpr bool in_order_of_hw() {
  for (std::size_t i = 0; i < kHwCount; ++i) {
    if (static_cast<std::size_t>(kHwTable[i].id) != i) return false;
  }
  return true;
}
static_assert(in_order_of_hw());

}  // namespace

std::span<const HwEntry> hw_schema() { return kHwTable; }

const HwEntry& hw_entry(Hw id) {
  const auto index = static_cast<std::size_t>(id);
  MOESIM_CHECK(index < kHwCount);
  return kHwTable[index];
}

const char* grid_name(Grid grid) {
  switch (grid) {
    case Grid::kParallel:
      return "parallel";
    case Grid::kSequential:
      return "sequential";
  }
  MOESIM_CHECK(false);
  return "";
}

void require_valid(const HwEntry& entry, double value, const std::string& file, const std::string& where) {
  if (value < entry.min || value > entry.max) {
    throw InputError({file, where, format_quantity(value, entry.dimension),
                      fmt::format("{} to {} ({})", format_quantity(entry.min, entry.dimension),
                                  format_quantity(entry.max, entry.dimension), entry.meaning),
                      ""});
  }
  if (entry.whole && value != std::floor(value)) {
    throw InputError({file, where, fmt::format("{}", value), fmt::format("a whole number ({})", entry.meaning), ""});
  }
}

const char* source_kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kDatasheet:
      return "datasheet";
    case SourceKind::kPublished:
      return "published";
    case SourceKind::kMicrobenchmark:
      return "microbenchmark";
    case SourceKind::kAssumed:
      return "assumed";
    case SourceKind::kFitted:
      return "fitted";
    case SourceKind::kOverride:
      return "override";
  }
  MOESIM_CHECK(false);
  return "";
}

}  // namespace moesim
