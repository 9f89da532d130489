// What happened when, told while it happens: a listener is handed each piece as it ends, so that no run's length fills memory.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/machine.h"
#include "sim/timeline/attribution.h"
#include "sim/units/quantity.h"

namespace moesim {

class ExecutionPlan;
struct SimulationResult;

// Items of a group that started and ended together.
struct Span {
  std::uint32_t kernel = 0;
  std::uint32_t group = 0;
  std::int64_t first_item = 0;  // of the group, in issue order
  std::int64_t items = 0;
  TimePoint start;  // dispatched
  TimePoint flow;   // first K-step
  TimePoint drain;  // last K-step done
  TimePoint end;    // epilogue done
  // What bound its items, shares of the time from start to end: sum 1. Of a helper kernel too, whose attribution is all
  // "helper kernels"; waiting for another kernel's end is synchronisation.
  std::array<double, kBlameCount> blame{};
};

// What the machine did between two changes of its rates.
struct MachineLoad {
  TimePoint from, to;
  // By channel, nearest cache first, memory last: bytes a second as they are, reads and (memory) writes; and the share of
  // the channel's peak that they take with what turns, fills and short rows cost, [0, 1].
  std::array<double, kMaxChannels> rate{}, use{};
  double bytes_in_flight = 0;  // asked for and not yet there, of all items
  double on_chip_bytes = 0;    // held by resident items, of all units
  double matrix_use = 0;       // of all units' matrix pipes, rows that nobody asked for included, [0, 1]
  std::int64_t flowing = 0;    // items in their K-steps
  std::int64_t waiting = 0;    // in dispatch, prologue, fill, epilogue, or waiting for other items or a kernel's end
  std::array<double, kBlameCount> bound{};  // items by what binds them: sum flowing + waiting
};

// Calls of one run come from one thread.
class TimelineListener {
 public:
  virtual ~TimelineListener() = default;
  virtual void on_start(const ExecutionPlan& plan, const Machine& machine) = 0;  // both live until on_end
  virtual void on_span(const Span& span) = 0;         // in the order of their ends; every item once
  virtual void on_load(const MachineLoad& load) = 0;  // in order, without gaps from 0 to the run's end
  virtual void on_end(const SimulationResult& result) = 0;
};

}  // namespace moesim
