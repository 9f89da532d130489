// A crossover study as one JSON object (moesim.crossover/1). Times stand in picoseconds, chances and errors are of 1.
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/crossover_data.h"
#include "traces/views/crossover_views.h"
#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json known(const std::optional<double>& value) { return value ? Json(six_digits(*value)) : Json(nullptr); }

Json standing_json(const CrossoverStudy& study, const Standing& s) {
  Json times = Json::array(), errors = Json::array();
  for (const std::optional<Duration>& time : s.times) times.push_back(time ? Json(time->value()) : Json(nullptr));
  for (const std::optional<double>& error : s.errors) errors.push_back(known(error));
  return {{"at", s.value.text},
          {"number", six_digits(s.value.number)},
          {"tokens", s.tokens},
          {"distinct_experts_mean", six_digits(s.distinct_experts)},
          {"times_ps", times},
          {"errors", errors},
          {"winner", s.winner ? Json(study.strategies[*s.winner]) : Json(nullptr)},
          {"next_best", s.next ? Json(study.strategies[*s.next]) : Json(nullptr)},
          {"lead", six_digits(s.lead())},
          {"lead_error", known(s.lead_error())},
          {"contested", s.contested()},
          {"confidence", known(s.confidence())},
          {"parameters", s.parameters}};
}

Json line_json(const CrossoverStudy& study, const CrossoverLine& line) {
  const auto at = [&](std::int64_t place) { return line.standing(place).value.text; };
  const auto name = [&](const std::optional<std::size_t>& s) { return s ? Json(study.strategies[*s]) : Json(nullptr); };
  Json coordinates = Json::object();
  for (std::size_t i = 0; i < line.coordinates.size(); ++i) coordinates[study.line_axes[i]] = line.coordinates[i];
  Json crossings = Json::array(), spans = Json::array(), places = Json::array(), infeasible = Json::object();
  for (const Crossing& crossing : crossings_of(line)) {
    crossings.push_back(
        {{"before", name(crossing.before)},
         {"after", name(crossing.after)},
         {"last_before", at(crossing.last_before)},
         {"first_after", at(crossing.first_after)},
         {"zone", crossing.zone ? Json({at(crossing.zone->first), at(crossing.zone->second)}) : Json(nullptr)}});
  }
  for (const WinnerSpan& span : spans_of(line)) {
    Json next = Json::array();
    for (const std::size_t s : span.next) next.push_back(study.strategies[s]);
    spans.push_back({{"from", at(span.from)},
                     {"to", at(span.to)},
                     {"from_number", six_digits(line.standing(span.from).value.number)},
                     {"to_number", six_digits(line.standing(span.to).value.number)},
                     {"winner", name(span.winner)},
                     {"contested", span.contested},
                     {"lead_min", six_digits(span.lead_min)},
                     {"lead_max", six_digits(span.lead_max)},
                     {"next_best", next}});
  }
  for (const Standing& s : line.standings) places.push_back(standing_json(study, s));
  for (std::size_t i = 0; i < line.reasons.size(); ++i) {
    if (!line.reasons[i].empty()) infeasible[study.strategies[i]] = line.reasons[i];
  }
  Json json = {{"coordinates", coordinates}};
  if (!line.coordinates.empty()) json["provenance"] = provenance_json(line.provenance);
  json["sentence"] = crossover_sentence(study, line);
  json["crossings"] = crossings;
  json["spans"] = spans;
  json["places"] = places;
  json["infeasible"] = infeasible;
  return json;
}

}  // namespace

nlohmann::ordered_json crossover_data(const CrossoverStudy& study) {
  Json json = {{"schema", "moesim.crossover/1"}};
  json.update(provenance_json(study.provenance));
  json["axis"] = study.axis;
  json["line_axes"] = study.line_axes;
  json["strategies"] = study.strategies;
  json["assumed_error"] = known(study.assumed_error);
  Json& lines = json["lines"] = Json::array();
  for (const CrossoverLine& line : study.lines) lines.push_back(line_json(study, line));
  return json;
}

void write_crossover_json(const CrossoverStudy& study, std::ostream& out) {
  constexpr int kIndent = 2;
  out << crossover_data(study).dump(kIndent, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace moesim
