#include "traces/importers/csv_table.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"

namespace moesim {
namespace {

constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;

// The fields of one line.
std::vector<std::string> split(std::string_view line, const std::string& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      const bool escaped = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (escaped) cells.back() += line[++i];
      if (!escaped) quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) throw InputError({place, "", "an open quote at the end of the line", "a closing quote", ""});
  return cells;
}

}  // namespace

CsvTable::CsvTable(const std::string& path, const std::vector<std::string>& required) : path_(path) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", path, number);
    std::vector<std::string> cells = split(line, place);
    if (columns_.empty()) {
      columns_ = std::move(cells);
      continue;
    }
    if (cells.size() != columns_.size()) {
      throw InputError({place, "", fmt::format("{} fields", cells.size()),
                        fmt::format("{}, as the header has", columns_.size()), ""});
    }
    rows_.push_back(CsvRow(*this, number, std::move(cells)));
  }
  if (columns_.empty()) throw InputError({path, "", "an empty file", "a CSV file with a header", ""});
  for (std::size_t i = 0; i < columns_.size(); ++i) places_.emplace(columns_[i], i);
  for (const std::string& column : required) {
    if (has(column)) continue;
    throw InputError(
        {path, "header", "no column '" + column + "'", "a column of that name", nearest_name(column, columns_)});
  }
}

const std::string& CsvRow::text(const std::string& column) const { return cells_[table_->places_.at(column)]; }

void CsvRow::fail(const std::string& column, const std::string& expected) const {
  throw InputError(
      {fmt::format("{}:{}", table_->path_, line_), column, fmt::format("'{}'", text(column)), expected, ""});
}

std::int64_t CsvRow::whole(const std::string& column, std::int64_t min, std::int64_t max) const {
  const double value = number(column, static_cast<double>(min), static_cast<double>(max));
  if (value != std::floor(value)) fail(column, "a whole number");
  return static_cast<std::int64_t>(value);
}

double CsvRow::number(const std::string& column, double min, double max) const {
  const std::string& cell = text(column);
  double value = 0;
  const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || stop != cell.data() + cell.size() || !(value >= min && value <= max)) {
    fail(column, fmt::format("a number from {} to {}", min, max));
  }
  return value;
}

}  // namespace moesim
