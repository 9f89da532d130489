#include "hwmodels/build_machine.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sim/units/integer.h"

namespace moesim {
namespace {

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::llround(value)); }

constexpr std::int64_t kSharedGranule = 128;  // bytes

// One core without a cache: its kernels run one after another, each with all of the on-chip memory that it asks for.
// Operations of a compiled program follow each other alike, whatever the launch mode.
Machine sequential_machine(const HardwareModel& hardware) {
  Machine machine;
  machine.units = whole(hardware[Hw::kUnitCount]);
  machine.unit_capacity = {1, 1, useful_on_chip_bytes(hardware).value(), 1};
  machine.channels = {{"memory", BytesPerSecond(highest_read_rate(hardware)),
                       duration_from_seconds(hardware[Hw::kHbmLatency]), hardware[Hw::kHbmKnee]}};
  machine.memory_write_weight = hardware[Hw::kHbmWriteWeight];
  machine.launch_stream = machine.launch_graph = machine.launch_programmatic =
      duration_from_seconds(hardware[Hw::kSequenceOperation]);
  return machine;
}

}  // namespace

Machine build_machine(const HardwareModel& hardware) {
  if (hardware.grid == Grid::kSequential) return sequential_machine(hardware);
  Machine machine;
  machine.units = whole(hardware[Hw::kUnitCount]);
  machine.unit_capacity = {whole(hardware[Hw::kMaxThreads]), whole(hardware[Hw::kRegisters]),
                           whole(hardware[Hw::kSharedBytes]), whole(hardware[Hw::kMaxItems])};
  const auto has_all = [&](std::initializer_list<Hw> ids) {  // --set sets one
    return std::all_of(ids.begin(), ids.end(), [&](Hw id) { return hardware.has(id); });
  };
  if (has_all({Hw::kPortUnits, Hw::kPortUnitsOnShort, Hw::kPortAdvantage, Hw::kPortQueue})) {
    machine.ports = {whole(hardware[Hw::kPortUnits]),
                     std::min(whole(hardware[Hw::kPortUnitsOnShort]), machine.units - 1), hardware[Hw::kPortAdvantage],
                     Bytes(whole(hardware[Hw::kPortQueue]))};
  }
  if (has_all({Hw::kGroupCount, Hw::kGroupBandwidth, Hw::kGroupFirst, Hw::kGroupMost})) {
    machine.groups = {whole(hardware[Hw::kGroupCount]), BytesPerSecond(hardware[Hw::kGroupBandwidth]),
                      whole(hardware[Hw::kGroupFirst]), whole(hardware[Hw::kGroupMost])};
  }
  machine.caches = {
      {Bytes(whole(hardware[Hw::kLlcCapacity] * hardware[Hw::kLlcUsefulFraction])), hardware[Hw::kLlcFillWeight]}};
  machine.channels = {{"cache", BytesPerSecond(hardware[Hw::kLlcBandwidth]),
                       duration_from_seconds(hardware[Hw::kLlcLatency]), hardware[Hw::kLlcKnee]},
                      {"memory", BytesPerSecond(highest_read_rate(hardware)),
                       duration_from_seconds(hardware[Hw::kHbmLatency]), hardware[Hw::kHbmKnee]}};
  machine.memory_write_weight = hardware[Hw::kHbmWriteWeight];
  if (hardware.has(Hw::kHbmRoundSpread)) machine.round_spread = hardware[Hw::kHbmRoundSpread];
  machine.launch_stream = duration_from_seconds(hardware[Hw::kLaunchStream]);
  machine.launch_graph = duration_from_seconds(hardware[Hw::kLaunchGraph]);
  machine.launch_programmatic = duration_from_seconds(hardware[Hw::kLaunchProgrammatic]);
  machine.launch_spread = duration_from_seconds(hardware[Hw::kLaunchSpread]);
  machine.dispatch_interval = duration_from_seconds(hardware[Hw::kDispatchInterval]);
  if (hardware.has(Hw::kLaunchTurnaround)) machine.turnaround = duration_from_seconds(hardware[Hw::kLaunchTurnaround]);
  return machine;
}

ResourceVector footprint(const HardwareModel& hardware, const LaunchShape& shape) {
  const std::int64_t warp = whole(hardware[Hw::kWarpSize]);
  const std::int64_t warps = (shape.threads + warp - 1) / warp;
  const std::int64_t registers = warps * round_up(shape.registers * warp, whole(hardware[Hw::kRegisterGranule]));
  const std::int64_t shared = round_up(shape.shared_bytes, kSharedGranule) + whole(hardware[Hw::kSharedReserved]);
  return {warps * warp, registers, shared, 1};
}

std::int64_t occupancy(const HardwareModel& hardware, const LaunchShape& shape) {
  if (shape.shared_bytes > whole(hardware[Hw::kSharedMaxPerItem])) return 0;
  if (shape.registers > whole(hardware[Hw::kMaxRegistersPerThread])) return 0;
  Machine machine;
  machine.unit_capacity = {whole(hardware[Hw::kMaxThreads]), whole(hardware[Hw::kRegisters]),
                           whole(hardware[Hw::kSharedBytes]), whole(hardware[Hw::kMaxItems])};
  return items_per_unit(machine, footprint(hardware, shape));
}

Bytes useful_on_chip_bytes(const HardwareModel& hardware) {
  return Bytes(whole(std::floor(hardware[Hw::kVmemCapacity] * hardware[Hw::kVmemUsefulFraction])));
}

ResourceVector footprint_on_chip(Bytes bytes) { return {0, 0, bytes.value(), 1}; }

double highest_read_rate(const HardwareModel& hardware) {
  return hardware[Hw::kHbmBandwidth] * hardware[Hw::kHbmReadFraction];
}

}  // namespace moesim
