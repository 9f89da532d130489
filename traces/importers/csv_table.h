// Reads a CSV file of another project: a header, then one record a line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moesim {

class CsvTable;

class CsvRow {
 public:
  [[nodiscard]] std::int64_t line() const { return line_; }
  [[nodiscard]] const std::string& text(const std::string& column) const;
  [[nodiscard]] bool empty(const std::string& column) const { return text(column).empty(); }
  // Throw InputError with file, line and column.
  [[nodiscard]] std::int64_t whole(const std::string& column, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] double number(const std::string& column, double min, double max) const;
  [[noreturn]] void fail(const std::string& column, const std::string& expected) const;

 private:
  friend class CsvTable;
  CsvRow(const CsvTable& table, std::int64_t line, std::vector<std::string> cells)
      : table_(&table), line_(line), cells_(std::move(cells)) {}
  const CsvTable* table_;
  std::int64_t line_;
  std::vector<std::string> cells_;
};

// Fields may stand in double quotes. Rows refer to the table, which stays where it is.
class CsvTable {
 public:
  // Throws InputError: no header, a record of another length, a column of `required` that is missing.
  CsvTable(const std::string& path, const std::vector<std::string>& required);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] bool has(const std::string& column) const { return places_.contains(column); }
  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }

 private:
  friend class CsvRow;
  std::string path_;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t> places_;
  std::vector<CsvRow> rows_;
};

}  // namespace moesim
