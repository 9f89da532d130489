#include "traces/views/provenance_json.h"

#include <nlohmann/json.hpp>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json constants_json(const StrategyConstants& constants) {
  if (constants.implementation.empty()) return {{"strategy", constants.strategy}, {"implementation", nullptr}};
  const HeldOutError& error = constants.held_out;
  return {
      {"strategy", constants.strategy},
      {"implementation", constants.implementation},
      {"most_tokens", constants.most_tokens},
      {"held_out",
       {{"rows", error.rows}, {"median_abs_pct", error.median}, {"p95_abs_pct", error.p95}, {"bias_pct", error.bias}}}};
}

}  // namespace

nlohmann::ordered_json provenance_json(const std::string& schema, const Provenance& p) {
  Json json = {{"schema", schema},
               {"tool", {{"name", "moesim"}, {"version", p.tool_version}}},
               {"calibration", p.calibration},
               {"device",
                {{"name", p.device},
                 {"title", p.device_title},
                 {"file", p.device_file},
                 {"hash", p.device_hash},
                 {"overrides", p.overrides},
                 {"clock_hz", p.clock_hz}}},
               {"model",
                {{"name", p.model},
                 {"file", p.model_file},
                 {"weights", p.weights},
                 {"activations", p.activations},
                 {"tp", p.tp},
                 {"ep", p.ep},
                 {"moe_layers", p.moe_layers}}},
               {"scope", p.scope},
               {"launch", p.launch},
               {"routing", p.routing},
               {"samples", p.samples},
               {"seed", p.seed}};
  if (p.step) {
    json["step"] = {{"context", p.step->context},
                    {"kv_dtype", p.step->cache},
                    {"layers", p.step->layers},
                    {"layers_of_model", p.step->layers_of_model}};
  }
  if (!p.model_overrides.empty()) json["model"]["overrides"] = p.model_overrides;
  if (!p.without.empty()) json["without"] = p.without;
  Json& constants = json["constants"] = Json::array();
  for (const StrategyConstants& of_strategy : p.constants) constants.push_back(constants_json(of_strategy));
  return json;
}

}  // namespace moesim
