#include "traces/views/sweep_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e12;

// Name and value side by side, for both formats; null where a row has nothing to say.
using Fields = std::vector<std::pair<std::string, Json>>;

Json number(double value) { return six_digits(value); }
Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

void add_point(const Sweep& sweep, const SweepPoint& point, Fields& fields) {
  fields.emplace_back("point", point.number);
  fields.emplace_back("request", sweep.request);
  for (std::size_t i = 0; i < point.values.size(); ++i) {
    const Axis& axis = sweep.grid.axes[i];
    // Numbers without a unit as such: their text has all digits.
    const std::string& text = point.values[i].text;
    const Json parsed = point.values[i].number ? Json::parse(text, nullptr, false) : Json(text);
    fields.emplace_back(axis.name, parsed.is_number() ? parsed : Json(text));
  }
}

void add_figures(const ConcurrencyPoint* point, const StrategyRow* row, bool step, Fields& fields) {
  const StrategyFigures* figures = row == nullptr ? nullptr : row->figures();
  const auto figure = [&](const char* name, auto value_of) {
    fields.emplace_back(name, figures == nullptr ? Json(nullptr) : Json(value_of(*figures)));
  };
  const auto of_point = [&](const char* name, auto value_of) {
    fields.emplace_back(name, point == nullptr ? Json(nullptr) : Json(value_of(*point)));
  };
  fields.emplace_back("strategy", row == nullptr ? Json(nullptr) : Json(row->strategy));
  fields.emplace_back("winner", row != nullptr && row->winner);
  figure("time_us_median", [](const StrategyFigures& f) { return to_microseconds(f.time_median); });
  figure("time_us_p95", [](const StrategyFigures& f) { return to_microseconds(f.time_p95); });
  of_point("bound_us_median", [](const ConcurrencyPoint& p) { return to_microseconds(p.bound_median); });
  of_point("bound_by", [](const ConcurrencyPoint& p) { return p.matrix_bound ? "matrix" : "memory"; });
  figure("bound_fraction_median", [](const StrategyFigures& f) { return number(f.bound_fraction_median); });
  of_point("distinct_experts_mean", [](const ConcurrencyPoint& p) { return number(p.distinct_experts); });
  of_point("duplicate_share_mean", [](const ConcurrencyPoint& p) { return number(p.duplicate_share); });
  of_point("rows_per_expert_mean", [](const ConcurrencyPoint& p) { return number(p.rows_per_expert); });
  figure("memory_read_bytes_mean", [](const StrategyFigures& f) { return std::llround(f.memory_read_mean); });
  figure("memory_reread_bytes_mean", [](const StrategyFigures& f) { return std::llround(f.memory_reread_mean); });
  figure("achieved_tb_per_s", [](const StrategyFigures& f) { return number(f.achieved_rate / kTera); });
  figure("limited_by", [](const StrategyFigures& f) { return std::string(blame_key(largest(f.attribution))); });
  if (!step) return;
  figure("tokens_per_s", [&](const StrategyFigures& f) {
    return number(tokens_per_second(f) * static_cast<double>(point->concurrency));
  });
  figure("moe_share", [](const StrategyFigures& f) { return number(f.moe_share()); });
}

// What the point was made of; what an axis says is there already.
void add_provenance(const Sweep& sweep, const SweepPoint& point, Fields& fields) {
  const auto* study = std::get_if<ConcurrencyStudy>(&point.result);
  const auto add = [&](const char* name, auto value_of) {
    const auto same = [&](const Axis& axis) { return axis.name == name; };
    if (std::any_of(sweep.grid.axes.begin(), sweep.grid.axes.end(), same)) return;
    fields.emplace_back(name, study == nullptr ? Json(nullptr) : Json(value_of(study->provenance)));
  };
  const auto shape = [&](const char* name, std::int64_t size) {
    fields.emplace_back(name, study == nullptr ? Json(nullptr) : Json(size));
  };
  using P = Provenance;
  fields.emplace_back("tool_version", sweep.tool_version);
  add("model", [](const P& p) { return p.model; });
  shape("model_experts", point.shape.experts);
  shape("model_topk", point.shape.topk);
  shape("model_intermediate", point.shape.intermediate);
  add("model_overrides", [](const P& p) { return fmt::format("{}", fmt::join(p.model_overrides, " ")); });
  add("weights", [](const P& p) { return p.weights; });
  add("activations", [](const P& p) { return p.activations; });
  add("device", [](const P& p) { return p.device; });
  add("device_hash", [](const P& p) { return p.device_hash; });
  add("device_overrides", [](const P& p) { return fmt::format("{}", fmt::join(p.overrides, " ")); });
  add("clock_hz", [](const P& p) { return p.clock_hz; });
  add("calibration", [](const P& p) { return p.calibration; });
  add("without", [](const P& p) { return fmt::format("{}", fmt::join(p.without, " ")); });
  add("tp", [](const P& p) { return p.tp; });
  add("ep", [](const P& p) { return p.ep; });
  add("scope", [](const P& p) { return p.scope; });
  add("launch", [](const P& p) { return p.launch; });
  if (sweep.step) {
    add("context", [](const P& p) { return p.step->context; });
    add("kv_dtype", [](const P& p) { return p.step->cache; });
    add("layers", [](const P& p) { return p.step->layers; });
  }
  add("routing", [](const P& p) { return p.routing; });
  add("samples", [](const P& p) { return p.samples; });
  add("seed", [](const P& p) { return p.seed; });
}

