// What the HTML report shows, as one JSON object: the page is this and a template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/views/measured_points.h"
#include "workloads/studies/concurrency.h"
#include "workloads/studies/ladder.h"

namespace moesim {

struct ReportLadder {
  std::int64_t concurrency = 0;
  Ladder ladder;
};

struct Report {
  const ConcurrencyRequest& request;
  const ConcurrencyStudy& study;      // of the request, explained
  std::vector<ReportLadder> ladders;  // in order of concurrency
  MeasuredPoints measured;
};

// Schema moesim.report/1. Times are in picoseconds, where a name does not say otherwise.
std::string report_data(const Report& report);

}  // namespace moesim
