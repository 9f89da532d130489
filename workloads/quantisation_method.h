// The number format that a quantisation object of a config.json states for the layers that it covers.
#pragma once

#include "sim/io/strict_json.h"
#include "workloads/dtype.h"

namespace moesim {

struct QuantisationMethod {
  WeightFormat format;
  bool experts_only = false;  // the method leaves everything but routed experts alone
  bool mixed = false;         // each module's format stands in quantized_layers; `format` is of the rest
};

// `unquantised`: the format of what is left alone. Throws InputError: an unknown method, a block or group size that is
// not modelled.
QuantisationMethod read_quantisation_method(const JsonView& quantisation, WeightFormat unquantised);

// ModelOpt's name of a format ("NVFP4", "FP8", ...).
WeightFormat read_modelopt_algorithm(const JsonView& quantisation);

}  // namespace moesim
