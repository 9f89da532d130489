#include "traces/routing_formats/token_table.h"

#include <algorithm>

#include "traces/routing_formats/limits.h"

namespace moesim {

bool TokenTable::has(std::int64_t layer, const Key& key) const {
  const auto rows = layers_.find(layer);
  return rows != layers_.end() && rows->second.contains(key);
}

void TokenTable::flush(TraceBuilder& builder, std::int64_t step) {
  if (empty()) return;
  builder.begin_step(step);
  for (const auto& [layer, rows] : layers_) {
    for (const auto& [key, row] : rows) {
      builder.add_rows(layer, row.ids, static_cast<std::int64_t>(row.ids.size()), Padding::kNone,
                       [&places = row.places](std::size_t i) { return places[std::min(i, places.size() - 1)]; });
    }
  }
  layers_.clear();
}

TokenTable::Row row_of(const JsonView& ids) {
  if (ids.size() == 0) ids.fail("an array of expert ids");
  TokenTable::Row row{.ids = {}, .places = {{ids.file(), ids.pointer()}}};
  for (std::size_t i = 0; i < ids.size(); ++i) row.ids.push_back(ids.at(i).as_int(-kMostExperts, kMostId));
  return row;
}

}  // namespace moesim
