#include "tools/evaluation_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <tuple>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/coverage_views.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

constexpr std::size_t kWorstRows = 20;
constexpr std::size_t kLargestBlames = 3;

// Bands of tokens ascend by their first number ("9-64" before "65-1024"); other names have none and stay as they are.
struct BandOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    const long first_of_a = std::strtol(a.c_str(), nullptr, 10);
    const long first_of_b = std::strtol(b.c_str(), nullptr, 10);
    return first_of_a != first_of_b ? first_of_a < first_of_b : a < b;
  }
};
using Summaries = std::vector<std::pair<std::string, ErrorSummary>>;

Summaries in_band_order(const std::map<std::string, ErrorSummary>& summaries) {
  const std::map<std::string, ErrorSummary, BandOrder> sorted(summaries.begin(), summaries.end());
  return {sorted.begin(), sorted.end()};
}

}  // namespace

std::vector<const RowResult*> worst_rows(const Evaluation& evaluation) {
  std::vector<const RowResult*> rows;
  rows.reserve(evaluation.rows.size());
  for (const RowResult& row : evaluation.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const RowResult* a, const RowResult* b) {
    return std::abs(a->error_pct()) > std::abs(b->error_pct());
  });
  rows.resize(std::min(rows.size(), kWorstRows));
  return rows;
}

std::vector<Cell> cells_in_band_order(std::vector<Cell> cells) {
  std::stable_sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    if (std::tie(a.strategy, a.weights) != std::tie(b.strategy, b.weights)) {
      return std::tie(a.strategy, a.weights) < std::tie(b.strategy, b.weights);
    }
    return BandOrder()(a.band, b.band);
  });
  return cells;
}

std::string attribution_text(const RowResult& row) {
  std::vector<std::size_t> order(kBlameCount);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return row.attribution[a] > row.attribution[b]; });
  std::string text;
  for (const std::size_t blame : std::span(order).first(kLargestBlames)) {
    const double share = row.attribution[blame].as_double() / sum(row.attribution).as_double() * 100;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", blame_name(static_cast<Blame>(blame)), share);
  }
  return text;
}

