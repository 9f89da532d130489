// A crossover study as JSON: what is printed, and what its page is drawn from.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "workloads/studies/crossover.h"

namespace moesim {

// Schema moesim.crossover/1.
nlohmann::ordered_json crossover_data(const CrossoverStudy& study);

}  // namespace moesim
