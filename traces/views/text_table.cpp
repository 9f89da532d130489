#include "traces/views/text_table.h"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <utility>

#include "sim/units/check.h"

namespace moesim {
namespace {

std::size_t display_width(const std::string& text) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  MOESIM_CHECK(!cells.empty() && cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::add_gap() { rows_.emplace_back(); }

void TextTable::write(std::ostream& out) const {
  std::vector<std::string> headings;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    headings.push_back(column.heading);
    widths.push_back(display_width(column.heading));
  }
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  const auto write_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - display_width(cells[c]), ' ');
      line += "  ";
      line += columns_[c].align == Align::kRight ? padding + cells[c] : cells[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  write_line(headings);
  for (const auto& row : rows_) write_line(row);
}

}  // namespace moesim
