#include "traces/views/csv.h"

#include <ostream>
#include <string_view>

namespace moesim {
namespace {

std::string quoted(std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(cell);
  std::string text = "\"";
  for (const char c : cell) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

}  // namespace

void write_csv_line(const std::vector<std::string>& cells, std::ostream& out) {
  const char* separator = "";
  for (const std::string& cell : cells) {
    out << separator << quoted(cell);
    separator = ",";
  }
  out << '\n';
}

void CsvRows::write(const std::vector<CsvCell>& cells) {
  std::vector<std::string> headings, texts;
  for (const CsvCell& cell : cells) {
    headings.push_back(cell.heading);
    texts.push_back(cell.text);
  }
  if (first_) write_csv_line(headings, out_);
  first_ = false;
  write_csv_line(texts, out_);
}

}  // namespace moesim
