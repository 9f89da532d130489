// The model files that come with moesim, compiled in (generated from workloads/models/*.json by cmake/embed.cmake).
#pragma once

#include <span>

#include "sim/io/embedded.h"

namespace moesim {

// Sorted by name: "deepseek-v3.json", ...
std::span<const EmbeddedFile> model_files();

}  // namespace moesim
