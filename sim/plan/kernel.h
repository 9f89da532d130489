// What a machine can be asked to do: kernels made of work items.
//
// A work item (a GPU's CTA, a TPU's grid step) is
//     prologue_before -> [dependency wait] -> prologue_after -> fill -> steps -> epilogue.
// Alike items form a class; items in issue order form groups. Cost in the engine grows with the number of cohorts
// (items of a group that start together), not with items, bytes or K-steps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units/id.h"
#include "sim/units/quantity.h"

namespace moesim {

struct RegionTag {};
struct KernelTag {};
using RegionId = Id<RegionTag>;
using KernelId = Id<KernelTag>;

// Per-unit resources that decide how many items share a unit: threads, registers, on-chip bytes, item slots.
inline constexpr std::size_t kResourceCount = 4;
using ResourceVector = std::array<std::int64_t, kResourceCount>;
inline constexpr std::size_t kThreadsAt = 0, kRegistersAt = 1, kOnChipBytesAt = 2;  // places in it

// Per-unit pipes: matrix, vector, load port (bytes entering the unit).
enum class PipeKind : std::size_t { kMatrix, kVector, kLoadPort };
inline constexpr std::size_t kPipeCount = 3;

struct ItemClass {
  std::int64_t steps = 1;  // K-steps of an item, >= 1
  double stages = 1;       // K-steps whose loads are in flight together, > 0; a fraction is a mean over time
  Bytes read;              // of the group's region, per item
  double first_share = 1;  // share of `read` that no other item of the same group reads too, (0, 1]
  double read_weight = 1;  // what a byte of `read` costs the memory beside one of a plain stream (rows, pages), >= 1
  Bytes resident_read;     // per item, always found in the nearest cache (activations, index lists)
  // What a byte of `read`, of `resident_read` costs the nearest cache beside one that is read alone, > 0: 1 / n where n items
  // behind one port read it at the same time, since it passes the port once.
  double read_port_weight = 1, resident_port_weight = 1;
  Bytes write;                                    // per item
  std::array<double, kPipeCount> pipe_seconds{};  // per step, of a pipe that the item has for itself
  double useful_share = 1;                        // matrix rows asked for / rows issued, [0, 1]
  // Share of the matrix pipe's time that it waits for its stationary operand, [0, 1]; the rest is divided by
  // useful_share.
  double stationary_share = 0;
  Duration step_latency;   // dependent chain of one step after its data are there (convert, multiply, accumulate)
  Duration load_latency;   // what these loads take beyond the channels' latency (asynchronous copies, their wait)
  Duration step_issue;     // issuing the load instructions of one step
  Duration step_sequence;  // an in-order core's own time for a step, in which its pipes stand still
  double ahead = 0;        // of these loads, K-steps that are sent for before the wait is over, >= 0
  bool ring_spans_items = false;  // stages go on from one item of a slot to the next: fewer steps do not drain them
  Duration first_prologue;        // before the others, for the first item on a slot (instructions not yet cached)
  Duration prologue_before;       // before the dependency wait
  Duration prologue_after;        // after it
  Duration tile_prologue;  // instead of the prologues: persistent schedule, items after the first on a slot; joined
  Duration epilogue;
  double useful_flops = 0, issued_flops = 0;  // of an item; opaque to the engine, for timelines
};

struct ItemGroup {
  std::uint32_t item_class = 0;
  std::int64_t count = 0;          // items, > 0
  std::optional<RegionId> region;  // what `read` reads, front to back over the group
  std::optional<RegionId> write_region;
  std::vector<std::uint32_t>
      after;                // groups of the same kernel that must have finished before these items pass the wait
  std::int32_t label = -1;  // opaque to the engine (expert), for timelines; -1: see Kernel::labels
  std::int32_t rows = 0;    // useful ones of the label
};

// A label and its useful rows.
struct LabelRows {
  std::int32_t label = 0;
  std::int32_t rows = 0;
};

// How the items of a group without a label of its own go through the labels of its kernel.
enum class LabelOrder {
  kInterleaved,  // row by row: neighbouring items are of different rows
  kItemsInTurn,  // label after label: as many items of each as it has rows
  kEachInTurn,   // every item goes through all labels, one after another
};

struct Schedule {
  enum class Kind { kGrid, kPersistent };
  Kind kind = Kind::kGrid;
  std::int64_t look_ahead = 0;               // persistent: > 0 overlaps an epilogue with the next item's fill
  std::optional<std::int64_t> max_resident;  // persistent: items in flight at most, e.g. one a unit
};

struct Kernel {
  std::string name;
  std::string stage;           // "gemm1", "act", ... opaque to the engine
  bool helper = false;         // its time is blamed on "helper kernels"
  ResourceVector footprint{};  // per item
  std::int64_t gang = 1;       // items that start together (cluster)
  Schedule schedule;
  // In the launch of its one predecessor: its items go on where that kernel's ended, without launch, dispatch or fill, and
  // wait for all of them.
  bool joined = false;
  std::vector<ItemClass> classes;
  std::vector<ItemGroup> groups;
  // Opaque to the engine, for timelines.
  std::int32_t layer = -1;  // of a model; -1: none
  LabelOrder label_order = LabelOrder::kInterleaved;
  std::vector<LabelRows> labels;  // of groups that have none of their own; empty: none

  [[nodiscard]] std::int64_t items() const;
};

}  // namespace moesim
