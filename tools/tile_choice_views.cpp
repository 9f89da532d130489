#include "tools/tile_choice_views.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

constexpr const char* kStacks[] = {"vllm-triton", "sglang-triton"};

std::string percent(double value) { return fmt::format("{:.1f}", value); }

std::string default_regret(const TileCell& cell, const char* stack) {
  const auto it = cell.defaults_us.find(stack);
  return it == cell.defaults_us.end() ? "-" : percent(cell.regret_pct(it->second));
}

// Means over cells, each cell alike.
struct Means {
  std::size_t cells = 0;
  double predicted = 0, chosen = 0, worst = 0, error = 0;
  std::map<std::string, std::pair<std::size_t, double>> defaults;  // by stack: cells, sum

  void add(const TileCell& cell) {
    ++cells;
    predicted += cell.regret_pct(cell.predicted_us);
    chosen += cell.regret_pct(cell.chosen_us);
    worst = std::max(worst, cell.regret_pct(cell.predicted_us));
    error += cell.median_abs_error_pct;
    for (const auto& [stack, us] : cell.defaults_us) {
      ++defaults[stack].first;
      defaults[stack].second += cell.regret_pct(us);
    }
  }
  [[nodiscard]] double of(double sum) const { return sum / static_cast<double>(cells); }
  [[nodiscard]] std::optional<double> by_default(const char* stack) const {
    const auto it = defaults.find(stack);
    if (it == defaults.end()) return std::nullopt;
    return it->second.second / static_cast<double>(it->second.first);
  }
};

// By a property of the cells, and of all of them.
std::vector<std::pair<std::string, Means>> means_by(const TileChoice& choice,
                                                    const std::function<std::string(const TileCell&)>& name) {
  std::vector<std::pair<std::string, Means>> list;
  for (const TileCell& cell : choice.cells) {
    if (cell.predicted.empty()) continue;
    const std::string of = name(cell);
    auto it = std::ranges::find(list, of, &std::pair<std::string, Means>::first);
    if (it == list.end()) it = list.insert(list.end(), {of, {}});
    it->second.add(cell);
  }
  return list;
}

std::vector<std::pair<std::string, Means>> all_means(const TileChoice& choice) {
  std::vector<std::pair<std::string, Means>> list = means_by(choice, [](const TileCell&) { return "all"; });
  for (auto& [name, means] : means_by(choice, [](const TileCell& c) { return "stage " + c.stage; })) {
    list.emplace_back(name, means);
  }
  for (auto& [name, means] : means_by(choice, [](const TileCell& c) { return fmt::format("{} tokens", c.tokens); })) {
    list.emplace_back(name, means);
  }
  for (auto& [name, means] : means_by(choice, [](const TileCell& c) { return c.model + " " + c.weights; })) {
    list.emplace_back(name, means);
  }
  return list;
}

void write_table(const TileChoiceReport& report, std::ostream& out) {
  out << fmt::format("moesim {}, choice of tiles in {}, {}\n", report.tool_version, report.measurements,
                     report.calibration);
  out << fmt::format(
      "device   {} ({}); registers and on-chip bytes by rule, boost clock, as before a kernel is compiled\n",
      report.device, report.device_hash);
  for (const std::string& assignment : report.overrides) out << fmt::format("set      {}\n", assignment);
  for (const std::string& note : report.notes) out << fmt::format("note     {}\n", note);
  out << fmt::format("rows     {} in {} cells of at least {} tiles, {} others\n\n", report.choice.rows,
                     report.choice.cells.size(), kFewestTiles, report.choice.other_rows);
  TextTable table({{"model", Align::kLeft},
                   {"weights", Align::kLeft},
                   {"tokens", Align::kRight},
                   {"stage", Align::kLeft},
                   {"tiles", Align::kRight},
                   {"refused", Align::kRight},
                   {"best µs", Align::kRight},
                   {"predicted µs", Align::kRight},
                   {"regret %", Align::kRight},
                   {"chosen %", Align::kRight},
                   {"vLLM's default %", Align::kRight},
                   {"SGLang's %", Align::kRight},
                   {"error %", Align::kRight},
                   {"best tile", Align::kLeft},
                   {"predicted tile", Align::kLeft}});
  for (const TileCell& cell : report.choice.cells) {
    const bool any = !cell.predicted.empty();
    table.add_row({cell.model, cell.weights, fmt::format("{}", cell.tokens), cell.stage, fmt::format("{}", cell.tiles),
                   fmt::format("{}", cell.refused), fmt::format("{:.2f}", cell.best_us),
                   any ? fmt::format("{:.2f}", cell.predicted_us) : "-",
                   any ? percent(cell.regret_pct(cell.predicted_us)) : "-",
                   any ? percent(cell.regret_pct(cell.chosen_us)) : "-", default_regret(cell, kStacks[0]),
                   default_regret(cell, kStacks[1]), any ? percent(cell.median_abs_error_pct) : "-", cell.best,
                   any ? cell.predicted : "-"});
  }
  table.write(out);
  out << fmt::format(
      "\nmeans: measured time of the tile that is predicted to be best over that of the measured best, less 1; chosen: "
      "the "
      "default unless {:g} % are predicted to be saved\n",
      report.min_gain * 100);
  TextTable means({{"of", Align::kLeft},
                   {"cells", Align::kRight},
                   {"regret %", Align::kRight},
                   {"largest %", Align::kRight},
                   {"chosen %", Align::kRight},
                   {"vLLM's default %", Align::kRight},
                   {"SGLang's %", Align::kRight},
                   {"error %", Align::kRight}});
  for (const auto& [name, m] : all_means(report.choice)) {
    const auto of_stack = [&m = m](const char* stack) {
      const std::optional<double> mean = m.by_default(stack);
      return mean ? percent(*mean) : "-";
    };
    means.add_row({name, fmt::format("{}", m.cells), percent(m.of(m.predicted)), percent(m.worst),
                   percent(m.of(m.chosen)), of_stack(kStacks[0]), of_stack(kStacks[1]), percent(m.of(m.error))});
  }
  means.write(out);
}

