// How `moesim route` prints.
#pragma once

#include <cstdint>
#include <string>

#include "tools/common_flags.h"
#include "tools/routing_flags.h"
#include "workloads/studies/routing_study.h"

namespace moesim {

struct RouteReport {
  std::string model;  // "": sizes only
  std::string model_file;
  RouterShape router;
  std::string routing;  // the law with its options, or the trace
  ChosenRouting chosen;
  std::int64_t layers = 1, steps = 1, samples = 1;
  std::uint64_t seed = 1;
  bool recorded = false;  // a trace: layers, steps, samples and seed say nothing
  std::string out_file;   // "": none
  RoutingStudy study;
};

std::string render(const RouteReport& report, OutputFormat format);

}  // namespace moesim
