#include "tools/strategy_curves_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/units/check.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

std::string title(const StrategyCurves& curves) {
  const std::string shard = curves.tp == 1 && curves.ep == 1 ? "" : fmt::format(", tp {} ep {}", curves.tp, curves.ep);
  return fmt::format("{}, {}{}, {}, launch {}, {} routing", curves.model, curves.weights, shard, curves.scope,
                     curves.launch, curves.routing);
}

// All points' errors of the ratio, and how often the order was right.
struct Summary {
  ErrorSummary ratio;
  std::size_t points = 0, same = 0, sure = 0;
  double confidence = 0;  // summed over `sure` points
  std::size_t sure_and_same = 0;
};

Summary summary_of(const std::vector<StrategyCurves>& list) {
  Summary summary;
  std::vector<double> errors;
  for (const StrategyCurves& curves : list) {
    for (const CurvePoint& point : curves.points) {
      errors.push_back(point.ratio_error_pct());
      ++summary.points;
      summary.same += point.same_winner() ? 1 : 0;
      if (!point.confidence) continue;
      ++summary.sure;
      summary.confidence += *point.confidence;
      summary.sure_and_same += point.same_winner() ? 1 : 0;
    }
  }
  summary.ratio = summarise(errors);
  return summary;
}

double percent(std::size_t part, std::size_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// "measured: A at least 5 % ahead up to 4 tokens, B from 12 on; simulated: B stays ahead from 6.3 on (inside)."
std::string span_sentence(const StrategyCurves& curves, const CurvesReport& report) {
  const auto last = curves.last_clear(), first = curves.first_clear();
  const double lead = (kClearLead - 1) * 100;
  std::string text = last ? fmt::format("measured: {} at least {:.0f} % ahead up to {} tokens", report.one, lead, *last)
                          : fmt::format("measured: {} nowhere {:.0f} % ahead", report.one, lead);
  text += first ? fmt::format(", {} from {} on", report.other, *first) : fmt::format(", {} nowhere", report.other);
  const auto crossover = curves.simulated_crossover();
  text += crossover ? fmt::format("; simulated: {} stays ahead from {:.1f} on", report.other, *crossover)
                    : fmt::format("; simulated: {} is ahead at the last", report.one);
  if (const auto inside = curves.inside()) text += *inside ? " (inside)" : " (outside)";
  return text + ".";
}

void write_table(const CurvesReport& report, std::ostream& out) {
  const Evaluation& e = report.of_rows.evaluation;
  out << fmt::format("moesim {}: {} against {}, {} on {} ({}), {}\n", report.of_rows.tool_version, report.one,
                     report.other, e.measurements, e.device, e.device_hash, report.of_rows.calibration);
  for (const std::string& note : report.of_rows.notes) out << fmt::format("note     {}\n", note);
  for (const StrategyCurves& curves : report.curves) {
    out << '\n' << title(curves) << '\n';
    TextTable table({{"tokens", Align::kRight},
                     {"measured µs", Align::kRight},
                     {"other µs", Align::kRight},
                     {"ratio", Align::kRight},
                     {"simulated µs", Align::kRight},
                     {"other µs", Align::kRight},
                     {"ratio", Align::kRight},
                     {"errors %", Align::kRight},
                     {"", Align::kRight},
                     {"of ratio %", Align::kRight},
                     {"confidence %", Align::kRight},
                     {"", Align::kLeft}});
    for (const CurvePoint& p : curves.points) {
      table.add_row({fmt::format("{}", p.tokens), fmt::format("{:.2f}", p.one.row->us),
                     fmt::format("{:.2f}", p.other.row->us), fmt::format("{:.3f}", p.measured_ratio()),
                     fmt::format("{:.2f}", p.one.simulated_us), fmt::format("{:.2f}", p.other.simulated_us),
                     fmt::format("{:.3f}", p.simulated_ratio()), fmt::format("{:+.1f}", p.one.error_pct()),
                     fmt::format("{:+.1f}", p.other.error_pct()), fmt::format("{:+.1f}", p.ratio_error_pct()),
                     p.confidence ? fmt::format("{:.0f}", *p.confidence * 100) : "-",
                     p.same_winner() ? "" : "other winner"});
    }
    table.write(out);
    out << "  " << span_sentence(curves, report) << '\n';
  }
  const Summary s = summary_of(report.curves);
  out << fmt::format("\n{} points: |error| of the ratio {:.1f} / {:.1f} % (median / p95), right winner {:.1f} %",
                     s.points, s.ratio.median_abs_pct, s.ratio.p95_abs_pct, percent(s.same, s.points));
  if (s.sure > 0) {
    out << fmt::format(" ({:.1f} % of the {} whose confidence is known, {:.1f} % by it)",
                       percent(s.sure_and_same, s.sure), s.sure, 100 * s.confidence / static_cast<double>(s.sure));
  }
  out << ".\n";
}

Json side_json(const RowResult& side) {
  return {{"implementation", side.row->implementation},
          {"measured_us", side.row->us},
          {"simulated_us", six_digits(side.simulated_us)},
          {"error_pct", six_digits(side.error_pct())}};
}

void write_json(const CurvesReport& report, std::ostream& out) {
  const Evaluation& e = report.of_rows.evaluation;
  Json json = {{"schema", "moesim.strategy_curves/1"},
               {"tool", {{"name", "moesim"}, {"version", report.of_rows.tool_version}}},
               {"measurements", e.measurements},
               {"device", {{"name", e.device}, {"hash", e.device_hash}, {"overrides", report.of_rows.overrides}}},
               {"calibration", report.of_rows.calibration},
               {"notes", report.of_rows.notes},
               {"filters", report.of_rows.filters},
               {"one", report.one},
               {"other", report.other}};
  Json& list = json["curves"] = Json::array();
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  for (const StrategyCurves& curves : report.curves) {
    Json points = Json::array();
    for (const CurvePoint& p : curves.points) {
      points.push_back({{"tokens", p.tokens},
                        {"one", side_json(p.one)},
                        {"other", side_json(p.other)},
                        {"measured_ratio", six_digits(p.measured_ratio())},
                        {"simulated_ratio", six_digits(p.simulated_ratio())},
                        {"ratio_error_pct", six_digits(p.ratio_error_pct())},
                        {"same_winner", p.same_winner()},
                        {"confidence", p.confidence ? Json(six_digits(*p.confidence)) : Json(nullptr)}});
    }
    const auto crossover = curves.simulated_crossover();
    list.push_back({{"model", curves.model},
                    {"weights", curves.weights},
                    {"tp", curves.tp},
                    {"ep", curves.ep},
                    {"scope", curves.scope},
                    {"launch", curves.launch},
                    {"routing", curves.routing},
                    {"measured_one_clear_to", or_null(curves.last_clear())},
                    {"measured_other_clear_from", or_null(curves.first_clear())},
                    {"simulated_crossover", crossover ? Json(six_digits(*crossover)) : Json(nullptr)},
                    {"inside", or_null(curves.inside())},
                    {"points", points}});
  }
  const Summary s = summary_of(report.curves);
  json["points"] = s.points;
  json["ratio_median_abs_pct"] = six_digits(s.ratio.median_abs_pct);
  json["ratio_p95_abs_pct"] = six_digits(s.ratio.p95_abs_pct);
  json["right_share"] = six_digits(percent(s.same, s.points) / 100);
  constexpr int kIndent = 2;
  out << json.dump(kIndent, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_csv(const CurvesReport& report, std::ostream& out) {
  write_csv_line({"model",
                  "weights",
                  "tp",
                  "ep",
                  "scope",
                  "launch",
                  "routing",
                  "tokens",
                  "one",
                  "other",
                  "measured_us_one",
                  "measured_us_other",
                  "measured_ratio",
                  "simulated_us_one",
                  "simulated_us_other",
                  "simulated_ratio",
                  "ratio_error_pct",
                  "confidence",
                  "calibration",
                  "device_hash",
                  "tool_version"},
                 out);
  const auto number = [](double value) { return fmt::format("{}", six_digits(value)); };
  for (const StrategyCurves& c : report.curves) {
    for (const CurvePoint& p : c.points) {
      write_csv_line({c.model,
                      c.weights,
                      fmt::format("{}", c.tp),
                      fmt::format("{}", c.ep),
                      c.scope,
                      c.launch,
                      c.routing,
                      fmt::format("{}", p.tokens),
                      p.one.row->implementation,
                      p.other.row->implementation,
                      number(p.one.row->us),
                      number(p.other.row->us),
                      number(p.measured_ratio()),
                      number(p.one.simulated_us),
                      number(p.other.simulated_us),
                      number(p.simulated_ratio()),
                      number(p.ratio_error_pct()),
                      p.confidence ? number(*p.confidence) : "",
                      report.of_rows.calibration,
                      report.of_rows.evaluation.device_hash,
                      report.of_rows.tool_version},
                     out);
    }
  }
}

}  // namespace

void write_curves(const CurvesReport& report, OutputFormat format, std::ostream& out) {
  MOESIM_CHECK(!report.curves.empty());
  switch (format) {
    case OutputFormat::kTable:
      return write_table(report, out);
    case OutputFormat::kJson:
      return write_json(report, out);
    case OutputFormat::kCsv:
      return write_csv(report, out);
  }
}

}  // namespace moesim
