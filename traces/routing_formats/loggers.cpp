// Loggers that write a line of JSON per token and layer.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/limits.h"
#include "traces/routing_formats/token_table.h"

namespace moesim {
namespace {

std::string scalar_text(const JsonView& value) {
  return value.is_string() ? value.as_string() : fmt::format("{}", value.as_int(-kMostId, kMostId));
}

}  // namespace

// "moe_routes": a line {"type": "meta", "model_id", "top_k", ...}, then {"type": "route", "req_id", "token_idx", "layer",
// "topk_ids"}. No step is named, and token_idx begins anew with each forward pass: a token that comes again in a layer
// begins a step.
bool is_moe_routes(const RoutingFile& file) {
  if (!file.has_key("type") || !file.first().is_object() || !file.first().at("type").is_string()) return false;
  const std::string type = file.first().at("type").as_string();
  return (type == "meta" && file.has_key("top_k")) || (type == "route" && file.has_key("topk_ids"));
}

RoutedTrace read_moe_routes(const RoutingFile& file) {
  TraceBuilder builder(file);
  TokenTable pass;
  std::int64_t passes = 0, others = 0;
  JsonLines lines = file.lines();
  while (const std::optional<JsonDocument> document = lines.next()) {
    const JsonView line = document->root();
    const std::string type = line.at("type").as_string();
    if (type == "meta") {
      if (line.has("model_id")) builder.set_model(line.at("model_id").as_string());
      if (line.has("top_k")) builder.set_topk(line.at("top_k"));
    } else if (type == "route") {
      const std::int64_t layer = line.at("layer").as_int(0, kMostId);
      const TokenTable::Key key{.request = line.has("req_id") ? scalar_text(line.at("req_id")) : "",
                                .token = line.at("token_idx").as_int(0, kMostId)};
      if (pass.has(layer, key)) pass.flush(builder, passes++);
      pass.row(layer, key) = row_of(line.at("topk_ids"));
    } else {
      ++others;
    }
  }
  pass.flush(builder, passes);
  if (others > 0) builder.note(fmt::format("lines that are neither meta nor route, left out: {}", others));
  return builder.finish();
}

// Mixtral on HumanEval and GSM8K: {"dataset", "problem_id", "layer", "experts", "gating_probs", "token_idx"}. The tokens of
// a problem are a step, in the order of the problems in the file.
bool is_mixtral_problems(const RoutingFile& file) {
  return file.has_key("problem_id") && file.has_key("experts") && file.has_key("token_idx");
}

RoutedTrace read_mixtral_problems(const RoutingFile& file) {
  TraceBuilder builder(file);
  TokenTable problem;
  std::optional<std::string> name;
  std::int64_t problems = 0;
  JsonLines lines = file.lines();
  while (const std::optional<JsonDocument> document = lines.next()) {
    const JsonView line = document->root();
    std::string dataset = line.has("dataset") ? line.at("dataset").as_string() : "";
    std::string next = dataset + "/" + scalar_text(line.at("problem_id"));
    builder.set_source(std::move(dataset));
    if (name != next) problem.flush(builder, problems);
    if (name && name != next) ++problems;
    name = std::move(next);
    const std::int64_t layer = line.at("layer").as_int(0, kMostId);
    const TokenTable::Key key{.request = "", .token = line.at("token_idx").as_int(0, kMostId)};
    if (problem.has(layer, key)) line.at("token_idx").fail("each token once in a problem's layer");
    problem.row(layer, key) = row_of(line.at("experts"));
  }
  problem.flush(builder, problems);
  return builder.finish();
}

}  // namespace moesim
