// Rows that come token by token in any order, of one step, until they go to the builder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "traces/routing_formats/trace_builder.h"

namespace moesim {

class TokenTable {
 public:
  struct Key {
    std::string request;
    std::int64_t token = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Row {
    std::vector<std::int64_t> ids;
    std::vector<Place> places;  // of each id; one for all of them where there is only one
  };

  [[nodiscard]] bool empty() const { return layers_.empty(); }
  [[nodiscard]] bool has(std::int64_t layer, const Key& key) const;
  // The row, empty at first.
  Row& row(std::int64_t layer, const Key& key) { return layers_[layer][key]; }
  // Adds all rows to the builder as a step of that id, tokens in the order of their keys, and empties the table.
  void flush(TraceBuilder& builder, std::int64_t step);

 private:
  std::map<std::int64_t, std::map<Key, Row>> layers_;
};

// The ids of a JSON array as a row.
TokenTable::Row row_of(const JsonView& ids);

}  // namespace moesim
