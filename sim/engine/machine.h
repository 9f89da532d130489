// A machine as the engine sees it: four kinds of resource, no chip in particular.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/kernel.h"
#include "sim/units/quantity.h"

namespace moesim {

inline constexpr std::size_t kMaxChannels = 3;  // caches and the memory behind them

// A fluid channel with a soft knee. Flows that keep X = sum(bytes in flight / unloaded latency) offered get
//     R = (X^-p + peak^-p)^(-1/p)
// which is the same as a latency that rises with use u = R / peak as latency(u) = latency * (1 - u^p)^(-1/p).
struct Channel {
  std::string name;
  BytesPerSecond peak;
  Duration latency;  // unloaded, of a read served here
  double knee = 2;   // p, in [1, 64]
};

// A cache in front of the next level. It outlives kernels: what one wrote or read, the next may find.
struct CacheLevel {
  Bytes useful_capacity;   // nominal capacity less what partitions duplicate
  double fill_weight = 0;  // what filling a missed byte costs this cache's channel beside the read, in read bytes
};

// Units reach caches and memory through ports, which it serves in turn. As long as what is in flight waits in the memory's own
// queues, a unit gets what it asks for, wherever it is; what exceeds them waits at the ports, where a unit that shares its
// port with fewer others waits less.
struct Ports {
  std::int64_t units = 1;        // behind a usual port
  std::int64_t short_units = 0;  // units behind a port of fewer units than the others'; 0: all ports are alike
  double advantage = 1;          // how many times as fast as the others they are at most, >= 1
  Bytes queue;                   // that wait in the memory itself
};

// Ports lie in groups, each with a way of its own. A grid of fewer items than units does not come to them evenly: its first ones
// all come to one group, the next to each group in turn.
struct Groups {
  std::int64_t count = 1;
  BytesPerSecond rate;     // of one group at most; 0: no limit
  std::int64_t first = 0;  // items
  std::int64_t most = 0;   // items of such a grid in that group, >= first
};

struct Machine {
  std::int64_t units = 1;
  ResourceVector unit_capacity{};
  Ports ports;
  Groups groups;
  // channels[j] serves hits of caches[j]; the last channel is the memory, so channels.size() == caches.size() + 1.
  std::vector<CacheLevel> caches;
  std::vector<Channel> channels;
  // What a written byte costs on the memory channel where equally many are read, in read bytes: 1 and what turning
  // between the two costs. Beside r read bytes, w written ones cost w + (weight - 1) sqrt(r w).
  double memory_write_weight = 1;
  double round_spread = 0;  // standard deviation of the time of a round of loads / its mean, >= 0
  Duration launch_stream;   // from the end of the last predecessor to the first item, one-item kernel
  Duration launch_graph;
  Duration launch_programmatic;  // from the end of the last predecessor to the end of the wait
  Duration launch_spread;        // extra once the grid covers all units (below: by the logarithm, as in a tree)
  Duration dispatch_interval;    // between two items that the device starts
  Duration turnaround;           // from the end of an item to the start of the next on its slot
};

// Items of this footprint that one empty unit holds: the least of the resources.
std::int64_t items_per_unit(const Machine& machine, const ResourceVector& footprint);

}  // namespace moesim
