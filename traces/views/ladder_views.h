// The speed-up ladder of a study, as text and as JSON.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "workloads/studies/ladder.h"

namespace moesim {

// A sentence, the rungs in the stated order and those in the reverse one; what costs neither strategy anything is left out.
void write_ladder(const LadderOrInfeasible& ladder, std::ostream& out);

// What a rung costs time for, in words.
std::string ladder_title(const LadderRung& rung);

// All rungs and runs in picoseconds, so that each can be checked by a run of its own.
nlohmann::ordered_json ladder_json(const LadderOrInfeasible& ladder);

}  // namespace moesim
