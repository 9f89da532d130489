#include "traces/timeline/load_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

constexpr double kTera = 1e12, kPercent = 100;
constexpr double kThousandths = 1000, kTenths = 10, kWhole = 1;

}  // namespace

LoadCounters::LoadCounters(TrackWriter& writer, TrackWriter::Track group, const Machine& machine, Duration step)
    : writer_(writer), group_(group), step_(step) {
  for (std::size_t j = machine.channels.size(); j-- > 0;) {  // memory first
    const std::string& name = machine.channels[j].name;
    add_counter(fmt::format("{}: bytes a second", name), "TB/s", 1 / kTera, kThousandths, true,
                [j](const MachineLoad& load) { return load.rate[j]; });
    add_counter(fmt::format("{}: share of its peak", name), "%", kPercent, kTenths, true,
                [j](const MachineLoad& load) { return load.use[j]; });
  }
  add_counter("bytes in flight", "B", 1, kWhole, true, [](const MachineLoad& load) { return load.bytes_in_flight; });
  add_counter("on-chip bytes held", "B", 1, kWhole, true, [](const MachineLoad& load) { return load.on_chip_bytes; });
  add_counter("matrix pipes: share in use", "%", kPercent, kTenths, true,
              [](const MachineLoad& load) { return load.matrix_use; });
  add_counter("active work items", "items", 1, kTenths, true,
              [](const MachineLoad& load) { return static_cast<double>(load.flowing + load.waiting); });
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    add_counter(fmt::format("items bound by {}", blame_name(static_cast<Blame>(b))), "items", 1, kTenths, false,
                [b](const MachineLoad& load) { return load.bound[b]; });
  }
}

void LoadCounters::add_counter(std::string name, std::string unit, double scale, double decimals, bool always,
                               std::function<double(const MachineLoad&)> value) {
  Counter& counter = counters_.emplace_back();
  counter.name = std::move(name);
  counter.unit = std::move(unit);
  counter.scale = scale;
  counter.decimals = decimals;
  counter.value = std::move(value);
  if (always) counter.track = writer_.add_counter(group_, counter.name, counter.unit);
}

void LoadCounters::add(const MachineLoad& load) {
  // Cut at the borders of steps, so that each step's mean is of all that happens in it.
  TimePoint from = load.from;
  while (from < load.to) {
    const TimePoint border = step_ > Duration(0) ? begin_ + step_ : load.to;
    const TimePoint to = std::min(border, load.to);
    for (Counter& counter : counters_) counter.sum += counter.value(load) * (to - from).as_double();
    from = now_ = to;
    if (to == border) show(begin_, border);
  }
}

void LoadCounters::show(TimePoint at, TimePoint until) {
  const double length = (until - at).as_double();
  for (Counter& counter : counters_) {
    const double mean = length > 0 ? counter.sum / length : 0;
    const double value = std::round(mean * counter.scale * counter.decimals) / counter.decimals;
    counter.sum = 0;
    if (value == counter.shown || (!counter.track && value == 0)) continue;
    if (!counter.track) {
      counter.track = writer_.add_counter(group_, counter.name, counter.unit);
      if (at > TimePoint()) writer_.count(*counter.track, TimePoint(), 0);
    }
    writer_.count(*counter.track, at, value);
    counter.shown = value;
  }
  begin_ = until;
}

void LoadCounters::finish() {
  if (now_ > begin_) show(begin_, now_);
  show(now_, now_);
}

}  // namespace moesim
