#include "workloads/studies/sweep.h"

#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {

SweepPoint simulate_sweep_point(const AxisGrid& grid, std::size_t number, const PointRequest& request_of) {
  SweepPoint point;
  point.number = number;
  point.values = grid.values(number);
  try {
    const ConcurrencyRequest request = request_of(point.values);
    MOESIM_CHECK(request.concurrencies.size() == 1);
    point.shape = {request.model.experts, request.model.topk, request.model.expert_intermediate};
    point.result = run_concurrency_study(request);
  } catch (const InputError& error) {
    point.result = std::string(error.what());
  }
  return point;
}

}  // namespace moesim
