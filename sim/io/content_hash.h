// A short name for a file's bytes, so that outputs can say what they were made from.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

// FNV-1a, 64 bits, as 16 hex digits.
std::string content_hash(std::string_view bytes);

}  // namespace moesim
