// What the HTML report shows, as one JSON object: the page is this and a template.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/views/measured_points.h"
#include "traces/views/memory_rate.h"
#include "workloads/studies/concurrency.h"
#include "workloads/studies/ladder.h"
#include "workloads/studies/sensitivity.h"

namespace moesim {

struct Report {
  const ConcurrencyRequest& request;
  const ConcurrencyStudy& study;            // of the request, explained
  std::vector<LadderOrInfeasible> ladders;  // at most one a concurrency
  MeasuredPoints measured;
  // Of the first routing, by point and strategy, where its kernels are kept; what is missing is not shown.
  std::vector<std::vector<MemoryRate>> memory_rates;
  std::optional<SensitivityStudy> sensitivity;  // at one concurrency, where asked for
};

// Schema moesim.report/1. Times are in picoseconds, where a name does not say otherwise.
std::string report_data(const Report& report);

}  // namespace moesim
