#include "tools/route_views.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "tools/commands.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPercent = 100;

// ------------------------------------------------------------------------------------------------------ table

// Few digits where the spread is wide.
std::string figure(double value) {
  constexpr double kWhole = 1000;
  return value >= kWhole ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

std::string spread(const LoadSummary& summary, bool recorded) {
  if (recorded) return figure(summary.batch_deviation);
  return summary.seed_deviation ? figure(*summary.seed_deviation) : "-";
}

void write_heading(const RouteReport& report, std::ostream& out) {
  out << fmt::format("moesim {}, routed experts of ", kVersion);
  if (report.recorded) {
    out << fmt::format("{} recorded batches\n", report.study.points.front().batches);
  } else {
    out << fmt::format("{} MoE layers, {} steps, {} samples, seed {}\n", report.layers, report.steps, report.samples,
                       report.seed);
  }
  const std::string sizes = fmt::format("{} experts, top-{}", report.router.experts, report.router.topk);
  out << fmt::format("model    {}\n",
                     report.model.empty() ? sizes : fmt::format("{} ({}), {}", report.model, report.model_file, sizes));
  out << fmt::format("routing  {}\n", report.routing);
  for (const Match& match : report.chosen.matches) {
    out << fmt::format("match    {} gives {}{}\n", routing_name(match.law), match_text(match),
                       match.solved ? "" : ": not reached by this law");
  }
  if (!report.out_file.empty()) out << fmt::format("trace    {}\n", report.out_file);
  out << '\n';
}

void write_loads(const RouteReport& report, std::ostream& out) {
  const bool repeats = report.study.points.front().repeated.has_value();
  std::vector<TextTable::Column> columns = {{"tokens"}};
  for (std::size_t l = 0; l < kLoadCount; ++l) {
    columns.push_back({load_name(l).heading});
    columns.push_back({"±"});
  }
  columns.push_back({"long run"});
  if (repeats) columns.push_back({"repeat %"});
  TextTable table(std::move(columns));
  for (const RoutingPoint& point : report.study.points) {
    std::vector<std::string> cells = {fmt::format("{}", point.tokens)};
    for (const LoadSummary& summary : point.loads) {
      cells.push_back(figure(summary.mean));
      cells.push_back(spread(summary, report.recorded));
    }
    cells.push_back(figure(point.long_run_mean));
    if (repeats) cells.push_back(figure(kPercent * point.repeated.value_or(0)));
    table.add_row(std::move(cells));
  }
  table.write(out);
  out << fmt::format("\n  means over {}; ± is the standard deviation {}\n",
                     report.recorded ? "batches" : "layers, steps and samples",
                     report.recorded ? "of a batch" : "of a sample's mean");
  out << "  long run: effective experts of all batches of a layer together\n";
}

void write_histogram(const RouteReport& report, std::ostream& out) {
  out << "\nexperts by rows\n";
  std::vector<TextTable::Column> columns = {{"tokens"}};
  for (const char* name : histogram_names()) columns.push_back({name});
  TextTable table(std::move(columns));
  for (const RoutingPoint& point : report.study.points) {
    std::vector<std::string> cells = {fmt::format("{}", point.tokens)};
    for (const double experts : point.histogram) cells.push_back(experts == 0 ? "" : figure(experts));
    table.add_row(std::move(cells));
  }
  table.write(out);
}

std::string render_table(const RouteReport& report) {
  std::ostringstream out;
  write_heading(report, out);
  write_loads(report, out);
  write_histogram(report, out);
  return out.str();
}

// ------------------------------------------------------------------------------------------------------ JSON, CSV

Json optional_number(const std::optional<double>& value) { return value ? Json(six_digits(*value)) : Json(nullptr); }

Json match_json(const Match& match) {
  return {{"routing", routing_name(match.law)},
          {"parameter", match.law.parameter},
          {"tokens", match.tokens},
          {"target_duplicate_pct", six_digits(kPercent * match.target)},
          {"duplicate_pct", six_digits(kPercent * match.reached)},
          {"standard_error_pct", six_digits(kPercent * match.standard_error)},
          {"solved", match.solved}};
}

Json point_json(const RoutingPoint& point) {
  Json json = {{"tokens", point.tokens}, {"batches", point.batches}};
  for (std::size_t l = 0; l < kLoadCount; ++l) {
    const LoadSummary& summary = point.loads[l];
    json[load_name(l).key] = {{"mean", six_digits(summary.mean)},
                              {"batch_deviation", six_digits(summary.batch_deviation)},
                              {"layer_deviation", optional_number(summary.layer_deviation)},
                              {"seed_deviation", optional_number(summary.seed_deviation)}};
  }
  Json& histogram = json["experts_by_rows"] = Json::object();
  for (std::size_t b = 0; b < kHistogramBins; ++b) {
    histogram[histogram_names()[b]] = six_digits(point.histogram[b]);
  }
  json["long_run_effective_experts"] = {{"mean", six_digits(point.long_run_mean)},
                                        {"least", six_digits(point.long_run_least)},
                                        {"most", six_digits(point.long_run_most)}};
  json["repeated_pct"] = point.repeated ? Json(six_digits(kPercent * *point.repeated)) : Json(nullptr);
  return json;
}

std::string render_json(const RouteReport& report) {
  Json json = {{"tool", {{"name", "moesim"}, {"version", kVersion}}},
               {"model", report.model.empty() ? Json(nullptr) : Json(report.model)},
               {"experts", report.router.experts},
               {"topk", report.router.topk},
               {"routing", report.routing}};
  if (!report.recorded) {
    json["layers"] = report.layers;
    json["steps"] = report.steps;
    json["samples"] = report.samples;
    json["seed"] = report.seed;
  }
  Json& matches = json["match"] = Json::array();
  for (const Match& match : report.chosen.matches) matches.push_back(match_json(match));
  json["trace"] = report.out_file.empty() ? Json(nullptr) : Json(report.out_file);
  Json& points = json["points"] = Json::array();
  for (const RoutingPoint& point : report.study.points) points.push_back(point_json(point));
  constexpr int kIndent = 2;
  return json.dump(kIndent) + "\n";
}

std::string csv_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", six_digits(*value)) : "";
}

