// Logs with a line of JSON per forward pass, or per layer of one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/io/input_error.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/limits.h"
#include "traces/routing_formats/trace_builder.h"

namespace moesim {

// Megatron-Core, --moe-routing-trace-path: {"step", "stage", "block", "layer", "num_tokens", "topk", "top_indices"} per layer
// and micro-batch of a rank. A layer that comes again in a step is the next micro-batch, a step of its own here.
bool is_megatron(const RoutingFile& file) { return file.has_key("top_indices"); }

RoutedTrace read_megatron(const RoutingFile& file) {
  TraceBuilder builder(file);
  std::int64_t other_stages = 0, other_blocks = 0;
  JsonLines lines = file.lines();
  while (const std::optional<JsonDocument> document = lines.next()) {
    const JsonView line = document->root();
    if (line.has("stage") && line.at("stage").as_string() != "pre_dispatch") {
      ++other_stages;
      continue;
    }
    if (line.has("block") && line.at("block").as_string() != "decoder") {
      ++other_blocks;
      continue;
    }
    const JsonView rows = line.at("top_indices");
    if (line.has("num_tokens") && std::cmp_not_equal(line.at("num_tokens").as_int(0, kMostPicks), rows.size())) {
      line.at("num_tokens").fail(fmt::format("{}, the rows of top_indices", rows.size()));
    }
    if (line.has("topk")) builder.set_topk(line.at("topk"));
    const std::int64_t layer = line.at("layer").as_int(0, kMostId);
    builder.find_step(line.at("step").as_int(0, kMostId), layer);
    builder.add_rows(layer, rows);
  }
  if (other_stages > 0)
    builder.note(fmt::format("lines of stages other than pre_dispatch, left out: {}", other_stages));
  if (other_blocks > 0) builder.note(fmt::format("lines of blocks other than the decoder, left out: {}", other_blocks));
  return builder.finish();
}

// A device-row simulator: {"layer", "batch_id", "origin_rows", "topk_experts"} per layer of a batch.
bool is_device_rows(const RoutingFile& file) { return file.has_key("topk_experts") && file.has_key("batch_id"); }

RoutedTrace read_device_rows(const RoutingFile& file) {
  TraceBuilder builder(file);
  std::map<std::string, std::int64_t> numbers;  // of batches that have names
  JsonLines lines = file.lines();
  while (const std::optional<JsonDocument> document = lines.next()) {
    const JsonView line = document->root();
    const JsonView batch = line.at("batch_id");
    const auto next = static_cast<std::int64_t>(numbers.size());
    const std::int64_t step =
        batch.is_string() ? numbers.emplace(batch.as_string(), next).first->second : batch.as_int(0, kMostId);
    const JsonView rows = line.at("topk_experts");
    if (line.has("origin_rows") && line.at("origin_rows").size() != rows.size()) {
      line.at("origin_rows").fail(fmt::format("{} of them, as of topk_experts", rows.size()));
    }
    const std::int64_t layer = line.at("layer").as_int(0, kMostId);
    builder.find_step(step, layer);
    builder.add_rows(layer, rows);
  }
  return builder.finish();
}

// MoE-CAP (Auto-CAP/MoE-CAP): a line per forward pass. Its dump has rows per expert, "expert_counts" [layers][experts], or
// "activated_per_layer" [layers]; its record only "expert_activation", the mean of distinct experts over the layers. From
// distinct experts a batch is made that has so many, with equal rows; its tokens are the batch in decode, the sum of
// lengths in prefill.
bool is_moe_cap(const RoutingFile& file) {
  return file.has_key("forward_pass_id") && (file.has_key("expert_activation") || file.has_key("expert_counts"));
}

RoutedTrace read_moe_cap(const RoutingFile& file) {
  TraceBuilder builder(file);
  std::int64_t idle = 0;
  JsonLines lines = file.lines();
  while (const std::optional<JsonDocument> document = lines.next()) {
    const JsonView line = document->root();
    builder.begin_step(line.at("forward_pass_id").as_int(0, kMostId));
    if (line.has("expert_counts")) {
      const JsonView layers = line.at("expert_counts");
      for (std::size_t i = 0; i < layers.size(); ++i) builder.add_counts(static_cast<std::int64_t>(i), layers.at(i));
      continue;
    }
    const bool by_layer = line.has("activated_per_layer");
    const JsonView activation = by_layer ? line.at("activated_per_layer") : line.at("expert_activation");
    const bool prefill = line.at("forward_mode").as_string() == "prefill";
    const std::int64_t tokens = line.at(prefill ? "seq_lens_sum" : "batch_size").as_int(0, kMostPicks);
    for (std::size_t layer = 0; layer < (by_layer ? activation.size() : 1); ++layer) {
      const JsonView value = by_layer ? activation.at(layer) : activation;
      const std::int64_t distinct = std::llround(value.as_double(0, static_cast<double>(kMostExperts)));
      if (distinct == 0 || tokens == 0) {
        ++idle;
        continue;
      }
      builder.add_distinct(static_cast<std::int64_t>(layer), tokens, distinct, {value.file(), value.pointer()});
    }
  }
  if (idle > 0) builder.note(fmt::format("entries without an active expert, left out: {}", idle));
  return builder.finish();
}

}  // namespace moesim
