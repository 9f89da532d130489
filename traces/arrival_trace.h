// Reads recorded arrivals: JSON Lines or CSV, told apart by the first character.
//
//   {"arrival_s": 0.25, "prompt_tokens": 512, "output_tokens": 64, "session": "a"}
//   arrival_s,prompt_tokens,output_tokens,session
// A line is a turn; `session` may be left out (a session of its own) and is any text. Lines may come in any order of time.
#pragma once

#include <string>
#include <vector>

#include "workloads/sessions/arrivals.h"

namespace moesim {

// Sessions by their first arrival, then by their first line. Throws InputError that names file and line.
std::vector<Session> read_arrivals(const std::string& path);

}  // namespace moesim
