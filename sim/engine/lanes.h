// Where a kernel's items lie: the units behind the usual ports and those behind short ones (machine.h), each a lane of slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/engine/end_spread.h"
#include "sim/engine/machine.h"
#include "sim/engine/refill.h"

namespace moesim {

struct Lane {
  std::int64_t units = 0;
  std::int64_t slots = 0;
  std::int64_t resident = 0;
  std::int64_t flowing = 0;
  EndSpread end_spread{};
  std::int64_t started = 0;
  std::int64_t whole = 0;         // of these, those of passes over all slots, the one in progress included
  bool refilled_in_part = false;  // the pass in progress is of the last items, too few for all slots
  RefillLevels levels{};          // of that pass

  // Before some of `remaining` items start here: true where a pass begins that is the last and leaves slots free.
  bool begin_pass(std::int64_t remaining);
};

// All is in the first unless so much is in flight that ports matter.
using Lanes = std::array<Lane, 2>;
inline constexpr std::size_t kUsual = 0, kShort = 1;

Lanes lanes_of(const Machine& machine, std::int64_t slots, bool ports_matter);

// The next item goes to the emptiest units that hold one more.
std::size_t next_lane(const Lanes& lanes);

// Where the last `items` leave slots free, some ports have more of them than others, and what waits at a port waits in proportion
// to its load: the standard deviation of their times / the mean. It is the share of the time that passes at ports, of
// `in_flight` bytes, x the standard deviation of the ports' loads / the mean, `slots` of a unit being taken as chance has it.
double port_spread(const Machine& machine, double in_flight, std::int64_t items, std::int64_t slots);

// What an item may read at most, one of so many in all: its part of the fullest group's rate; 0: no limit.
BytesPerSecond rate_in_group(const Machine& machine, std::int64_t items);

// Standard deviations of the ends of alike items, in items' worth of progress.
struct Spread {
  double rounds = 0;  // each item's own
  double ports = 0;   // shared by those behind one port

  [[nodiscard]] double all() const;
  [[nodiscard]] double ports_share() const;  // of the variance
};

}  // namespace moesim