Fields fields_of(const Sweep& sweep, const SweepPoint& point, const StrategyRow* row) {
  const auto* study = std::get_if<ConcurrencyStudy>(&point.result);
  Fields fields;
  add_point(sweep, point, fields);
  const auto of_concurrency = [](const Axis& axis) { return axis.name == "concurrency"; };
  if (std::none_of(sweep.grid.axes.begin(), sweep.grid.axes.end(), of_concurrency)) {  // a trace's
    fields.emplace_back("concurrency", study == nullptr ? Json(nullptr) : Json(study->points.front().concurrency));
  }
  add_figures(study == nullptr ? nullptr : &study->points.front(), row, sweep.step, fields);
  const auto* infeasible = row == nullptr ? nullptr : std::get_if<Infeasible>(&row->result);
  const std::string* reason = infeasible != nullptr ? &infeasible->reason : std::get_if<std::string>(&point.result);
  fields.emplace_back("infeasible", reason == nullptr ? Json(nullptr) : Json(*reason));
  fields.emplace_back("implementation", row == nullptr ? Json(nullptr) : known(row->implementation));
  fields.emplace_back("in_calibrated_range", row != nullptr && row->in_range);
  add_provenance(sweep, point, fields);
  return fields;
}

// Paths need not be UTF-8.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Write>
void for_each_row(const Sweep& sweep, const SweepPoint& point, const Write& write) {
  const auto* study = std::get_if<ConcurrencyStudy>(&point.result);
  if (study == nullptr) {
    write(fields_of(sweep, point, nullptr));
    return;
  }
  for (const StrategyRow& row : study->points.front().rows) write(fields_of(sweep, point, &row));
}

// ------------------------------------------------------------------------------------------------------------- CSV

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.is_string() ? value.get<std::string>() : dump(value);
}

std::string csv_first_line(const Sweep& sweep) {
  SweepPoint none;
  none.values.resize(sweep.grid.axes.size());
  none.result = std::string();
  std::vector<std::string> headings;
  for (const auto& [name, value] : fields_of(sweep, none, nullptr)) headings.push_back(name);
  std::ostringstream out;
  write_csv_line(headings, out);
  return out.str();
}

std::string csv_lines(const Sweep& sweep, const SweepPoint& point) {
  std::ostringstream out;
  for_each_row(sweep, point, [&](const Fields& fields) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : fields) cells.push_back(csv_cell(value));
    write_csv_line(cells, out);
  });
  return out.str();
}

// `text` begins with `before`, a number, `between`, a hash and `after`.
std::optional<SweepPlace> place_between(std::string_view text, std::string_view before, std::string_view between,
                                        std::string_view after) {
  constexpr std::size_t kHashDigits = 16;
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  SweepPlace place;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), place.point);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (!text.starts_with(between)) return std::nullopt;
  text.remove_prefix(between.size());
  place.request = text.substr(0, kHashDigits);
  if (place.request.size() != kHashDigits || !text.substr(kHashDigits).starts_with(after)) return std::nullopt;
  return place;
}

std::optional<SweepPlace> csv_place(std::string_view line) { return place_between(line, "", ",", ","); }

// ------------------------------------------------------------------------------------------------------ JSON Lines

std::string jsonl_first_line(const Sweep& sweep) {
  Json axes = Json::array();
  for (const Axis& axis : sweep.grid.axes) {
    Json values = Json::array();
    for (const AxisValue& value : axis.values) values.push_back(value.text);
    axes.push_back({{"axis", axis.name}, {"values", values}});
  }
  const Json json = {{"schema", "moesim.sweep/1"},
                     {"request", sweep.request},
                     {"tool", {{"name", "moesim"}, {"version", sweep.tool_version}}},
                     {"points", sweep.grid.points()},
                     {"axes", axes},
                     {"keep", keep_name(sweep.grid.keep)},
                     {"flags", sweep.flags}};
  return dump(json) + '\n';
}

std::string jsonl_lines(const Sweep& sweep, const SweepPoint& point) {
  std::string text;
  for_each_row(sweep, point, [&](const Fields& fields) {
    Json json = Json::object();
    for (const auto& [name, value] : fields) json[name] = value;
    text += dump(json) + '\n';
  });
  return text;
}

std::optional<SweepPlace> jsonl_place(std::string_view line) {
  return place_between(line, R"({"point":)", R"(,"request":")", "\"");
}

constexpr SweepView kViews[] = {{"csv", false, csv_first_line, csv_lines, csv_place},
                                {"jsonl", true, jsonl_first_line, jsonl_lines, jsonl_place}};

}  // namespace

std::span<const SweepView> sweep_views() { return kViews; }

}  // namespace moesim
