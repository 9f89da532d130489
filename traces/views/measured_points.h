// Measured times that can stand beside a study's: of the same layer, device, shard, formats, scope, launch and routing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/measurement.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

struct MeasuredPoint {
  MoeMeasurement row;
  std::size_t strategy = 0;  // of the request, the first that the row can be of
};

struct MeasuredPoints {
  std::vector<std::string> files;  // as given
  std::vector<MeasuredPoint> points;
  std::map<std::string, std::int64_t> left_out;  // by reason: what else a row is of
};

// Rows of stages and of other things are left out and counted, by the first reason that applies.
MeasuredPoints match_measured(const std::vector<MoeMeasurement>& rows, const ConcurrencyRequest& request);

}  // namespace moesim
