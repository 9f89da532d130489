// Data files compiled into the binary (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace moesim {

struct EmbeddedFile {
  std::string_view name;  // "h200.json"
  std::string_view text;
};

}  // namespace moesim
