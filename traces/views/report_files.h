// views/report/* and D3 as compiled into the binary (generated at build time), sorted by path.
#pragma once

#include <span>

#include "sim/io/embedded.h"

namespace moesim {

std::span<const EmbeddedFile> report_files();

}  // namespace moesim
