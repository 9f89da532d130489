// Comma-separated values as RFC 4180 has them, but with plain newlines.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace moesim {

// Cells with a comma, a quote or a line break are quoted.
void write_csv_line(const std::vector<std::string>& cells, std::ostream& out);

// Heading and text side by side, so that they cannot come apart.
struct CsvCell {
  std::string heading, text;
};

// Rows that all have the same headings, which stand before the first.
class CsvRows {
 public:
  explicit CsvRows(std::ostream& out) : out_(out) {}
  void write(const std::vector<CsvCell>& cells);

 private:
  std::ostream& out_;
  bool first_ = true;
};

}  // namespace moesim
