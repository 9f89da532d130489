#include "traces/views/report_html.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "traces/views/html_page.h"

namespace moesim {
namespace {

// What is used at load stands before its user.
constexpr std::array kScripts = {
    "kit.js",          "figure.js",     "study.js",          "time_chart.js", "attribution_chart.js",
    "ladder_chart.js", "rows_chart.js", "timeline_chart.js", "tables.js",     "report.js"};

}  // namespace

std::string report_page(std::string_view title, std::string_view data) {
  return html_page({.title = title, .kind = "report", .body = "report.html", .scripts = kScripts, .data = data});
}

void write_report_html(const Report& report, std::ostream& out) {
  const Provenance& p = report.study.provenance;
  out << report_page(fmt::format("{} on {}: moesim report", p.model, p.device_title), report_data(report));
}

}  // namespace moesim
