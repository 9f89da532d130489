// Rows per expert: the input of EPLB (deepseek-ai/EPLB, weight [layers, experts]) as nested lists, or as the key "weight"
// or "logical_count"; and activation maps, {"domain", "dataset", "layers": {"0": {"hits": [...]}}}. A .npy of loads looks
// like one of ids: `eplb=FILE.npy` says what it is, or a sidecar with "data": "counts".
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <system_error>

#include "traces/routing_formats/archive.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/limits.h"
#include "traces/routing_formats/load_arrays.h"
#include "traces/routing_formats/trace_builder.h"

namespace moesim {
namespace {

constexpr const char* kKeys[] = {"logical_count", "weight"};

bool is_matrix(const JsonView& view) {
  return view.is_array() && view.size() > 0 && view.at(0).is_array() && view.at(0).size() > 0;
}

void add_layers(TraceBuilder& builder, const JsonView& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) builder.add_counts(static_cast<std::int64_t>(i), layers.at(i));
}

std::int64_t layer_number(const JsonView& layers, const std::string& key) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 0 || number > kMostId) {
    layers.at(key).fail("a layer's number as its key");
  }
  return number;
}

}  // namespace

RoutedTrace trace_of_loads(const RoutingFile& file, const IntegerArray& array) {
  const std::size_t rank = array.shape.size();
  if (rank != 2 && rank != 3) {
    file.fail("header", fmt::format("{} dimensions", rank), "loads [layers, experts] or [steps, layers, experts]");
  }
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    if (array.values[i] >= 0 && array.values[i] <= kMostCount) continue;
    file.fail(index_text(i, array.shape), fmt::format("a load of {}", array.values[i]),
              fmt::format("0 to {}", kMostCount));
  }
  TraceBuilder builder(file);
  const std::int64_t layers = array.shape[rank - 2], experts = array.shape[rank - 1];
  const std::int64_t steps = rank == 3 ? array.shape[0] : 1;
  for (std::int64_t step = 0; step < steps; ++step) {
    builder.begin_step(step);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto begin = static_cast<std::size_t>((step * layers + layer) * experts);
      builder.add_counts(layer, std::span(array.values).subspan(begin, static_cast<std::size_t>(experts)),
                         [&](std::size_t i) {
                           return Place{file.path(), index_text(begin + i, array.shape)};
                         });
    }
  }
  return builder.finish();
}

bool is_eplb(const RoutingFile& file) {
  if (file.binary()) return false;
  return is_matrix(file.first()) || file.has_key(kKeys[0]) || file.has_key(kKeys[1]);
}

RoutedTrace read_eplb(const RoutingFile& file) {
  if (is_npy(file)) return trace_of_loads(file, parse_npy(file.bytes(), file.path()));
  if (is_npz(file)) return trace_of_loads(file, read_npz(file.path()));
  std::optional<JsonView> loads = file.only();
  for (const char* key : kKeys) {
    if (loads->is_object() && loads->has(key)) loads = loads->at(key);
  }
  if (!is_matrix(*loads)) loads->fail("loads, [layers][experts] or [steps][layers][experts]");
  TraceBuilder builder(file);
  const bool has_steps = is_matrix(loads->at(0));
  for (std::size_t step = 0; step < (has_steps ? loads->size() : 1); ++step) {
    builder.begin_step(static_cast<std::int64_t>(step));
    add_layers(builder, has_steps ? loads->at(step) : *loads);
  }
  return builder.finish();
}

bool is_activation_map(const RoutingFile& file) {
  if (!file.has_key("layers") || !file.first().is_object()) return false;
  const JsonView layers = file.first().at("layers");
  if (!layers.is_object() || layers.keys().empty()) return false;
  const JsonView layer = layers.at(layers.keys().front());
  return layer.is_object() && layer.has("hits");
}

RoutedTrace read_activation_map(const RoutingFile& file) {
  const JsonView map = file.only();
  TraceBuilder builder(file);
  std::string source;
  for (const char* key : {"domain", "dataset"}) {
    if (map.has(key)) source += (source.empty() ? "" : ", ") + map.at(key).as_string();
  }
  builder.set_source(source);
  builder.begin_step(0);
  const JsonView layers = map.at("layers");
  for (const std::string& key : layers.keys()) {
    builder.add_counts(layer_number(layers, key), layers.at(key).at("hits"));
  }
  return builder.finish();
}

}  // namespace moesim
