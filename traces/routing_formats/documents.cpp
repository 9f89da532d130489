// Routings that are one JSON object.
#include <set>

#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/limits.h"
#include "traces/routing_formats/token_table.h"

namespace moesim {

// moe-routing-atlas: {"model_id", "num_experts", "top_k", "activations": [{"layer", "token_idx", "expert_idx", ...}]}, an entry
// per pick. The tokens of the text are one step.
bool is_atlas(const RoutingFile& file) { return file.has_key("activations") && file.has_key("num_experts"); }

RoutedTrace read_atlas(const RoutingFile& file) {
  const JsonView atlas = file.only();
  TraceBuilder builder(file);
  if (atlas.has("model_id")) builder.set_model(atlas.at("model_id").as_string());
  builder.set_experts(atlas.at("num_experts"));
  if (atlas.has("top_k")) builder.set_topk(atlas.at("top_k"));
  TokenTable table;
  const JsonView activations = atlas.at("activations");
  for (std::size_t i = 0; i < activations.size(); ++i) {
    const JsonView pick = activations.at(i);
    const JsonView expert = pick.at("expert_idx");
    TokenTable::Row& row = table.row(pick.at("layer").as_int(0, kMostId),
                                     {.request = "", .token = pick.at("token_idx").as_int(0, kMostId)});
    row.ids.push_back(expert.as_int(-kMostExperts, kMostId));
    row.places.push_back({expert.file(), expert.pointer()});
  }
  table.flush(builder, 0);
  return builder.finish();
}

// vference: {"format": "vference.route-trace.v1", "records": [{"layer_id", "expert_ids": [[...], ...]}]}, layers in the order
// they ran. A layer that comes again begins a step.
bool is_vference(const RoutingFile& file) {
  if (!file.has_key("format") || !file.first().is_object() || !file.first().at("format").is_string()) return false;
  return file.first().at("format").as_string().starts_with("vference.route-trace.");
}

RoutedTrace read_vference(const RoutingFile& file) {
  const JsonView root = file.only();
  if (root.at("format").as_string() != "vference.route-trace.v1") root.at("format").fail("'vference.route-trace.v1'");
  TraceBuilder builder(file);
  if (root.has("artifact")) builder.set_source(root.at("artifact").as_string());
  const JsonView records = root.at("records");
  std::set<std::int64_t> layers;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const JsonView record = records.at(i);
    const std::int64_t layer = record.at("layer_id").as_int(0, kMostId);
    if (layers.contains(layer)) layers.clear();
    if (layers.empty()) builder.begin_step(steps++);
    layers.insert(layer);
    builder.add_rows(layer, record.at("expert_ids"));
  }
  return builder.finish();
}

}  // namespace moesim
