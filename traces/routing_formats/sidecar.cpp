#include "traces/routing_formats/sidecar.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "sim/io/input_error.h"
#include "traces/routing_formats/limits.h"

namespace moesim {
namespace {

std::vector<std::int64_t> numbers(const JsonView& array, std::int64_t min, std::int64_t max) {
  std::vector<std::int64_t> values;
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) values.push_back(array.at(i).as_int(min, max));
  return values;
}

WarmUp parse_warm_up(const JsonView& object) {
  object.only_keys({"steps", "tokens", "first", "last"});
  return {.steps = object.at("steps").as_int(1, kMostSteps),
          .tokens = object.at("tokens").as_int(1, kMostPicks),
          .first = object.at("first").as_int(0, kMostId),
          .last = object.at("last").as_int(0, kMostId)};
}

}  // namespace

std::string trace_sidecar_path(const std::string& path) {
  const bool array = path.ends_with(".npy") || path.ends_with(".npz");
  return path.substr(0, array ? path.rfind('.') : path.size()) + ".json";
}

std::optional<Sidecar> read_sidecar(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(trace_sidecar_path(path), error)) return std::nullopt;
  const JsonDocument document = JsonDocument::read_file(trace_sidecar_path(path));
  if (!is_routing_schema(document.root())) return std::nullopt;
  return parse_sidecar(document.root());
}

bool is_routing_schema(const JsonView& value) {
  if (!value.is_object() || !value.has("schema") || !value.at("schema").is_string()) return false;
  return value.at("schema").as_string().starts_with("moesim.routing/");
}

Sidecar parse_sidecar(const JsonView& object) {
  object.only_keys({"schema", "model", "experts", "topk", "layers", "steps", "step_tokens", "data", "from_counts",
                    "warm_up", "source", "seed", "routing", "shape", "dimensions"});
  if (object.at("schema").as_string() != kRoutingSchema)
    object.at("schema").fail(std::string("'") + kRoutingSchema + "'");
  Sidecar sidecar;
  if (object.has("model")) sidecar.model = object.at("model").as_string();
  if (object.has("source")) sidecar.source = object.at("source").as_string();
  if (object.has("experts")) sidecar.experts = object.at("experts").as_int(1, kMostExperts);
  if (object.has("topk")) sidecar.topk = object.at("topk").as_int(1, kMostExperts);
  if (object.has("layers")) sidecar.layers = numbers(object.at("layers"), 0, kMostId);
  if (object.has("steps")) sidecar.steps = numbers(object.at("steps"), 0, kMostId);
  if (object.has("step_tokens")) sidecar.step_tokens = numbers(object.at("step_tokens"), 1, kMostPicks);
  if (object.has("data")) {
    const std::string data = object.at("data").as_string();
    if (data != "ids" && data != "counts") object.at("data").fail("'ids' or 'counts'");
    sidecar.counts = data == "counts";
  }
  const bool numbered = !sidecar.layers.empty() || !sidecar.steps.empty() || !sidecar.step_tokens.empty();
  if (sidecar.counts && numbered) object.at("data").fail("'ids' beside layers, steps or step_tokens");
  if (object.has("from_counts")) sidecar.from_counts = object.at("from_counts").as_bool();
  if (object.has("warm_up")) sidecar.warm_up = parse_warm_up(object.at("warm_up"));
  if (object.has("shape")) sidecar.shape = numbers(object.at("shape"), 1, kMostPicks);
  return sidecar;
}

std::string sidecar_text(const Sidecar& sidecar) {
  nlohmann::ordered_json json = {{"schema", kRoutingSchema}};
  if (!sidecar.model.empty()) json["model"] = sidecar.model;
  json["experts"] = sidecar.experts;
  json["topk"] = sidecar.topk;
  if (!sidecar.layers.empty()) json["layers"] = sidecar.layers;
  if (!sidecar.steps.empty()) json["steps"] = sidecar.steps;
  if (!sidecar.step_tokens.empty()) json["step_tokens"] = sidecar.step_tokens;
  if (sidecar.counts) json["data"] = "counts";
  if (sidecar.from_counts) json["from_counts"] = true;
  if (sidecar.warm_up.steps > 0) {
    json["warm_up"] = {{"steps", sidecar.warm_up.steps},
                       {"tokens", sidecar.warm_up.tokens},
                       {"first", sidecar.warm_up.first},
                       {"last", sidecar.warm_up.last}};
  }
  if (!sidecar.source.empty()) json["source"] = sidecar.source;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string read_head(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) throw InputError({path, "", std::generic_category().message(errno), "a readable file", ""});
  std::array<char, 8> head{};
  return {head.data(), std::fread(head.data(), 1, head.size(), file.get())};
}

}  // namespace moesim
