// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

// As content or in a quoted attribute: & < > " by name.
std::string escaped_markup(std::string_view text);

}  // namespace moesim
