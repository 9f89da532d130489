// Views of a search for tile configurations.
#pragma once

#include <iosfwd>
#include <string>

#include "workloads/studies/tune.h"

namespace moesim {

void write_tune_table(const TuneStudy& study, std::ostream& out);
void write_tune_json(const TuneStudy& study, std::ostream& out);
void write_tune_csv(const TuneStudy& study, std::ostream& out);

// Its values in the order of the space: "16/64/128/1/4/4"; "-" where the strategy's own rules say.
std::string tile_text(const Parameters& tile, const std::vector<ParameterRange>& space);

}  // namespace moesim
