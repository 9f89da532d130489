// A search for tile configurations as one JSON object, and as one CSV line per number of tokens.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"
#include "traces/views/tune_views.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json choice_json(const std::optional<TuneChoice>& choice) {
  if (!choice) return nullptr;
  return {{"parameters", choice->tile}, {"time_us", to_microseconds(choice->time)}, {"time_ps", choice->time.value()}};
}

std::optional<double> gain_of(const TunePoint& point) {
  if (!point.best || !point.by_default) return std::nullopt;
  return six_digits(gain_over(point.by_default->time, point.best->time));
}

Json point_json(const TunePoint& point) {
  Json json = {{"tokens", point.tokens},
               {"best", choice_json(point.best)},
               {"default", choice_json(point.by_default)},
               {"chosen", choice_json(point.chosen)}};
  const std::optional<double> gain = gain_of(point);
  json["gain"] = gain ? Json(*gain) : Json(nullptr);
  json["within_2_pct"] = point.near_best;
  json["bound_us"] = to_microseconds(point.bound);
  json["in_calibrated_range"] = point.in_range;
  json["configurations"] = {{"simulated", point.simulated},
                            {"stopped", point.stopped},
                            {"same_plan", point.alike},
                            {"too_large", point.too_large},
                            {"spilling", point.spilling}};
  return json;
}

}  // namespace

void write_tune_json(const TuneStudy& study, std::ostream& out) {
  Json json = {{"schema", "moesim.tune/1"}};
  json.update(provenance_json(study.provenance));
  json["strategy"] = study.strategy;
  json["default_of"] = study.stack.empty() ? Json(nullptr) : Json(study.stack);
  json["min_gain"] = study.min_gain;
  Json& space = json["space"] = Json::object();
  for (const ParameterRange& range : study.space) space[range.name] = range.values;
  Json& points = json["points"] = Json::array();
  for (const TunePoint& point : study.points) points.push_back(point_json(point));
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

void write_tune_csv(const TuneStudy& study, std::ostream& out) {
  std::vector<std::string> heading = {"tokens"};
  for (const char* which : {"best", "default", "chosen"}) {
    for (const ParameterRange& range : study.space) heading.push_back(fmt::format("{}_{}", which, range.name));
    heading.push_back(fmt::format("{}_time_us", which));
  }
  for (const char* rest : {"gain", "within_2_pct", "bound_us", "in_calibrated_range", "simulated", "stopped",
                           "same_plan", "too_large", "spilling", "device", "device_hash", "calibration", "model",
                           "weights", "strategy", "routing", "samples", "seed", "version"}) {
    heading.emplace_back(rest);
  }
  write_csv_line(heading, out);
  const Provenance& p = study.provenance;
  for (const TunePoint& point : study.points) {
    std::vector<std::string> cells = {fmt::format("{}", point.tokens)};
    for (const std::optional<TuneChoice>* choice : {&point.best, &point.by_default, &point.chosen}) {
      for (const ParameterRange& range : study.space) {
        const bool stated = *choice && (*choice)->tile.contains(range.name);
        cells.push_back(stated ? fmt::format("{}", (*choice)->tile.at(range.name)) : "");
      }
      cells.push_back(*choice ? fmt::format("{}", to_microseconds((*choice)->time)) : "");
    }
    const std::optional<double> gain = gain_of(point);
    cells.push_back(gain ? fmt::format("{}", *gain) : "");
    cells.push_back(fmt::format("{}", point.near_best));
    cells.push_back(fmt::format("{}", to_microseconds(point.bound)));
    cells.emplace_back(point.in_range ? "1" : "0");
    for (const std::int64_t count : {point.simulated, point.stopped, point.alike, point.too_large, point.spilling}) {
      cells.push_back(fmt::format("{}", count));
    }
    for (const std::string& text :
         {p.device, p.device_hash, p.calibration, p.model, p.weights, study.strategy, p.routing,
          fmt::format("{}", p.samples), fmt::format("{}", p.seed), p.tool_version}) {
      cells.push_back(text);
    }
    write_csv_line(cells, out);
  }
}

}  // namespace moesim
