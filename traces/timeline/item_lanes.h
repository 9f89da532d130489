// Work items on the units that hold them, as many lanes a unit as it holds items.
//
// The engine moves alike items as cohorts and places none of them. Here a cohort's items are dealt to the slots of their
// kernel that were free when they started, first one a unit, then a second one: one of the placements that the run allows.
// Of a kernel with look-ahead an item's slice ends with its last K-step, when its slot takes the next one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/execution_plan.h"
#include "sim/timeline/timeline.h"
#include "traces/timeline/slice_arguments.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

class ItemLanes {
 public:
  // The first `units` units; nullopt: all.
  ItemLanes(TrackWriter& writer, TrackWriter::Track group, const ExecutionPlan& plan, const Machine& machine,
            std::optional<std::int64_t> units);
  void add(const Span& span);

 private:
  struct Lane {
    TrackWriter::Track track;
    TimePoint free;
  };
  // Slots by when their last item left them; those of a first wave in the order in which items come.
  struct Slots {
    std::map<TimePoint, std::vector<std::int64_t>> free;
    std::int64_t made = 0;    // so many slots were used
    std::int64_t unseen = 0;  // items still to come
  };

  void draw(std::int64_t unit, const Span& span, TimePoint leaves, const std::string& name);
  void describe(const Span& span);

  TrackWriter& writer_;
  TrackWriter::Track group_;
  const ExecutionPlan& plan_;
  std::int64_t units_, shown_;
  std::map<std::uint32_t, Slots> slots_;  // by kernel, of those that run
  std::vector<std::vector<Lane>> lanes_;  // by unit
  SliceArguments arguments_;
};

}  // namespace moesim
