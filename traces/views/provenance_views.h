// What every output names: who made it and of what.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "workloads/studies/concurrency.h"

namespace moesim {

// The head of a table, with an empty line after it.
void write_provenance(const Provenance& provenance, std::ostream& out);
// {"tool","calibration","device","model","scope","launch","routing","samples","seed",…,"constants"}
nlohmann::ordered_json provenance_json(const Provenance& provenance);
// The same as pages name it: {"version","model","device","device_title","device_hash","launch","weights","activations",
// "routing","seed","calibration"}.
nlohmann::ordered_json page_head_json(const Provenance& provenance);
// "one MoE layer (moe_layer)", "a decode step of ...".
std::string subject_text(const Provenance& provenance);

}  // namespace moesim
