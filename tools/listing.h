// What `models`, `devices` and `strategies` print: facts about one thing, or a table of many, in each format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/common_flags.h"

namespace moesim {

using ListingValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct Column {
  std::string key;      // JSON and CSV
  std::string heading;  // table
};

struct Fact {
  Column column;
  ListingValue value;
};

struct Listing {
  std::vector<Fact> facts;  // of the one thing that is shown; empty in a list of many
  std::string rows_key;     // "models", "constants"; "": no rows
  std::vector<Column> columns;
  std::vector<std::vector<ListingValue>> rows;
  std::size_t csv_facts = 0;  // facts at the front that each CSV line repeats before its row
};

std::string render(const Listing& listing, OutputFormat format);

}  // namespace moesim
