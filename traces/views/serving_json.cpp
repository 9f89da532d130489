// The study as one JSON object. Times stand in milliseconds and, exactly, in picoseconds; shares are of 1.
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"
#include "traces/views/serving_data.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json optional_ms(const std::optional<Duration>& time) { return time ? Json(milliseconds(*time)) : Json(nullptr); }

Json quantiles_json(const TimeQuantiles& q) {
  if (q.count == 0) return nullptr;
  return {{"count", q.count},
          {"mean_ms", milliseconds(q.mean)},
          {"p50_ms", milliseconds(q.p50)},
          {"p95_ms", milliseconds(q.p95)},
          {"p99_ms", milliseconds(q.p99)},
          {"max_ms", milliseconds(q.most)},
          {"p50_ps", q.p50.value()},
          {"p95_ps", q.p95.value()},
          {"p99_ps", q.p99.value()}};
}

Json setup_json(const ServingStudy& study) {
  const ServingSetup& setup = study.setup;
  return {{"arrivals", arrivals_text(setup)},
          {"goals",
           {{"latency_ms", optional_ms(setup.goals.latency)},
            {"first_token_ms", optional_ms(setup.goals.first_token)},
            {"per_token_ms", optional_ms(setup.goals.per_token)},
            {"most_missed", setup.goals.most_missed}}},
          {"horizon_s", to_seconds(setup.horizon)},
          {"warm_up_s", to_seconds(setup.warm_up)},
          {"step_tokens", setup.batch.tokens},
          {"step_sequences", setup.batch.sequences},
          {"most_sessions", setup.most_sessions ? Json(*setup.most_sessions) : Json(nullptr)},
          {"context_limit", setup.context_limit},
          {"memory_share", setup.memory_share},
          {"host_ms", milliseconds(setup.host)},
          {"context_bucket", setup.rounding.context ? Json(*setup.rounding.context) : Json(nullptr)},
          {"chunk_bucket", setup.rounding.chunk},
          {"count_digits", setup.rounding.count_digits},
          {"samples", study.provenance.samples},
          {"weights_bytes", study.weights.value()},
          {"cache_bytes", study.cache.value()},
          {"session_bytes", study.session_bytes.value()}};
}

}  // namespace

double milliseconds(Duration d) {
  constexpr double kMilli = 1e3;
  return six_digits(to_seconds(d) * kMilli);
}

nlohmann::ordered_json serving_point_json(const ServingStudy& study, const ServingFigures& f) {
  Json sizes = Json::array(), taken = Json::object();
  for (const auto& [size, count] : f.steps_by_sequences) sizes.push_back({size, count});
  for (std::size_t c = 0; c < f.steps_by_strategy.size(); ++c) taken[study.candidates[c]] = f.steps_by_strategy[c];
  return {{"load", f.load},
          {"stopped_early", f.stopped},
          {"sessions", f.sessions},
          {"sessions_turned_away", f.turned_away},
          {"turns", f.turns},
          {"misses", f.misses},
          {"miss_share", six_digits(f.miss_share())},
          {"latency", quantiles_json(f.latency)},
          {"first_token", quantiles_json(f.first_token)},
          {"per_token", quantiles_json(f.per_token)},
          {"step", quantiles_json(f.step)},
          {"utilisation", six_digits(f.utilisation)},
          {"tokens_in_per_s", six_digits(f.tokens_in)},
          {"tokens_out_per_s", six_digits(f.tokens_out)},
          {"mean_sequences", six_digits(f.mean_sequences)},
          {"mean_tokens", six_digits(f.mean_tokens)},
          {"steps_by_sequences", sizes},
          {"steps_by_strategy", taken},
          {"most_sessions", f.most_sessions},
          {"cache_share", six_digits(f.cache_share)},
          {"little",
           {{"turns_in_system", six_digits(f.turns_in_system)},
            {"turns_per_s", six_digits(f.turns_per_second)},
            {"seconds_in_system", six_digits(f.seconds_in_system)},
            {"exact", f.little_exact}}}};
}

nlohmann::ordered_json serving_strategies_json(const ServingStudy& study) {
  Json list = Json::array();
  for (const StrategyServing& s : study.strategies) {
    Json json = {{"strategy", s.strategy}, {"feasible", !s.infeasible.has_value()}};
    if (s.infeasible) json["reason"] = s.infeasible->reason;
    if (s.sustainable) {
      json["sustainable"] = *s.sustainable;
      json["memory_limited"] = s.memory_limited;
      json["monotone"] = s.monotone;
    }
    Json& points = json["points"] = Json::array();
    for (const ServingFigures& f : s.points) points.push_back(serving_point_json(study, f));
    list.push_back(std::move(json));
  }
  return list;
}

nlohmann::ordered_json serving_head_json(const ServingStudy& study) {
  Json json = provenance_json(study.provenance);
  json.at("step").erase("context");
  json["load"] = load_noun(study.setup.kind);
  json["setup"] = setup_json(study);
  json["candidates"] = study.candidates;
  json["compositions"] = study.compositions;
  json["engine_runs"] = study.engine_runs;
  return json;
}

void write_serving_json(const ServingStudy& study, std::ostream& out) {
  Json json = {{"schema", "moesim.serving_study/1"}};
  json.update(serving_head_json(study));
  json["strategies"] = serving_strategies_json(study);
  constexpr int kIndent = 2;
  out << json.dump(kIndent, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace moesim
