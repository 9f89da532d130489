// The start of every study's JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "workloads/studies/concurrency.h"

namespace moesim {

// The schema's name, and what made the study and of what.
nlohmann::ordered_json study_json(const Provenance& provenance, const char* schema);

}  // namespace moesim
