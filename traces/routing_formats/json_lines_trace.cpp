// Our own JSON Lines. First line: what a sidecar holds. Then a line per step and layer: {"step": 0, "layer": 3, "ids":
// [[...], ...]}, ids by token, or "counts": [...], rows per expert.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "sim/io/input_error.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/limits.h"
#include "traces/routing_formats/trace_builder.h"

namespace moesim {

bool is_json_lines_trace(const RoutingFile& file) { return !file.binary() && is_routing_schema(file.first()); }

RoutedTrace read_json_lines_trace(const RoutingFile& file) {
  JsonLines lines = file.lines();
  const std::optional<JsonDocument> first = lines.next();
  const JsonView meta = first->root();
  const Sidecar stated = parse_sidecar(meta);
  TraceBuilder builder(file);
  builder.set_model(stated.model);
  builder.set_source(stated.source);
  if (stated.experts > 0) builder.set_experts(meta.at("experts"));
  if (stated.topk > 0) builder.set_topk(meta.at("topk"));
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  while (const std::optional<JsonDocument> line = lines.next()) {
    const JsonView row = line->root();
    row.only_keys({"step", "layer", "ids", "counts"});
    const std::int64_t step = row.at("step").as_int(0, kMostId);
    const std::int64_t layer = row.at("layer").as_int(0, kMostId);
    if (!seen.insert({step, layer}).second) {
      throw InputError({row.file(), "", fmt::format("step {}, layer {} a second time", step, layer), "each once", ""});
    }
    builder.find_step(step, layer);
    if (row.has("counts") && !row.has("ids")) {
      builder.add_counts(layer, row.at("counts"));
    } else {
      builder.add_rows(layer, row.at("ids"));
    }
  }
  RoutedTrace trace = builder.finish();
  trace.warm_up = stated.warm_up;
  trace.from_counts = trace.from_counts || stated.from_counts;
  return trace;
}

}  // namespace moesim
