// kernel_classes/*.json as compiled into the binary (generated at build time), sorted by file name.
#pragma once

#include <span>

#include "sim/io/embedded.h"

namespace moesim {

std::span<const EmbeddedFile> kernel_class_files();

}  // namespace moesim
