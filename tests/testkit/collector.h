// Keeps what a run tells its listener.
#pragma once

#include <vector>

#include "sim/engine/simulate.h"
#include "sim/timeline/timeline.h"

namespace moesim::testkit {

struct Collector : TimelineListener {
  void on_start(const ExecutionPlan&, const Machine&) override { ++started; }
  void on_span(const Span& span) override { spans.push_back(span); }
  void on_load(const MachineLoad& load) override { loads.push_back(load); }
  void on_end(const SimulationResult& run) override {
    ++ended;
    total = run.total;
  }

  int started = 0, ended = 0;
  Duration total;
  std::vector<Span> spans;
  std::vector<MachineLoad> loads;
};

}  // namespace moesim::testkit