Json cell_json(const TileCell& cell) {
  Json json = {{"model", cell.model},   {"weights", cell.weights}, {"tp", cell.tp},       {"ep", cell.ep},
               {"tokens", cell.tokens}, {"stage", cell.stage},     {"tiles", cell.tiles}, {"refused", cell.refused},
               {"best", cell.best},     {"best_us", cell.best_us}};
  if (!cell.predicted.empty()) {
    json["predicted"] = cell.predicted;
    json["predicted_us"] = cell.predicted_us;
    json["regret_pct"] = six_digits(cell.regret_pct(cell.predicted_us));
    json["chosen"] = cell.chosen;
    json["chosen_regret_pct"] = six_digits(cell.regret_pct(cell.chosen_us));
    json["median_abs_error_pct"] = six_digits(cell.median_abs_error_pct);
  }
  Json& defaults = json["default_regret_pct"] = Json::object();
  for (const auto& [stack, us] : cell.defaults_us) defaults[stack] = six_digits(cell.regret_pct(us));
  return json;
}

void write_json(const TileChoiceReport& report, std::ostream& out) {
  Json json = {{"schema", "moesim.tile_choice/1"},
               {"tool", {{"name", "moesim"}, {"version", report.tool_version}}},
               {"device", report.device},
               {"device_hash", report.device_hash},
               {"overrides", report.overrides},
               {"calibration", report.calibration},
               {"measurements", report.measurements},
               {"min_gain", report.min_gain},
               {"rows", report.choice.rows},
               {"other_rows", report.choice.other_rows}};
  Json& cells = json["cells"] = Json::array();
  for (const TileCell& cell : report.choice.cells) cells.push_back(cell_json(cell));
  Json& means = json["means"] = Json::object();
  for (const auto& [name, m] : all_means(report.choice)) {
    Json& of = means[name] = {{"cells", m.cells},
                              {"regret_pct", six_digits(m.of(m.predicted))},
                              {"largest_regret_pct", six_digits(m.worst)},
                              {"chosen_regret_pct", six_digits(m.of(m.chosen))},
                              {"median_abs_error_pct", six_digits(m.of(m.error))}};
    for (const char* stack : kStacks) {
      if (const std::optional<double> mean = m.by_default(stack)) of["default_regret_pct"][stack] = six_digits(*mean);
    }
  }
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

void write_csv(const TileChoiceReport& report, std::ostream& out) {
  write_csv_line({"model", "weights", "tp", "ep", "tokens", "stage", "tiles", "refused", "best", "best_us", "predicted",
                  "predicted_us", "regret_pct", "chosen", "chosen_regret_pct", "vllm_default_regret_pct",
                  "sglang_default_regret_pct", "median_abs_error_pct"},
                 out);
  for (const TileCell& cell : report.choice.cells) {
    const bool any = !cell.predicted.empty();
    const auto number = [&](double value) { return any ? fmt::format("{}", six_digits(value)) : ""; };
    const auto of_stack = [&](const char* stack) {
      const auto it = cell.defaults_us.find(stack);
      return it == cell.defaults_us.end() ? "" : fmt::format("{}", six_digits(cell.regret_pct(it->second)));
    };
    write_csv_line(
        {cell.model, cell.weights, fmt::format("{}", cell.tp), fmt::format("{}", cell.ep),
         fmt::format("{}", cell.tokens), cell.stage, fmt::format("{}", cell.tiles), fmt::format("{}", cell.refused),
         cell.best, fmt::format("{}", cell.best_us), cell.predicted, number(cell.predicted_us),
         number(cell.regret_pct(cell.predicted_us)), cell.chosen, number(cell.regret_pct(cell.chosen_us)),
         of_stack(kStacks[0]), of_stack(kStacks[1]), number(cell.median_abs_error_pct)},
        out);
  }
}

}  // namespace

void write_tile_choice(const TileChoiceReport& report, OutputFormat format, std::ostream& out) {
  switch (format) {
    case OutputFormat::kTable:
      write_table(report, out);
      return;
    case OutputFormat::kJson:
      write_json(report, out);
      return;
    case OutputFormat::kCsv:
      write_csv(report, out);
      return;
  }
}

}  // namespace moesim
