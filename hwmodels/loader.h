// Device files -> HardwareModel.
//
// File: one object {"schema": "moesim.device/1", "name", "title", "vendor", "architecture", "unit_name", "aliases": [],
// "notes", and nested objects of constants: "hbm": {"bandwidth": {"value": "4.8 TB/s", "kind": "datasheet",
// "source": "..."}}}. Dimensionless constants have a JSON number as value. Kind is one of datasheet, published,
// microbenchmark, assumed; the source may not be empty; "uncertainty": 0.1 says that p5 and p95 lie 10 % lower and higher
// (absent: what is usual for the kind, uncertainty.h). Unknown, duplicate, misspelt keys and numbers out of range are
// errors that name file, pointer and the nearest known key.
#pragma once

#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"

namespace moesim {

// Names of the devices that come with moesim, sorted.
std::vector<std::string> device_names();

// A name, an alias or a path to a device file (a path holds '/' or ends in .json). Throws InputError.
HardwareModel load_hardware(const std::string& name_or_path);
HardwareModel parse_hardware(const std::string& text, const std::string& file_name);

// "hbm.bandwidth=6TB/s": replaces one number. Throws InputError (flag --set) for an unknown path, a missing or wrong
// unit, a value out of range.
void apply_override(HardwareModel& hardware, const std::string& assignment);

}  // namespace moesim
