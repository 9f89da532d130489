// Comma-separated values as RFC 4180 has them, but with plain newlines.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace moesim {

// Cells with a comma, a quote or a line break are quoted.
void write_csv_line(const std::vector<std::string>& cells, std::ostream& out);

}  // namespace moesim
