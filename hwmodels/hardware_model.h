// An accelerator as validated numbers, each with its unit, kind and source.
//
// A HardwareModel is made only by load_hardware() (loader.h): every number that the schema requires of its kind of grid is
// there and in range. The schema (schema.h) is the one list of all constants: path in the file, dimension, range, meaning.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/units/parse_quantity.h"

namespace moesim {

// Where a number comes from. A device file holds the first four; kFitted comes from a calibration overlay,
// kOverride from --set.
enum class SourceKind { kDatasheet, kPublished, kMicrobenchmark, kAssumed, kFitted, kOverride };

// One entry per number of a device file; kHwTable in schema.cpp gives path, dimension, range, meaning.
enum class Hw : std::size_t {
  kUnitCount,          // unit.count: SMs, CUs
  kUnitLoadPort,       // unit.load_port: bytes a clock that one unit can take from the last-level cache
  kClockBoost,         // clock.boost
  kClockSustained,     // clock.sustained: under long matrix-heavy load at the power cap
  kClockMatrix,        // clock.matrix: highest while matrix instructions run
  kHbmCapacity,        // hbm.capacity
  kHbmBandwidth,       // hbm.bandwidth: datasheet peak
  kHbmReadFraction,    // hbm.read_fraction: highest achieved read rate / datasheet peak
  kHbmLatency,         // hbm.latency: unloaded, pointer chase
  kHbmKnee,            // hbm.knee: exponent p of the soft knee
  kHbmWriteWeight,     // hbm.write_weight: what a written byte costs beside as many reads, in read bytes
  kHbmRoundSpread,     // hbm.round_spread: standard deviation of the time of a round of loads / its mean
  kLlcCapacity,        // llc.capacity: last-level cache, nominal
  kLlcUsefulFraction,  // llc.useful_fraction: share that repeated reads can use
  kLlcBandwidth,       // llc.bandwidth: highest achieved whole-chip read rate
  kLlcLatency,         // llc.latency: unloaded, mean over near and far
  kLlcKnee,            // llc.knee
  kLlcFillWeight,      // llc.fill_weight: what filling a missed byte costs the cache beside reading it, in read bytes
  kMaxThreads,         // occupancy.threads per unit
  kMaxItems,           // occupancy.ctas per unit
  kRegisters,          // occupancy.registers: 32-bit registers per unit
  kRegisterGranule,    // occupancy.register_granule: registers, per warp
  kMaxRegistersPerThread,  // occupancy.registers_per_thread
  kWarpSize,               // occupancy.warp_size
  kSharedBytes,            // occupancy.shared: on-chip bytes per unit
  kSharedReserved,         // occupancy.shared_reserved: per CTA
  kSharedMaxPerItem,       // occupancy.shared_per_cta
  kVectorFma,              // vector.fma: float32 multiply-adds a clock and unit
  kVectorConvert,          // vector.convert: 8/16-bit <-> 32-bit conversions a clock and unit
  kMatrixBf16,             // matrix.bf16: dense FLOP a clock and unit
  kMatrixFp8,              // matrix.fp8 (absent: no such products)
  kMatrixInt8,             // matrix.int8 (absent: no such products)
  kMatrixFp4,              // matrix.fp4 (absent: no such products)
  kMatrixSyncFraction,     // matrix.sync_fraction: share of the peak that synchronous warp-level MMA reaches
  kMatrixAsyncRows,        // matrix.async_rows: rows one asynchronous MMA works on (wgmma 64, tcgen05 128; 16: none)
  kMatrixLatency,          // matrix.latency: of one dependent warp-level MMA step (k = 32 bytes), clocks
  kSharedLatency,          // matrix.shared_latency: on-chip memory load, clocks
  kBarrier,                // matrix.barrier: a CTA-wide barrier, clocks
  kAsyncCopyPerWarp,       // unit.async_copy_per_warp: bytes a clock that one warp can issue as asynchronous copies
  kAsyncCopyLatency,       // unit.async_copy_latency: what an asynchronous copy and its wait take beyond a plain load
  kLaunchStream,           // launch.stream: gap between dependent kernels in a stream
  kLaunchGraph,            // launch.graph: edge of a graph, kernel of one CTA
  kLaunchSpread,           // launch.spread: extra once the grid covers all units
  kLaunchProgrammatic,     // launch.programmatic: what remains of the gap with programmatic dependent launch
  kLaunchHost,             // launch.host: host time of one eager launch (queue empty)
  kLaunchPrologue,         // launch.prologue: first CTA on a unit, from its start to its first load (instruction fetch)
  kDispatchInterval,       // launch.dispatch_interval: time between two CTAs that the device starts
  kLaunchTurnaround,       // launch.turnaround: from the end of a CTA to the start of the next on its slot
  kPortUnits,              // port.units: units that share a port to the memory
  kPortUnitsOnShort,       // port.units_on_short: units behind ports of fewer, of all
  kPortAdvantage,          // port.advantage: how many times as fast these are at most
  kPortQueue,              // port.queue: bytes that wait in the memory's own queues; more waits at the ports
  kGroupCount,             // group.count: groups of units (GPCs), each with a way to caches and memory
  kGroupBandwidth,         // group.bandwidth: most that a group reads
  kGroupFirst,             // group.first: of a grid's first CTAs, those that all come to one group
  kGroupMost,              // group.most: CTAs that have come there before any unit gets a second one
  kVmemCapacity,           // vmem.capacity: on-chip bytes of the unit that programs manage (sequential grids)
  kVmemUsefulFraction,     // vmem.useful_fraction: share that a kernel's buffers may take
  kSmemCapacity,           // smem.capacity: scalar memory
  kMxuCount,               // mxu.count: matrix arrays of the unit
  kMxuSize,                // mxu.size: rows and columns of the weights that one array holds
  kMxuWeightRows,          // mxu.weight_rows: 16-bit weight rows a clock that one array takes in
  kMxuFill,                // mxu.fill: from a product's first row in to its first row out, clocks
  kTileLanes,              // tile.lanes: values side by side in a register tile
  kTileRows16,             // tile.rows_16bit: rows of a tile of 16-bit values
  kTileRows8,              // tile.rows_8bit: rows of a tile of 8-bit values
  kVectorStore,            // vector.store: 32-bit values a clock that the vector unit can store on the chip
  kSequenceStep,           // sequence.step: the core's own time for a grid step
  kSequenceScan,           // sequence.scan: a kernel's scalar work for each resident group
  kSequenceCall,           // sequence.call: from a kernel's start to its first copy
  kSequenceOperation,      // sequence.operation: from one operation of a program to the next
  kSparseCall,             // sparse_core.call: start of a gather or scatter there (absent: no such core)
  kSparseBandwidth,        // sparse_core.bandwidth: of gathered rows
  kLinkBandwidth,          // link.bandwidth: to other devices, datasheet peak of one direction (absent: no link)
  kLinkReduceLatency,      // link.reduce_latency: an all-reduce of few bytes
  kLinkReduceFraction,     // link.reduce_fraction: rate of a large all-reduce / peak
  kLinkExchangeLatency,    // link.exchange_latency: expert-parallel dispatch or combine of few bytes
  kLinkExchangeFraction,   // link.exchange_fraction: rate of a large dispatch or combine / peak
  kCount
};
inline constexpr std::size_t kHwCount = static_cast<std::size_t>(Hw::kCount);

// How a unit runs a kernel's work items: many at a time on many units, or one after another on one core whose copies
// run ahead.
enum class Grid { kParallel, kSequential };

struct Constant {
  double value = 0;  // in the base unit of its dimension (parse_quantity.h)
  SourceKind kind = SourceKind::kAssumed;
  std::string source;
  std::optional<double> uncertainty =
      std::nullopt;  // share of the value, either way, as the file states it (uncertainty.h)
};

struct HardwareModel {
  std::string name;          // "h200"
  std::string title;         // "NVIDIA H200 SXM 141 GB"
  std::string vendor;        // "NVIDIA"
  std::string architecture;  // "Hopper sm90"
  std::string unit_name;     // "SM", "CU", "TensorCore"
  Grid grid = Grid::kParallel;
  std::vector<std::string> aliases;  // other names that --device accepts, e.g. names in measurements
  std::string notes;
  std::string file;  // path or embedded name it was read from
  std::string hash;  // 16 hex digits (FNV-1a 64 of the file's bytes)
  std::array<std::optional<Constant>, kHwCount> constants;

  [[nodiscard]] bool has(Hw id) const { return constants[static_cast<std::size_t>(id)].has_value(); }
  // The value in its base unit; CHECKs that it is there (required ones always are).
  [[nodiscard]] double operator[](Hw id) const;
};

}  // namespace moesim
