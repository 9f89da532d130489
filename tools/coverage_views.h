// How many rows lay within their p5 to p95: a part of what `validate` prints.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "validation/coverage.h"

namespace moesim {

void write_coverage_table(const Coverage& coverage, std::ostream& out);
void write_coverage_markdown(const Coverage& coverage, std::ostream& out);
nlohmann::ordered_json coverage_json(const Coverage& coverage);

}  // namespace moesim
