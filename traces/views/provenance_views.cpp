#include "traces/views/provenance_views.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/units/parse_quantity.h"
#include "traces/views/step_table.h"

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

void write_provenance(const Provenance& p, std::ostream& out) {
  const std::string shard = p.tp == 1 && p.ep == 1 ? "" : fmt::format(", one device of tp {} x ep {}", p.tp, p.ep);
  const std::string what = p.step ? step_title(p) : fmt::format("{} MoE layer ({})", p.moe_layers, p.scope);
  out << fmt::format("moesim {}, {}, launch {}, {}\n", p.tool_version, what, p.launch, p.calibration);
  out << fmt::format("model    {} ({}), weights {}, activations {}{}\n", p.model, p.model_file, p.weights,
                     p.activations, shard);
  for (const std::string& assignment : p.model_overrides) out << fmt::format("override {}\n", assignment);
  out << fmt::format("device   {}: {} ({}, {}), clock {}\n", p.device, p.device_title, p.device_file, p.device_hash,
                     format_quantity(p.clock_hz, Dimension::kFrequency));
  for (const std::string& assignment : p.overrides) out << fmt::format("set      {}\n", assignment);
  if (!p.without.empty()) out << fmt::format("without  {}\n", fmt::join(p.without, ", "));
  if (p.step) write_step_provenance(*p.step, out);
  out << fmt::format("routing  {}, {} sample{}, seed {}\n", p.routing, p.samples, p.samples == 1 ? "" : "s", p.seed);
  std::vector<std::string> fitted;
  for (const StrategyConstants& constants : p.constants) {
    if (constants.implementation.empty()) continue;
    fitted.push_back(fmt::format("{} as {}", constants.strategy, constants.implementation));
    const HeldOutError& error = constants.held_out;
    if (error.rows > 0) fitted.back() += fmt::format(" {:.1f} / {:.1f} %", error.median, error.p95);
  }
  if (!fitted.empty()) {
    out << fmt::format("fitted   {} (error on models left out of the fit, median / p95)\n", fmt::join(fitted, ", "));
  }
  out << '\n';
}

nlohmann::ordered_json provenance_json(const Provenance& p) {
  Json json = {{"tool", {{"name", "moesim"}, {"version", p.tool_version}}},
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

nlohmann::ordered_json page_head_json(const Provenance& p) {
  return {{"version", p.tool_version},    {"model", p.model},
          {"device", p.device},           {"device_title", p.device_title},
          {"device_hash", p.device_hash}, {"launch", p.launch},
          {"weights", p.weights},         {"activations", p.activations},
          {"routing", p.routing},         {"seed", p.seed},
          {"calibration", p.calibration}};
}

std::string subject_text(const Provenance& p) {
  return p.step ? "a " + step_title(p) : fmt::format("one MoE layer ({})", p.scope);
}

}  // namespace moesim
