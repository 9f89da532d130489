// Which expert's weights stream when: a track an expert, a slice for each kernel that streams them, from the first K-step of
// its items to the last. Experts that no item is for have no track.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "sim/plan/execution_plan.h"
#include "sim/timeline/timeline.h"
#include "traces/timeline/slice_arguments.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

class ExpertTracks {
 public:
  // Adds the group, if there is any expert.
  ExpertTracks(TrackWriter& writer, const std::string& group, const ExecutionPlan& plan);
  void add(const Span& span);

 private:
  struct Use {
    TimePoint from = TimePoint(std::numeric_limits<std::int64_t>::max()), to;
    std::int64_t rows = 0;
    double bytes = 0, useful_flops = 0, issued_flops = 0;
    std::array<double, kBlameCount> bound{};  // what bound its items, times their time

    // A share of a span's items.
    void add(const Span& span, const ItemClass& item, double share);
  };
  struct Uses {
    std::map<std::int32_t, Use> experts;
    std::vector<std::int64_t> rows_before;  // by entry of Kernel::labels, and all
    std::vector<bool> counted;              // groups whose rows were added
    std::int64_t unseen = 0;                // items still to come
  };
  struct Track {
    TrackWriter::Track track;
    TimePoint end;
  };

  void add_of_kernel(const Kernel& kernel, const Span& span, Uses& uses);
  void write(const Kernel& kernel, Uses& uses);

  TrackWriter& writer_;
  const ExecutionPlan& plan_;
  std::map<std::int32_t, Track> tracks_;
  std::map<std::uint32_t, Uses> uses_;  // by kernel, of those that run
  SliceArguments arguments_;
};

// Experts and useful rows that a kernel's items are for.
struct ExpertRows {
  std::int64_t experts = 0, rows = 0;
};
ExpertRows expert_rows(const Kernel& kernel);

}  // namespace moesim