std::string render_csv(const RouteReport& report) {
  std::ostringstream out;
  std::vector<std::string> headings = {"model", "experts", "topk", "routing", "seed", "tokens", "batches"};
  for (std::size_t l = 0; l < kLoadCount; ++l) {
    for (const char* suffix : {"", "_batch_deviation", "_layer_deviation", "_seed_deviation"}) {
      headings.push_back(std::string(load_name(l).key) + suffix);
    }
  }
  for (const char* name : histogram_names()) headings.push_back(fmt::format("experts_with_{}_rows", name));
  for (const char* name : {"long_run_effective_experts", "repeated_pct"}) headings.emplace_back(name);
  write_csv_line(headings, out);
  for (const RoutingPoint& point : report.study.points) {
    std::vector<std::string> cells = {report.model,
                                      fmt::format("{}", report.router.experts),
                                      fmt::format("{}", report.router.topk),
                                      report.routing,
                                      report.recorded ? "" : fmt::format("{}", report.seed),
                                      fmt::format("{}", point.tokens),
                                      fmt::format("{}", point.batches)};
    for (const LoadSummary& summary : point.loads) {
      cells.push_back(csv_number(summary.mean));
      cells.push_back(csv_number(summary.batch_deviation));
      cells.push_back(csv_number(summary.layer_deviation));
      cells.push_back(csv_number(summary.seed_deviation));
    }
    for (const double experts : point.histogram) cells.push_back(csv_number(experts));
    cells.push_back(csv_number(point.long_run_mean));
    cells.push_back(point.repeated ? csv_number(kPercent * *point.repeated) : "");
    write_csv_line(cells, out);
  }
  return out.str();
}

}  // namespace

std::string render(const RouteReport& report, OutputFormat format) {
  switch (format) {
    case OutputFormat::kTable:
      return render_table(report);
    case OutputFormat::kJson:
      return render_json(report);
    case OutputFormat::kCsv:
      return render_csv(report);
  }
  return "";
}

}  // namespace moesim
