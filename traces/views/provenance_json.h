// What a JSON output says of who made it and of what.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "workloads/studies/concurrency.h"

namespace moesim {

nlohmann::ordered_json provenance_json(const std::string& schema, const Provenance& provenance);

}  // namespace moesim
