#include "traces/views/crossover_html.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/crossover_data.h"
#include "traces/views/html_page.h"
#include "traces/views/provenance_views.h"

namespace moesim {
namespace {

// What is used at load stands before its user.
constexpr std::array kScripts = {"kit.js",       "figure.js",     "crossover_study.js",
                                 "map_chart.js", "axis_chart.js", "crossover.js"};

}  // namespace

void write_crossover_html(const CrossoverStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  nlohmann::ordered_json data = page_head_json(p);
  data["what"] = subject_text(p);
  data["strategies"] = study.strategies;
  data["study"] = crossover_data(study);
  constexpr int kOneLine = -1;
  const std::string text = data.dump(kOneLine, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out << html_page({.title = fmt::format("{} on {}: where the winner changes", p.model, p.device_title),
                    .kind = "crossover",
                    .body = "crossover.html",
                    .scripts = kScripts,
                    .data = text});
}

}  // namespace moesim
