// Text as both formats take it.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

// What is not UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);
// A JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);

}  // namespace moesim
