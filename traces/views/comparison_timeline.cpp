#include "traces/views/comparison_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace moesim {
namespace {

using Track = TrackWriter::Track;

// Tracks of one name for slices that may overlap: each goes to the first track that is free.
class Lanes {
 public:
  Lanes(TrackWriter& writer, Track group, std::string name) : writer_(writer), group_(group), name_(std::move(name)) {}

  // In order of start.
  Track at(TimePoint start, TimePoint end) {
    for (auto& [track, until] : lanes_) {
      if (until > start) continue;
      until = end;
      return track;
    }
    const std::string name = lanes_.empty() ? name_ : fmt::format("{} ({})", name_, lanes_.size() + 1);
    lanes_.emplace_back(writer_.add_track(group_, name), end);
    return lanes_.back().first;
  }

 private:
  TrackWriter& writer_;
  Track group_;
  std::string name_;
  std::vector<std::pair<Track, TimePoint>> lanes_;  // and until when each is taken
};

std::string title(const TraceSection& section) { return section.name.empty() ? "trace" : section.name; }

class TimelineWriter {
 public:
  TimelineWriter(const ProfilerTrace& trace, TrackWriter& writer) : trace_(trace), writer_(writer) {}

  void measured(const TraceSection& section) {
    const Track group = writer_.add_group(fmt::format("{}: measured", title(section)));
    std::map<std::pair<std::int32_t, std::int64_t>, Lanes> streams;
    for (const ClassifiedEvent& classified : section.events) {
      const DeviceEvent& event = trace_.events[classified.event];
      const std::string name = fmt::format("device {}, stream {}", event.device, event.stream);
      Lanes& lanes = streams.try_emplace({event.device, event.stream}, writer_, group, name).first->second;
      const std::string stage = classified.stages.name();
      const std::string_view category = stage.empty() ? class_name(classified.kernel_class) : std::string_view(stage);
      const auto product = [](const std::array<std::int32_t, 3>& sizes) {
        return std::int64_t{sizes[0]} * sizes[1] * sizes[2];
      };
      std::vector<Argument> arguments = {{"class", class_name(classified.kernel_class)}};
      if (!stage.empty()) arguments.push_back({"stage", std::string_view(stage)});
      if (event.grid[0] > 0) arguments.push_back({"grid", product(event.grid)});
      if (event.block[0] > 0) arguments.push_back({"threads", product(event.block)});
      writer_.slice(lanes.at(event.start, event.end()), event.start, event.length, trace_.name_of(event), category,
                    arguments);
    }
  }

  void layers(const TraceSection& section, const SectionComparison& comparison) {
    const Track group = writer_.add_group(fmt::format("{}: layers", title(section)));
    Lanes found(writer_, group, "measured");
    const SimulatedLayer* layer = comparison.layer();
    Lanes simulated(writer_, group, "simulated");
    for (std::size_t l = 0; l < section.layers.size(); ++l) {
      const LayerInstance& instance = section.layers[l];
      const TimePoint start = trace_.events[section.events[instance.kernels.front()].event].start;
      TimePoint end = start;
      for (const std::size_t i : instance.kernels) end = std::max(end, trace_.events[section.events[i].event].end());
      const Duration busy = busy_time(trace_, section, instance.kernels);
      const std::vector<Argument> arguments = {{"busy_ps", busy.value()},
                                               {"gaps_ps", (end - start - busy).value()},
                                               {"stages", std::string_view(instance.signature)},
                                               {"alike", std::int64_t{instance.regular ? 1 : 0}}};
      writer_.slice(found.at(start, end), start, end - start, fmt::format("layer {}", l), "layer", arguments);
      if (layer != nullptr && instance.regular) simulate(*layer, start, simulated);
    }
  }

 private:
  void simulate(const SimulatedLayer& layer, TimePoint start, Lanes& lanes) {
    const auto moved = [start](TimePoint at) { return start + Duration(at.value()); };
    TimePoint end = start;
    for (const SimulatedKernel& kernel : layer.kernels) end = std::max(end, moved(kernel.end));
    const Track track = lanes.at(start, end);
    TimePoint free = start;  // kernels that overlap their predecessor are shown from its end on
    for (const SimulatedKernel& kernel : layer.kernels) {
      const TimePoint from = std::max(free, moved(kernel.start));
      const TimePoint to = std::max(from, moved(kernel.end));
      free = to;
      const std::vector<Argument> arguments = {{"stage", std::string_view(kernel.stage)},
                                               {"simulated_start_ps", kernel.start.value()},
                                               {"simulated_ps", (kernel.end - kernel.start).value()},
                                               {"memory_read_bytes", kernel.memory_read.value()},
                                               {"limited_by", blame_name(kernel.limited_by)}};
      writer_.slice(track, from, to - from, kernel.name, kernel.stage, arguments);
    }
  }

  const ProfilerTrace& trace_;
  TrackWriter& writer_;
};

}  // namespace

void write_comparison_timeline(const ProfilerTrace& trace, const TraceLayers& layers, const Comparison& comparison,
                               TrackWriter& writer) {
  TimelineWriter timeline(trace, writer);
  for (std::size_t s = 0; s < layers.sections.size(); ++s) {
    timeline.measured(layers.sections[s]);
    const auto of_section = [s](const SectionComparison& section) { return section.section == s; };
    const auto compared = std::find_if(comparison.sections.begin(), comparison.sections.end(), of_section);
    if (compared != comparison.sections.end()) timeline.layers(layers.sections[s], *compared);
  }
}

}  // namespace moesim
