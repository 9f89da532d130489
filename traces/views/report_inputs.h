// Everything that went into a study, each with where it comes from.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "workloads/studies/concurrency.h"

namespace moesim {

// {"run","model","device","fitted"}: lists of rows.
nlohmann::ordered_json report_inputs(const ConcurrencyRequest& request, const Provenance& provenance);

}  // namespace moesim
