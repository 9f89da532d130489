// The study as one JSON object: every time of every run, so that any other result can be computed of it.
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"
#include "traces/views/sensitivity_views.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json number(std::optional<double> value) { return value ? Json(six_digits(*value)) : Json(nullptr); }

Json times_json(const SensitivityStudy& study, const std::vector<std::optional<Duration>>& times) {
  Json json = Json::object();
  for (std::size_t s = 0; s < times.size(); ++s) {
    json[study.strategies[s]] = times[s] ? Json(six_digits(to_microseconds(*times[s]))) : Json(nullptr);
  }
  return json;
}

Json bar_json(const ErrorBar& bar) { return {{"down", six_digits(bar.down)}, {"up", six_digits(bar.up)}}; }

Json result_json(const SensitivityResult& result) {
  return {{"result", result.name},
          {result.denominator ? "ratio" : "time_us", six_digits(result.base)},
          {"error_bar", bar_json(result.all)},
          {"by_group",
           {{"device", bar_json(result.device)},
            {"fitted", bar_json(result.fitted)},
            {"workload", bar_json(result.workload)}}}};
}

Json end_json(const SensitivityStudy& study, double value, const std::vector<std::optional<Duration>>& times,
              const std::string& winner, const std::optional<FactorEffect::Flip>& flip) {
  Json json = {{"value", six_digits(value)},
               {"result", number(study.result.at(times))},
               {"winner", winner.empty() ? Json(nullptr) : Json(winner)},
               {"times_us", times_json(study, times)}};
  if (flip) {
    json["flips_at"] = six_digits(flip->at);
    json["flips_to"] = flip->winner.empty() ? Json(nullptr) : Json(flip->winner);
  }
  return json;
}

}  // namespace

Json sensitivity_json(const SensitivityStudy& study) {
  Json json = {{"concurrency", study.concurrency},           {"winner", study.winner},
               {"times_us", times_json(study, study.times)}, {"result", result_json(study.result)},
               {"headline", sensitivity_headline(study)},    {"flips", sensitivity_notes(study)},
               {"without_effect", study.without_effect}};
  Json& every = json["times"] = Json::array();
  for (const SensitivityResult& result : study.every) every.push_back(result_json(result));
  Json& effects = json["effects"] = Json::array();
  for (const FactorEffect& effect : study.effects) {
    const Factor& factor = effect.factor;
    effects.push_back({{"constant", factor.name},
                       {"group", factor_group_name(factor.group())},
                       {"kind", factor.kind},
                       {"range_by", factor.basis},
                       {"value", six_digits(factor.value)},
                       {"text", {factor.text(factor.low), factor.text(factor.value), factor.text(factor.high)}},
                       {"low", end_json(study, factor.low, effect.low, effect.low_winner, effect.low_flip)},
                       {"high", end_json(study, factor.high, effect.high, effect.high_winner, effect.high_flip)}});
  }
  return json;
}

void write_sensitivity_json(const SensitivityStudy& study, std::ostream& out) {
  Json json = {{"schema", "moesim.sensitivity/1"}};
  json.update(provenance_json(study.provenance));
  json.update(sensitivity_json(study));
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

}  // namespace moesim
