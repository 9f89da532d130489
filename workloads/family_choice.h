// Which family a config.json is of.
#pragma once

#include "workloads/model_families.h"

namespace moesim {

// The object of the language model: models with vision or audio parts keep it some levels down.
JsonView language_config(const JsonView& root);

// By model_type (the inner one, then the outer), else by the architecture's name. The user may name a family, or with
// other overrides have an unknown one read by whatever keys it has. Throws InputError: a dense model; an unknown family
// (with what was found, what is missing and the nearest known one).
const Family& choose_family(const ConfigReader& reader);

// model_type of the file, the outer one where nested.
std::string family_name(const ConfigReader& reader);

}  // namespace moesim
