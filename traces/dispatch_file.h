// Dispatch tables as files for engines: JSON (moesim.dispatch/1) and a C header (README of this folder).
#pragma once

#include <iosfwd>
#include <string>

#include "workloads/studies/dispatch.h"

namespace moesim {

void write_dispatch_json(const CrossoverStudy& study, const DispatchTable& table, std::ostream& out);

// C99 and C++ without warnings. All names begin with `prefix`, a C identifier.
void write_dispatch_header(const CrossoverStudy& study, const DispatchTable& table, const std::string& prefix,
                           std::ostream& out);

// A C identifier made of a file's name without folder and extension: "tables/qwen-h200.h" -> "qwen_h200".
std::string dispatch_prefix(const std::string& path);

}  // namespace moesim
