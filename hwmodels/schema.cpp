#include "hwmodels/schema.h"

#include <array>

#include "sim/units/check.h"

namespace moesim {
namespace {

using enum Dimension;
constexpr bool kWhole = true;
constexpr bool kReal = false;
constexpr bool kRequired = true;
constexpr bool kOptional = false;

// Ranges only keep out what no device can be: a wrong unit or a slipped decimal point. Times of launches may be zero,
// so that --set can ask what a device without that cost would do.
constexpr std::array<HwEntry, kHwCount> kHwTable = {{
    {Hw::kUnitCount, "unit.count", kDimensionless, 1, 4096, kWhole, kRequired, "SMs or CUs of the device"},
    {Hw::kUnitLoadPort, "unit.load_port", kBytesPerCycle, 1, 4096, kReal, kRequired,
     "bytes a clock that one unit can take from the last-level cache"},
    {Hw::kClockBoost, "clock.boost", kFrequency, 1e8, 1e10, kReal, kRequired, "clock of decode-size work"},
    {Hw::kClockSustained, "clock.sustained", kFrequency, 1e8, 1e10, kReal, kRequired,
     "clock under long matrix-heavy load at the power cap"},
    {Hw::kHbmCapacity, "hbm.capacity", kBytes, 1e8, 1e14, kWhole, kRequired, "device memory"},
    {Hw::kHbmBandwidth, "hbm.bandwidth", kBandwidth, 1e10, 1e15, kReal, kRequired, "datasheet peak of device memory"},
    {Hw::kHbmReadFraction, "hbm.read_fraction", kDimensionless, 0.1, 1, kReal, kRequired,
     "highest achieved read rate / datasheet peak"},
    {Hw::kHbmLatency, "hbm.latency", kTime, 1e-9, 1e-4, kReal, kRequired, "unloaded memory latency, pointer chase"},
    {Hw::kHbmKnee, "hbm.knee", kDimensionless, 1, 64, kReal, kRequired, "exponent p of the memory's soft knee"},
    {Hw::kHbmWriteWeight, "hbm.write_weight", kDimensionless, 1, 10, kReal, kRequired,
     "what a written byte costs beside as many reads, in read bytes"},
    {Hw::kLlcCapacity, "llc.capacity", kBytes, 1e5, 1e11, kWhole, kRequired, "last-level cache, nominal"},
    {Hw::kLlcUsefulFraction, "llc.useful_fraction", kDimensionless, 0.01, 1, kReal, kRequired,
     "share of the last-level cache that repeated reads can use"},
    {Hw::kLlcBandwidth, "llc.bandwidth", kBandwidth, 1e10, 1e15, kReal, kRequired,
     "highest achieved whole-chip read rate of the last-level cache"},
    {Hw::kLlcLatency, "llc.latency", kTime, 1e-9, 1e-4, kReal, kRequired,
     "unloaded last-level cache latency, mean over near and far"},
    {Hw::kLlcKnee, "llc.knee", kDimensionless, 1, 64, kReal, kRequired,
     "exponent p of the last-level cache's soft knee"},
    {Hw::kLlcFillWeight, "llc.fill_weight", kDimensionless, 0, 4, kReal, kRequired,
     "what filling a missed byte costs the cache beside reading it, in read bytes"},
    {Hw::kMaxThreads, "occupancy.threads", kDimensionless, 1, 65536, kWhole, kRequired, "resident threads per unit"},
    {Hw::kMaxItems, "occupancy.ctas", kDimensionless, 1, 4096, kWhole, kRequired, "resident CTAs per unit"},
    {Hw::kRegisters, "occupancy.registers", kDimensionless, 1, 1e7, kWhole, kRequired, "32-bit registers per unit"},
    {Hw::kRegisterGranule, "occupancy.register_granule", kDimensionless, 1, 65536, kWhole, kRequired,
     "registers that a warp is given at a time"},
    {Hw::kMaxRegistersPerThread, "occupancy.registers_per_thread", kDimensionless, 1, 4096, kWhole, kRequired,
     "most registers of one thread"},
    {Hw::kWarpSize, "occupancy.warp_size", kDimensionless, 1, 1024, kWhole, kRequired, "threads of a warp or wave"},
    {Hw::kSharedBytes, "occupancy.shared", kBytes, 1024, 1e9, kWhole, kRequired, "on-chip bytes per unit"},
    {Hw::kSharedReserved, "occupancy.shared_reserved", kBytes, 0, 1e6, kWhole, kRequired,
     "on-chip bytes that the system takes per CTA"},
    {Hw::kSharedMaxPerItem, "occupancy.shared_per_cta", kBytes, 1024, 1e9, kWhole, kRequired,
     "most on-chip bytes of one CTA"},
    {Hw::kVectorFma, "vector.fma", kDimensionless, 1, 65536, kReal, kRequired,
     "float32 multiply-adds a clock and unit"},
    {Hw::kVectorConvert, "vector.convert", kDimensionless, 1, 65536, kReal, kRequired,
     "8/16-bit <-> 32-bit conversions a clock and unit"},
    {Hw::kMatrixBf16, "matrix.bf16", kFlopsPerCycle, 1, 1e7, kReal, kRequired, "dense bf16 FLOP a clock and unit"},
    {Hw::kMatrixFp8, "matrix.fp8", kFlopsPerCycle, 1, 1e7, kReal, kOptional,
     "dense fp8 FLOP a clock and unit; absent: no such products"},
    {Hw::kMatrixInt8, "matrix.int8", kFlopsPerCycle, 1, 1e7, kReal, kOptional,
     "dense int8 operations a clock and unit; absent: no such products"},
    {Hw::kMatrixFp4, "matrix.fp4", kFlopsPerCycle, 1, 1e7, kReal, kOptional,
     "dense fp4 FLOP a clock and unit; absent: no such products"},
    {Hw::kMatrixSyncFraction, "matrix.sync_fraction", kDimensionless, 0.01, 1, kReal, kRequired,
     "share of the matrix peak that synchronous warp-level MMA reaches"},
    {Hw::kMatrixAsyncRows, "matrix.async_rows", kDimensionless, 1, 4096, kWhole, kRequired,
     "rows that one asynchronous MMA works on: wgmma 64, tcgen05 128, none 16"},
    {Hw::kMatrixLatency, "matrix.latency", kCycles, 1, 10000, kReal, kRequired,
     "one dependent warp-level MMA step (k = 32 bytes)"},
    {Hw::kSharedLatency, "matrix.shared_latency", kCycles, 1, 10000, kReal, kRequired, "on-chip memory load"},
    {Hw::kBarrier, "matrix.barrier", kCycles, 0, 10000, kReal, kRequired, "CTA-wide barrier"},
    {Hw::kAsyncCopyPerWarp, "unit.async_copy_per_warp", kBytesPerCycle, 0.01, 4096, kReal, kRequired,
     "bytes a clock that one warp can issue as asynchronous copies"},
    {Hw::kAsyncCopyLatency, "unit.async_copy_latency", kTime, 0, 1e-4, kReal, kRequired,
     "what an asynchronous copy and its wait take beyond a plain load"},
    {Hw::kLaunchStream, "launch.stream", kTime, 0, 1e-3, kReal, kRequired,
     "edge between dependent kernels in a stream"},
    {Hw::kLaunchGraph, "launch.graph", kTime, 0, 1e-3, kReal, kRequired, "edge of a graph, kernel of one CTA"},
    {Hw::kLaunchSpread, "launch.spread", kTime, 0, 1e-3, kReal, kRequired,
     "extra once the grid covers all units; below by the logarithm"},
    {Hw::kLaunchProgrammatic, "launch.programmatic", kTime, 0, 1e-3, kReal, kRequired,
     "what remains of the edge with programmatic dependent launch"},
    {Hw::kLaunchHost, "launch.host", kTime, 0, 1e-1, kReal, kOptional, "host time of one eager launch, queue empty"},
    {Hw::kLaunchPrologue, "launch.prologue", kTime, 0, 1e-3, kReal, kRequired,
     "first CTA on a unit, from its start to its first load"},
    {Hw::kDispatchInterval, "launch.dispatch_interval", kTime, 0, 1e-6, kReal, kRequired,
     "time between two CTAs that the device starts"},
    {Hw::kLinkBandwidth, "link.bandwidth", kBandwidth, 1e9, 1e14, kReal, kOptional,
     "to other devices, datasheet peak of one direction; absent: no collectives"},
    {Hw::kLinkReduceLatency, "link.reduce_latency", kTime, 0, 1e-2, kReal, kOptional,
     "an all-reduce of few bytes; absent: no tensor-parallel steps"},
    {Hw::kLinkReduceFraction, "link.reduce_fraction", kDimensionless, 0.01, 1, kReal, kOptional,
     "share of the link's peak that large all-reduces reach"},
    {Hw::kLinkExchangeLatency, "link.exchange_latency", kTime, 0, 1e-2, kReal, kOptional,
     "dispatch or combine of few bytes; absent: no expert-parallel steps"},
    {Hw::kLinkExchangeFraction, "link.exchange_fraction", kDimensionless, 0.01, 1, kReal, kOptional,
     "share of the link's peak that large dispatches and combines reach"},
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
