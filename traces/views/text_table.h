// Aligned columns of text, for people.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace moesim {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells);  // as many as columns
  void add_gap();                                // an empty line between rows
  // The headings and the rows, each indented by two; nothing trails a line. Widths count UTF-8 characters.
  void write(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a gap
};

}  // namespace moesim
