#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/comparison_views.h"
#include "traces/views/numbers.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json times_json(const MeasuredTime& time) {
  return {{"median_us", to_microseconds(time.median)},
          {"min_us", to_microseconds(time.least)},
          {"max_us", to_microseconds(time.most)},
          {"median_ps", time.median.value()},
          {"min_ps", time.least.value()},
          {"max_ps", time.most.value()}};
}

Json time_json(Duration time) { return {{"us", to_microseconds(time)}, {"ps", time.value()}}; }

Json error_json(Duration simulated, Duration measured) {
  const std::optional<double> error = error_percent(simulated, measured);
  return error ? Json(six_digits(*error)) : Json(nullptr);
}

Json stage_json(const StageRow& row) {
  Json json = {{"stage", row.stages.name()}, {"measured", nullptr}, {"simulated", nullptr}, {"error_pct", nullptr}};
  if (row.measured) {
    json["measured"] = times_json(row.measured->time);
    json["measured"]["kernels"] = row.measured->kernels;
  }
  if (row.simulated) {
    json["simulated"] = time_json(row.simulated->time);
    json["simulated"]["kernels_mean"] = six_digits(row.simulated->kernels);
    json["simulated"]["limited_by"] = blame_key(row.simulated->limited_by);
    json["simulated"]["limited_by_share"] = six_digits(row.simulated->share);
  }
  if (row.measured && row.simulated) json["error_pct"] = error_json(row.simulated->time, row.measured->time.median);
  return json;
}

Json total_json(const MeasuredTime& measured, const SimulatedLayer* layer, Duration simulated) {
  Json json = {{"measured", times_json(measured)}, {"simulated", nullptr}, {"error_pct", nullptr}};
  if (layer == nullptr) return json;
  json["simulated"] = time_json(simulated);
  json["error_pct"] = error_json(simulated, measured.median);
  return json;
}

Json section_json(const SectionComparison& section) {
  const SimulatedLayer* layer = section.layer();
  Json json = {{"section", section.name},
               {"ranges", section.repeats},
               {"layers", section.layers},
               {"layers_alike", section.alike},
               {"period_kernels", section.period ? Json(*section.period) : Json(nullptr)},
               {"signature", section.signature},
               {"tokens", section.tokens},
               {"scope", section.scope},
               {"launch", section.launch},
               {"feasible", layer != nullptr}};
  if (layer != nullptr) {
    json["strategy"] = layer->strategy;
    json["implementation"] = layer->implementation.empty() ? Json(nullptr) : Json(layer->implementation);
    json["distinct_experts_mean"] = six_digits(layer->distinct_experts);
    json["limited_by"] = blame_key(layer->limited_by);
  } else {
    json["reason"] = std::get<Infeasible>(section.simulated).reason;
  }
  Json& stages = json["stages"] = Json::array();
  for (const StageRow& row : section.stages) stages.push_back(stage_json(row));
  json["stages_of_both"] = {{"measured_us", to_microseconds(section.compared_measured())},
                            {"simulated_us", to_microseconds(section.compared_simulated())},
                            {"error_pct", error_json(section.compared_simulated(), section.compared_measured())}};
  json["all_kernels"] = total_json(section.busy, layer, layer ? layer->busy : Duration());
  json["gaps"] = total_json(section.gaps, layer, layer ? layer->gaps() : Duration());
  json["layer"] = total_json(section.span, layer, layer ? layer->span : Duration());
  json["moe_time"] = time_json(section.moe_time);
  json["device_time"] = time_json(section.device_time);
  json["notes"] = section.limits;
  return json;
}

}  // namespace

void write_comparison_json(const Comparison& c, std::ostream& out) {
  Json json = {{"schema", "moesim.comparison/1"},
               {"tool", {{"name", "moesim"}, {"version", c.tool_version}}},
               {"trace", c.trace_file},
               {"calibration", c.calibration},
               {"device",
                {{"name", c.device},
                 {"title", c.device_title},
                 {"file", c.device_file},
                 {"hash", c.device_hash},
                 {"overrides", c.overrides},
                 {"clock_hz", c.clock_hz}}},
               {"model",
                {{"name", c.model},
                 {"file", c.model_file},
                 {"weights", c.weights},
                 {"activations", c.activations},
                 {"tp", c.tp},
                 {"ep", c.ep},
                 {"overrides", c.model_overrides}}},
               {"routing", {{"law", c.routing}, {"samples", c.samples}, {"seed", c.seed}}},
               {"taken", c.taken},
               {"events", c.all_events},
               {"device_events", c.device_events},
               {"device_time", time_json(c.device_time)},
               {"named_share",
                c.device_time.value() > 0 ? six_digits(c.named_time.as_double() / c.device_time.as_double()) : 0.0},
               {"moe_kernels", c.moe_kernels},
               {"moe_kernels_with_stage", c.staged_kernels}};
  Json& classes = json["classes"] = Json::object();
  for (const auto& [name, time] : c.by_class) classes[name] = time_json(time);
  Json& sections = json["sections"] = Json::array();
  for (const SectionComparison& section : c.sections) sections.push_back(section_json(section));
  out << json.dump(2) << '\n';
}

}  // namespace moesim