namespace {

std::string limiter(const RowResult& row) { return std::string(blame_name(largest(row.attribution))); }

bool has_floor(const RowResult& row) { return row.floor_us > 0; }

// ------------------------------------------------------------------------------------------------------- table

std::vector<std::string> summary_cells(const ErrorSummary& s) {
  if (s.count == 0) return {"0", "-", "-", "-", "-", "-"};
  return {fmt::format("{}", s.count),           fmt::format("{:.1f}", s.median_abs_pct),
          fmt::format("{:.1f}", s.p95_abs_pct), fmt::format("{:.1f}", s.mean_abs_pct),
          fmt::format("{:+.1f}", s.bias_pct),   fmt::format("{:.1f}", s.max_abs_pct)};
}

void write_summaries(const std::string& title, const std::string& heading, const Summaries& summaries,
                     std::ostream& out) {
  if (summaries.empty()) return;
  TextTable table({{heading, Align::kLeft},
                   {"rows", Align::kRight},
                   {"median %", Align::kRight},
                   {"p95 %", Align::kRight},
                   {"mean %", Align::kRight},
                   {"bias %", Align::kRight},
                   {"max %", Align::kRight}});
  for (const auto& [name, summary] : summaries) {
    std::vector<std::string> cells = {name};
    for (std::string& cell : summary_cells(summary)) cells.push_back(std::move(cell));
    table.add_row(std::move(cells));
  }
  out << '\n' << title << '\n';
  table.write(out);
}

void write_cells(const Evaluation& evaluation, std::ostream& out) {
  if (evaluation.cells.empty()) return;
  TextTable table({{"strategy", Align::kLeft},
                   {"weights", Align::kLeft},
                   {"tokens", Align::kLeft},
                   {"scope", Align::kLeft},
                   {"rows", Align::kRight},
                   {"ours median %", Align::kRight},
                   {"p95 %", Align::kRight},
                   {"bias %", Align::kRight},
                   {"floor median %", Align::kRight},
                   {"p95 %", Align::kRight},
                   {"better", Align::kLeft}});
  for (const Cell& cell : cells_in_band_order(evaluation.cells)) {
    const bool median = cell.ours.median_abs_pct < cell.floor.median_abs_pct;
    const bool p95 = cell.ours.p95_abs_pct < cell.floor.p95_abs_pct;
    table.add_row({cell.strategy, cell.weights, cell.band, cell.scope, fmt::format("{}", cell.ours.count),
                   fmt::format("{:.1f}", cell.ours.median_abs_pct), fmt::format("{:.1f}", cell.ours.p95_abs_pct),
                   fmt::format("{:+.1f}", cell.ours.bias_pct), fmt::format("{:.1f}", cell.floor.median_abs_pct),
                   fmt::format("{:.1f}", cell.floor.p95_abs_pct),
                   median && p95   ? "ours"
                   : median || p95 ? "mixed"
                                   : "floor"});
  }
  out << "\ntotals, beside the roofline floor (active experts x matrices / achieved read rate)\n";
  table.write(out);
}

void write_choice(const Choice& choice, std::ostream& out) {
  if (choice.all.cells == 0) return;
  out << fmt::format(
      "\nchoice of strategy: right in {:.1f} % of {} cells, {:.2f} % of time lost by trusting it "
      "({:.2f} % by trusting the choice of a kernel)\n",
      choice.all.right_share * 100, choice.all.cells, choice.all.mean_regret_pct, choice.all.mean_kernel_regret_pct);
  if (choice.decided.cells == 0) return;
  out << fmt::format(
      "where the fastest two differ by more than {} times their spread: right in {:.1f} % of {} cells, "
      "{:.2f} % ({:.2f} %) lost\n",
      kSpreads, choice.decided.right_share * 100, choice.decided.cells, choice.decided.mean_regret_pct,
      choice.decided.mean_kernel_regret_pct);
}

void write_implementations(const EvaluationReport& report, std::ostream& out) {
  if (report.evaluation.implementations.empty()) return;
  TextTable table({{"strategy", Align::kLeft},
                   {"implementation", Align::kLeft},
                   {"weights", Align::kLeft},
                   {"rows", Align::kRight},
                   {"median %", Align::kRight},
                   {"p95 %", Align::kRight},
                   {"bias %", Align::kRight},
                   {"constants", Align::kLeft}});
  for (const ImplementationErrors& of : report.evaluation.implementations) {
    table.add_row({of.strategy, of.implementation, of.weights, fmt::format("{}", of.ours.count),
                   fmt::format("{:.1f}", of.ours.median_abs_pct), fmt::format("{:.1f}", of.ours.p95_abs_pct),
                   fmt::format("{:+.1f}", of.ours.bias_pct),
                   of.fitted           ? "fitted to it"
                   : report.calibrated ? "of its strategy in general: no fit to this implementation"
                                       : "of its strategy in general"});
  }
  out << "\nby implementation\n";
  table.write(out);
}

void write_worst(const EvaluationReport& report, std::ostream& out) {
  const Evaluation& evaluation = report.evaluation;
  if (evaluation.rows.empty()) return;
  TextTable table({{"line", Align::kRight},
                   {"model", Align::kLeft},
                   {"tp", Align::kRight},
                   {"implementation", Align::kLeft},
                   {"weights", Align::kLeft},
                   {"tokens", Align::kRight},
                   {"routing", Align::kLeft},
                   {"stage", Align::kLeft},
                   {"measured µs", Align::kRight},
                   {"simulated µs", Align::kRight},
                   {"error %", Align::kRight},
                   {"range", Align::kLeft},
                   {"simulated time goes to", Align::kLeft}});
  for (const RowResult* row : worst_rows(evaluation)) {
    const MoeMeasurement& m = *row->row;
    table.add_row({fmt::format("{}", m.line), m.model_name, fmt::format("{}", m.tp), m.implementation, m.weights,
                   fmt::format("{}", m.tokens), m.routing, m.stage, fmt::format("{:.2f}", m.us),
                   fmt::format("{:.2f}", row->simulated_us), fmt::format("{:+.1f}", row->error_pct()),
                   row->in_range ? "in" : "out", attribution_text(*row)});
  }
  out << "\nworst rows\n";
  table.write(out);
}

// Rows of one reason together, with the first line that has it.
void write_skipped(const Evaluation& evaluation, std::ostream& out) {
  if (evaluation.skipped.empty()) return;
  struct Group {
    std::int64_t rows = 0, first_line = 0;
  };
  std::map<std::string, Group> groups;
  for (const RowResult& row : evaluation.skipped) {
    Group& group = groups[row.skipped];
    if (group.rows++ == 0) group.first_line = row.row->line;
  }
  TextTable table({{"rows", Align::kRight}, {"first line", Align::kRight}, {"reason", Align::kLeft}});
  for (const auto& [reason, group] : groups) {
    table.add_row({fmt::format("{}", group.rows), fmt::format("{}", group.first_line), reason});
  }
  out << "\nskipped\n";
  table.write(out);
}

void write_table(const EvaluationReport& report, std::ostream& out) {
  const Evaluation& e = report.evaluation;
  out << fmt::format("moesim {}, {}\n", report.tool_version, report.calibration);
  out << fmt::format("measurements  {}, {} rows\n", e.measurements, report.rows_in_file);
  out << fmt::format("device        {} ({})\n", e.device, e.device_hash);
  for (const std::string& assignment : report.overrides) out << fmt::format("set           {}\n", assignment);
  for (const std::string& filter : report.filters) out << fmt::format("only          {}\n", filter);
  for (const std::string& note : report.notes) out << fmt::format("note          {}\n", note);
  out << fmt::format(
      "simulated     {} rows, and {} below {} µs; left out: {} of other devices, {} by flags, {} skipped\n",
      e.rows.size(), e.small_rows.size(), kSmallRowUs, report.rows_of_other_devices, report.rows_filtered,
      e.skipped.size());
  out << fmt::format("below bound   {} predictions\n", e.below_bound);

  Summaries all = {{"rows", e.overall},
                   {"in the calibrated range", e.in_range},
                   {"outside of it", e.out_of_range},
                   {"power-capped", e.power_capped},
                   {"not power-capped", e.not_power_capped},
                   {"totals, by the floor", e.floor}};
  if (report.uncalibrated) all.emplace_back("rows, device constants alone", report.uncalibrated->overall);
  write_summaries("error of simulated over measured time, absolute but for the bias", "all", all, out);
  write_cells(e, out);
  write_summaries("by strategy", "strategy", in_band_order(e.by_strategy), out);
  write_summaries("by strategy and weights", "strategy/weights", in_band_order(e.by_strategy_dtype), out);
  write_summaries("by tokens", "tokens", in_band_order(e.by_band), out);
  write_summaries("by stage", "stage", in_band_order(e.by_stage), out);
  write_implementations(report, out);
  write_choice(e.choice, out);
  if (e.coverage) write_coverage_table(*e.coverage, out);
  write_worst(report, out);
  write_summaries(fmt::format("rows below {} µs, which are launch noise", kSmallRowUs), "small", {{"rows", e.small}},
                  out);
  write_skipped(e, out);
}

// -------------------------------------------------------------------------------------------------------- json

Json summary_json(const ErrorSummary& s) {
  // Nothing measured is no error of zero.
  const auto figure = [&](double value) { return s.count == 0 ? Json(nullptr) : Json(six_digits(value)); };
  return {{"count", s.count},
          {"mean_abs_pct", figure(s.mean_abs_pct)},
          {"median_abs_pct", figure(s.median_abs_pct)},
          {"p95_abs_pct", figure(s.p95_abs_pct)},
          {"bias_pct", figure(s.bias_pct)},
          {"max_abs_pct", figure(s.max_abs_pct)}};
}

Json summaries_json(const std::map<std::string, ErrorSummary>& summaries) {
  Json json = Json::object();
  for (const auto& [name, summary] : in_band_order(summaries)) json[name] = summary_json(summary);
  return json;
}

Json choice_json(const ChoiceErrors& errors) {
  const auto figure = [&](double value) { return errors.cells == 0 ? Json(nullptr) : Json(six_digits(value)); };
  return {{"cells", errors.cells},
          {"right_share", figure(errors.right_share)},
          {"mean_regret_pct", figure(errors.mean_regret_pct)},
          {"mean_kernel_regret_pct", figure(errors.mean_kernel_regret_pct)}};
}

Json worst_json(const RowResult& row) {
  const MoeMeasurement& m = *row.row;
  return {{"file", m.file},
          {"line", m.line},
          {"model", m.model_name},
          {"tp", m.tp},
          {"ep", m.ep},
          {"strategy", m.strategy},
          {"implementation", m.implementation},
          {"weights", m.weights},
          {"tokens", m.tokens},
          {"routing", m.routing},
          {"stage", m.stage},
          {"measured_us", m.us},
          {"simulated_us", six_digits(row.simulated_us)},
          {"error_pct", six_digits(row.error_pct())},
          {"floor_error_pct", has_floor(row) ? Json(six_digits(row.floor_error_pct())) : Json(nullptr)},
          {"in_calibrated_range", row.in_range},
          {"power_capped", m.power_capped},
          {"limited_by", limiter(row)},
          {"attribution", attribution_text(row)}};
}

void write_json(const EvaluationReport& report, std::ostream& out) {
  const Evaluation& e = report.evaluation;
  Json json = {{"schema", "moesim.evaluation/1"},
               {"tool", {{"name", "moesim"}, {"version", report.tool_version}}},
               {"calibration", report.calibration},
               {"device", {{"name", e.device}, {"hash", e.device_hash}, {"overrides", report.overrides}}},
               {"measurements", e.measurements},
               {"filters", report.filters},
               {"rows_in_file", report.rows_in_file},
               {"rows_of_other_devices", report.rows_of_other_devices},
               {"rows_filtered", report.rows_filtered},
               {"notes", report.notes},
               {"below_bound", e.below_bound},
               {"overall", summary_json(e.overall)},
               {"by_strategy", summaries_json(e.by_strategy)},
               {"by_strategy_dtype", summaries_json(e.by_strategy_dtype)},
               {"by_band", summaries_json(e.by_band)},
               {"by_stage", summaries_json(e.by_stage)},
               {"by_implementation", summaries_json(e.by_implementation)}};
  Json& implementations = json["implementations"] = Json::array();
  for (const ImplementationErrors& of : e.implementations) {
    implementations.push_back({{"strategy", of.strategy},
                               {"implementation", of.implementation},
                               {"weights", of.weights},
                               {"fitted", of.fitted},
                               {"ours", summary_json(of.ours)}});
  }
  Json& cells = json["cells"] = Json::array();
  for (const Cell& cell : cells_in_band_order(e.cells)) {
    cells.push_back({{"strategy", cell.strategy},
                     {"weights", cell.weights},
                     {"band", cell.band},
                     {"scope", cell.scope},
                     {"ours", summary_json(cell.ours)},
                     {"floor", summary_json(cell.floor)}});
  }
  // What was not fitted has no range that it was fitted in.
  json["in_range"] = summary_json(e.in_range);
  json["out_of_range"] = summary_json(e.out_of_range);
  json["power_capped"] = summary_json(e.power_capped);
  json["not_power_capped"] = summary_json(e.not_power_capped);
  json["small_rows"] = summary_json(e.small);
  json["floor"] = summary_json(e.floor);
  json["choice"] = choice_json(e.choice.all);
  json["choice"]["decided"] = choice_json(e.choice.decided);
  if (e.coverage) json["coverage"] = coverage_json(*e.coverage);
  if (report.uncalibrated) {
    json["uncalibrated"] = {{"overall", summary_json(report.uncalibrated->overall)},
                            {"by_strategy_dtype", summaries_json(report.uncalibrated->by_strategy_dtype)}};
  }
  Json& worst = json["worst"] = Json::array();
  for (const RowResult* row : worst_rows(e)) worst.push_back(worst_json(*row));
  Json& skipped = json["skipped"] = Json::array();
  for (const RowResult& row : e.skipped) {
    skipped.push_back(fmt::format("{}:{}: {}", row.row->file, row.row->line, row.skipped));
  }
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

// --------------------------------------------------------------------------------------------------------- csv

void write_csv(const EvaluationReport& report, std::ostream& out) {
  const Evaluation& e = report.evaluation;
  write_csv_line({"line",
                  "model",
                  "tp",
                  "ep",
                  "weights",
                  "activations",
                  "tokens",
                  "routing",
                  "routed_trace",
                  "strategy",
                  "implementation",
                  "launch",
                  "scope",
                  "stage",
                  "measured_us",
                  "simulated_us",
                  "error_pct",
                  "bound_us",
                  "floor_us",
                  "floor_error_pct",
                  "limited_by",
                  "small_row",
                  "device",
                  "device_hash",
                  "device_overrides",
                  "calibration",
                  "tool_version",
                  "file",
                  "power_capped",
                  "fitted",
                  "in_calibrated_range"},
                 out);
  std::vector<const RowResult*> rows;
  rows.reserve(e.rows.size() + e.small_rows.size());
  for (const RowResult& row : e.rows) rows.push_back(&row);
  for (const RowResult& row : e.small_rows) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(),
            [](const RowResult* a, const RowResult* b) { return a->row < b->row; });  // as measured
  const auto whole = [](std::int64_t value) { return fmt::format("{}", value); };
  const auto number = [](double value) { return fmt::format("{}", six_digits(value)); };
  for (const RowResult* row : rows) {
    const MoeMeasurement& m = *row->row;
    write_csv_line({whole(m.line),
                    m.model_name,
                    whole(m.tp),
                    whole(m.ep),
                    m.weights,
                    m.activations,
                    whole(m.tokens),
                    m.routing,
                    m.routed_trace,
                    m.strategy,
                    m.implementation,
                    m.launch,
                    m.scope,
                    m.stage,
                    fmt::format("{}", m.us),
                    number(row->simulated_us),
                    number(row->error_pct()),
                    number(row->bound_us),
                    has_floor(*row) ? number(row->floor_us) : "",
                    has_floor(*row) ? number(row->floor_error_pct()) : "",
                    limiter(*row),
                    m.us < kSmallRowUs ? "1" : "0",
                    e.device,
                    e.device_hash,
                    fmt::format("{}", fmt::join(report.overrides, " ")),
                    report.calibration,
                    report.tool_version,
                    m.file,
                    m.power_capped ? "1" : "0",
                    row->fitted ? "1" : "0",
                    row->in_range ? "1" : "0"},
                   out);
  }
}

}  // namespace

std::span<const EvaluationView> evaluation_views() {
  static constexpr EvaluationView kViews[] = {
      {"table", write_table}, {"json", write_json}, {"csv", write_csv}, {"markdown", write_evaluation_markdown}};
  return kViews;
}

const EvaluationView& find_evaluation_view(const std::string& name) {
  std::vector<std::string> names;
  for (const EvaluationView& view : evaluation_views()) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

}  // namespace moesim
