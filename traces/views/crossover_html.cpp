#include "traces/views/crossover_html.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/crossover_data.h"
#include "traces/views/html_page.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

// What is used at load stands before its user.
constexpr std::array kScripts = {"kit.js",       "figure.js",     "crossover_study.js",
                                 "map_chart.js", "axis_chart.js", "crossover.js"};

}  // namespace

void write_crossover_html(const CrossoverStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  const nlohmann::ordered_json data = {
      {"version", p.tool_version},
      {"model", p.model},
      {"device", p.device},
      {"device_title", p.device_title},
      {"device_hash", p.device_hash},
      {"what", p.step ? "a " + step_title(p) : fmt::format("one MoE layer ({})", p.scope)},
      {"routing", p.routing},
      {"seed", p.seed},
      {"strategies", study.strategies},
      {"study", crossover_data(study)}};
  constexpr int kOneLine = -1;
  const std::string text = data.dump(kOneLine, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out << html_page({.title = fmt::format("{} on {}: where the winner changes", p.model, p.device_title),
                    .kind = "crossover",
                    .body = "crossover.html",
                    .scripts = kScripts,
                    .data = text});
}

}  // namespace moesim
