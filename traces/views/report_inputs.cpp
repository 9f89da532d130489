#include "traces/views/report_inputs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "hwmodels/schema.h"
#include "workloads/routing/routing_options.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json row(const char* name, std::string value, std::string source) {
  return {{"name", name}, {"value", std::move(value)}, {"source", std::move(source)}};
}

Json run_rows(const ConcurrencyRequest& request, const Provenance& p) {
  Json rows = Json::array();
  const auto add = [&](const char* name, std::string value, std::string source) {
    rows.push_back(row(name, std::move(value), std::move(source)));
  };
  add("moesim", p.tool_version, "this program");
  add("model", p.model, p.model_file);
  for (const std::string& assignment : p.model_overrides) add("model override", assignment, "--model-override");
  add("device", fmt::format("{}: {}", p.device, p.device_title),
      fmt::format("{}, hash {}", p.device_file, p.device_hash));
  for (const std::string& assignment : p.overrides) add("device override", assignment, "--set");
  add("calibration", p.calibration, request.calibration ? request.calibration->file : "");
  if (request.calibration) {
    for (const FittedData& data : request.calibration->data) {
      add("fitted to", data.file, fmt::format("hash {}", data.hash));
    }
  }
  add("concurrency", fmt::format("{}", fmt::join(request.concurrencies, ", ")),
      "--concurrency: tokens of a decode step");
  std::vector<std::string> strategies;
  for (const StrategyChoice& choice : request.strategies) strategies.push_back(choice.text);
  add("strategies", fmt::format("{}", fmt::join(strategies, ", ")), "--strategy");
  add("scope", p.scope, "--scope");
  if (p.step) {
    add("context", fmt::format("{} tokens of each sequence", p.step->context), "--context");
    add("KV cache", p.step->cache, "--kv-dtype");
    add("layers", fmt::format("{} of {}, {} of them MoE", p.step->layers, p.step->layers_of_model, p.moe_layers),
        "--layers");
  }
  if (!p.without.empty()) add("effects left out", fmt::format("{}", fmt::join(p.without, ", ")), "--without");
  add("launch", p.launch, "--launch");
  add("clock", format_quantity(p.clock_hz, Dimension::kFrequency),
      request.options.clock_hz ? "--clock" : "clock.boost of the device");
  add("weights of routed experts", p.weights, "the model, or --weights");
  add("other weights", format_name(request.model.other_weights), "the model, or --other-weights");
  add("activations", p.activations, "as is usual with these weights, or --activations");
  add("routing", p.routing, "--routing and its options");
  add("samples", fmt::format("{} routings a concurrency", p.samples), "--samples, or the trace's");
  add("seed", fmt::format("{}", p.seed), "--seed");
  add("tensor parallel", fmt::format("{}", p.tp), "--tp");
  add("expert parallel", fmt::format("{}", p.ep), "--ep");
  return rows;
}

Json model_rows(const MoeModel& model) {
  Json rows = Json::array();
  const auto add = [&](const char* name, std::string value, const char* origin) {
    std::string source;
    for (const auto& [key, from] : model.origins) {
      if (key == origin) source = from;
    }
    rows.push_back(row(name, std::move(value), std::move(source)));
  };
  const auto number = [](auto value) { return fmt::format("{}", value); };
  rows.push_back(row("family", model.family, model.source));
  add("hidden width", number(model.hidden), "hidden");
  add("expert width", number(model.expert_intermediate), "intermediate");
  add("routed experts", number(model.experts), "experts");
  add("top-k", number(model.topk), "topk");
  add("gated (three matrices)", model.gated ? "yes" : "no", "gated");
  add("shared experts", number(model.shared_experts), "shared_intermediate");
  add("shared width, in all", number(model.shared_intermediate), "shared_intermediate");
  add("gate on shared expert", model.shared_gate ? "yes" : "no", "shared_gate");
  add("latent width", number(model.latent), "latent");
  add("zero experts", number(model.zero_experts), "zero_experts");
  add("layers", number(model.layers), "layers");
  add("MoE layers", number(model.moe_layers), "moe_layers");
  add("router scores", scoring_name(model.scoring), "scoring");
  add("expert groups", number(model.groups), "groups");
  add("groups a token may use", number(model.topk_groups), "groups");
  return rows;
}

Json device_rows(const HardwareModel& hardware) {
  Json rows = Json::array();
  for (const HwEntry& entry : hw_schema()) {
    const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(entry.id)];
    if (!constant) continue;
    rows.push_back({{"name", entry.path},
                    {"value", format_quantity(constant->value, entry.dimension)},
                    {"meaning", entry.meaning},
                    {"kind", source_kind_name(constant->kind)},
                    {"source", constant->source}});
  }
  return rows;
}

// Of the implementations whose constants the study took.
Json fitted_rows(const ConcurrencyRequest& request, const Provenance& p) {
  Json rows = Json::array();
  if (!request.calibration) return rows;
  std::set<std::string> shown;
  for (const StrategyConstants& constants : p.constants) {
    const Implementation* implementation = request.calibration->find(constants.implementation, p.weights);
    if (implementation == nullptr || !shown.insert(implementation->name).second) continue;
    for (const auto& [name, constant] : implementation->constants) {
      rows.push_back({{"implementation", implementation->name},
                      {"name", name},
                      {"value", fmt::format("{:.4g}", constant.value)},
                      {"error_pct", fmt::format("{:.1f}", constant.relative_error * 100)},
                      {"source", fmt::format("{} rows, {}", implementation->rows, request.calibration->file)}});
    }
  }
  return rows;
}

}  // namespace

Json report_inputs(const ConcurrencyRequest& request, const Provenance& provenance) {
  return {{"run", run_rows(request, provenance)},
          {"model", model_rows(request.model)},
          {"device", device_rows(request.hardware)},
          {"fitted", fitted_rows(request, provenance)}};
}

}  // namespace moesim
