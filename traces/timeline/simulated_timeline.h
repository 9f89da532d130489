// A run of the simulator as tracks, written while it happens. Groups, their names after the title:
//   the run      "run" (what was simulated, by whom), "layers" of a model, "launches" (a slice a launch, from its
//                predecessors' ends to its first item), "kernels" (first item to last epilogue; several lanes where kernels
//                overlap), and the counters (load_counters.h)
//   work items   of some units (item_lanes.h)
//   experts      whose weights stream when (expert_tracks.h)
// The attribution of the slices of "launches" and "kernels" sums to the run's, category by category; so do their lengths to
// its time where kernels do not overlap.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/timeline/timeline.h"
#include "traces/timeline/expert_tracks.h"
#include "traces/timeline/item_lanes.h"
#include "traces/timeline/load_counters.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

struct SimulatedTimelineOptions {
  std::string title;                                       // the strategy
  std::vector<std::pair<std::string, std::string>> facts;  // of the run: model, device, routing, ...
  std::optional<std::int64_t> units = 4;                   // whose items are shown; nullopt: all
  Duration counter_step;                                   // counters are means over so long; 0: each change
};

// Tracks of one kind: a further one where slices overlap.
class OverlapTracks {
 public:
  OverlapTracks(TrackWriter& writer, TrackWriter::Track group, std::string name);
  // A track on which nothing that came before ends later than `start`; it is taken until `end`.
  TrackWriter::Track take(TimePoint start, TimePoint end);

 private:
  struct Lane {
    TrackWriter::Track track;
    TimePoint free;
  };
  TrackWriter& writer_;
  TrackWriter::Track group_;
  std::string name_;
  std::vector<Lane> lanes_;
};

// For one run.
class SimulatedTimeline : public TimelineListener {
 public:
  SimulatedTimeline(TrackWriter& writer, SimulatedTimelineOptions options);
  void on_start(const ExecutionPlan& plan, const Machine& machine) override;
  void on_span(const Span& span) override;
  void on_load(const MachineLoad& load) override;
  void on_end(const SimulationResult& result) override;

 private:
  void write_run(const SimulationResult& result);
  void write_layers(const SimulationResult& result, const std::vector<std::uint32_t>& order);
  void write_launch(std::uint32_t k, const SimulationResult& result);
  void write_kernel(std::uint32_t k, const KernelResult& result);

  TrackWriter& writer_;
  SimulatedTimelineOptions options_;
  const ExecutionPlan* plan_ = nullptr;
  const Machine* machine_ = nullptr;
  TrackWriter::Track group_ = 0, run_ = 0, layers_ = 0;
  std::optional<OverlapTracks> launches_, kernels_;
  std::optional<LoadCounters> counters_;
  std::optional<ItemLanes> items_;
  std::optional<ExpertTracks> experts_;
  SliceArguments arguments_;
};

}  // namespace moesim
