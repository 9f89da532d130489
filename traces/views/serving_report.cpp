// The page of a serving study.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/html_page.h"
#include "traces/views/provenance_views.h"
#include "traces/views/serving_data.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kScripts = {"kit.js", "figure.js", "serving_report.js"};
constexpr std::size_t kCurvePoints = 50;  // of a distribution

// The latency's quantiles at 2 %, 4 %, …, 100 %.
Json curve_json(const ServingStudy& study, const ServerRun& run) {
  std::vector<Duration> times;
  const TimePoint from(study.setup.warm_up.value()), to(study.setup.horizon.value());
  for (const TurnRecord& turn : run.turns) {
    if (turn.finish && turn.arrival >= from && turn.arrival < to) times.push_back(*turn.finish - turn.arrival);
  }
  std::sort(times.begin(), times.end());
  Json list = Json::array();
  for (std::size_t i = 1; i <= kCurvePoints && !times.empty(); ++i) {
    list.push_back(milliseconds(times[std::max<std::size_t>(1, i * times.size() / kCurvePoints) - 1]));
  }
  return list;
}

std::string data_of(const ServingStudy& study) {
  const Provenance& p = study.provenance;
  const Json head = serving_head_json(study);
  Json json = {{"schema", "moesim.serving_report/1"},
               {"devices", p.tp * p.ep},
               {"what", arrivals_text(study.setup)},
               {"headline", headline(study)},
               {"goals", goals_text(study.setup)},
               {"server", server_text(study)},
               {"steps", steps_text(study)},
               {"turn", turn_noun(study.setup.kind)},
               {"load", head.at("load")},
               {"setup", head.at("setup")},
               {"candidates", study.candidates}};
  json.update(page_head_json(p));
  Json strategies = serving_strategies_json(study);
  for (std::size_t s = 0; s < study.strategies.size(); ++s) {
    const StrategyServing& strategy = study.strategies[s];
    strategies[s]["result"] = result_text(study, strategy);
    if (!strategy.run) continue;
    strategies[s]["shown"] = strategy.shown;
    strategies[s]["latency_ms"] = curve_json(study, *strategy.run);
  }
  json["strategies"] = std::move(strategies);
  constexpr int kOneLine = -1;
  return json.dump(kOneLine, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void write_serving_report(const ServingStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  const std::string title = fmt::format("{} on {}: moesim serve-sim", p.model, p.device_title);
  const std::string data = data_of(study);
  out << html_page({title, "report", "serving.html", kScripts, data});
}

}  // namespace moesim
