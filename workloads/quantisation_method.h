// The number format that a quantisation object of a config.json states for the layers that it covers.
#pragma once

#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "workloads/dtype.h"

namespace moesim {

// Of the modules that a name or pattern covers.
struct ModuleFormat {
  std::string module;
  WeightFormat format;
};

struct QuantisationMethod {
  WeightFormat format;
  bool experts_only = false;          // the method leaves everything but routed experts alone
  std::vector<ModuleFormat> modules;  // mixed precision: formats by module; `format` is of the rest
};

// `unquantised`: the format of what is left alone. Throws InputError: an unknown method, a block or group size that is
// not modelled.
QuantisationMethod read_quantisation_method(const JsonView& quantisation, WeightFormat unquantised);

// ModelOpt's name of a format ("NVFP4", "FP8", ...).
WeightFormat read_modelopt_algorithm(const JsonView& quantisation);

}  // namespace moesim
