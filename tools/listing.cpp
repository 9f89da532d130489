#include "tools/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/commands.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string text_of(const ListingValue& cell, const char* yes, const char* no, const char* absent,
                    const char* separator) {
  return std::visit(Overloaded{[&](std::monostate) -> std::string { return absent; },
                               [&](bool value) -> std::string { return value ? yes : no; },
                               [](std::int64_t value) { return fmt::format("{}", value); },
                               [](double value) { return fmt::format("{}", six_digits(value)); },
                               [](const std::string& value) { return value; },
                               [&](const std::vector<std::string>& values) {
                                 return fmt::format("{}", fmt::join(values, separator));
                               }},
                    cell);
}

std::string table_text(const ListingValue& cell) { return text_of(cell, "yes", "no", "-", ", "); }
std::string csv_text(const ListingValue& cell) { return text_of(cell, "1", "0", "", " "); }

Json json_of(const ListingValue& cell) {
  return std::visit(
      Overloaded{[](std::monostate) { return Json(nullptr); }, [](double value) { return Json(six_digits(value)); },
                 [](const auto& value) { return Json(value); }},
      cell);
}

bool is_number(const ListingValue& cell) {
  return std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
}

std::string render_table(const Listing& listing) {
  std::ostringstream out;
  std::size_t width = 0;
  for (const Fact& fact : listing.facts) width = std::max(width, fact.column.heading.size());
  for (const Fact& fact : listing.facts) {
    out << fmt::format("{:<{}}  {}\n", fact.column.heading, width, table_text(fact.value));
  }
  if (listing.rows_key.empty()) return out.str();
  if (!listing.facts.empty()) out << '\n';
  std::vector<TextTable::Column> columns;
  for (std::size_t c = 0; c < listing.columns.size(); ++c) {
    const bool right = std::any_of(listing.rows.begin(), listing.rows.end(),
                                   [&](const std::vector<ListingValue>& row) { return is_number(row[c]); });
    columns.push_back({listing.columns[c].heading, right ? TextTable::Align::kRight : TextTable::Align::kLeft});
  }
  TextTable table(std::move(columns));
  for (const std::vector<ListingValue>& row : listing.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const ListingValue& cell : row) cells.push_back(table_text(cell));
    table.add_row(std::move(cells));
  }
  table.write(out);
  return out.str();
}

std::string render_json(const Listing& listing) {
  Json json = {{"tool", {{"name", "moesim"}, {"version", kVersion}}}};
  for (const Fact& fact : listing.facts) json[fact.column.key] = json_of(fact.value);
  if (!listing.rows_key.empty()) {
    Json& rows = json[listing.rows_key] = Json::array();
    for (const std::vector<ListingValue>& cells : listing.rows) {
      Json& row = rows.emplace_back(Json::object());
      for (std::size_t c = 0; c < cells.size(); ++c) row[listing.columns[c].key] = json_of(cells[c]);
    }
  }
  constexpr int kIndent = 2;
  return json.dump(kIndent) + "\n";
}

std::string render_csv(const Listing& listing) {
  std::ostringstream out;
  const std::size_t facts = listing.rows_key.empty() ? listing.facts.size() : listing.csv_facts;
  std::vector<std::string> headings, repeated;
  for (std::size_t f = 0; f < facts; ++f) {
    headings.push_back(listing.facts[f].column.key);
    repeated.push_back(csv_text(listing.facts[f].value));
  }
  for (const Column& column : listing.columns) headings.push_back(column.key);
  write_csv_line(headings, out);
  if (listing.rows_key.empty()) write_csv_line(repeated, out);
  for (const std::vector<ListingValue>& row : listing.rows) {
    std::vector<std::string> cells = repeated;
    for (const ListingValue& cell : row) cells.push_back(csv_text(cell));
    write_csv_line(cells, out);
  }
  return out.str();
}

}  // namespace

std::string render(const Listing& listing, OutputFormat format) {
  switch (format) {
    case OutputFormat::kTable:
      return render_table(listing);
    case OutputFormat::kJson:
      return render_json(listing);
    case OutputFormat::kCsv:
      return render_csv(listing);
  }
  return "";
}

}  // namespace moesim
