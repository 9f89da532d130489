// A grid of points, each a study of one concurrency: what a sweep computes of it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "workloads/studies/concurrency.h"
#include "workloads/studies/grid.h"

namespace moesim {

// What all points have in common, for the record.
struct Sweep {
  std::string tool_version;
  AxisGrid grid;
  std::vector<std::string> flags;  // what was asked for: "--model=mixtral-8x7b"
  std::string request;             // 16 hex digits: of version, flags, axes and all files that are read
  bool step = false;               // points are decode steps, not layers
};

struct SweepPoint {
  std::size_t number = 0;
  std::vector<AxisValue> values;                       // of the grid's axes
  ExpertShape shape;                                   // of the model, where there is one
  std::variant<ConcurrencyStudy, std::string> result;  // of one concurrency; or why the point makes no sense
};

// The request of one point. Throws InputError where its values do not go together.
using PointRequest = std::function<ConcurrencyRequest(const std::vector<AxisValue>&)>;

// A point whose request is refused, by `request_of` or by what simulates it, is a value that says why.
SweepPoint simulate_sweep_point(const AxisGrid& grid, std::size_t number, const PointRequest& request_of);

}  // namespace moesim
