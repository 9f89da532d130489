// A serving study as JSON values, for the views that write JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "traces/views/serving_views.h"

namespace moesim {

double milliseconds(Duration d);                                      // six digits
nlohmann::ordered_json serving_head_json(const ServingStudy& study);  // of what it was made
nlohmann::ordered_json serving_strategies_json(const ServingStudy& study);
nlohmann::ordered_json serving_point_json(const ServingStudy& study, const ServingFigures& figures);

}  // namespace moesim
