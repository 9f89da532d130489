// A chart: the 99th percentile of the latency against the load, a line a strategy, without the loads at which a run was
// stopped; a bar below shows the largest load that each sustains. One self-contained SVG; the description holds the provenance.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "traces/views/markup.h"
#include "traces/views/serving_data.h"
#include "traces/views/svg_chart.h"

namespace moesim {
namespace {

constexpr double kWidth = 760, kPlot = 300, kBar = 22;
constexpr double kLeft = 70, kRight = 210, kTop = 66;
constexpr double kLabels = 56;  // below the plot

std::string share_text(double share) { return fmt::format("{:g} %", share * 100); }

struct Chart {
  LogAxis x, y;
  double bars, height;  // top of the bars; of the picture
};

Chart chart_of(const ServingStudy& study) {
  double least_load = 1e300, most_load = 0, least = 1e300, most = 0;
  for (const StrategyServing& s : study.strategies) {
    for (const ServingFigures& f : s.points) {
      least_load = std::min(least_load, f.load);
      most_load = std::max(most_load, f.load);
      if (f.latency.count == 0) continue;
      least = std::min(least, milliseconds(f.latency.p50));
      most = std::max(most, milliseconds(f.latency.p99));
    }
  }
  if (study.setup.goals.latency) {
    const double goal = milliseconds(*study.setup.goals.latency);
    least = std::min(least, goal);
    most = std::max(most, goal);
  }
  constexpr double kRoom = 1.2;
  if (most_load == least_load) {
    least_load /= kRoom;
    most_load *= kRoom;
  }
  Chart chart;
  chart.x = {least_load, most_load, kLeft, kWidth - kRight};
  chart.y = {least / kRoom, most * kRoom, kTop + kPlot, kTop};
  chart.bars = kTop + kPlot + kLabels;
  chart.height = chart.bars + kBar * static_cast<double>(study.strategies.size()) + 14;
  return chart;
}

void write_axes(const ServingStudy& study, const Chart& chart, std::ostream& out) {
  for (const double value : log_ticks(chart.y.low, chart.y.high)) {
    const double at = chart.y.place(value);
    fmt::print(out,
               R"(<path d="M{:.0f} {:.1f}H{:.0f}" stroke="#ddd"/>)"
               "\n",
               kLeft, at, kWidth - kRight);
    fmt::print(out,
               R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end" fill="#333">{:g}</text>)"
               "\n",
               kLeft - 6, at + 4, value);
  }
  for (const double value : log_ticks(chart.x.low, chart.x.high)) {
    const double at = chart.x.place(value);
    fmt::print(out,
               R"(<path d="M{0:.1f} {1:.0f}V{2:.0f}" stroke="#eee"/>)"
               "\n",
               at, kTop, kTop + kPlot);
    fmt::print(out,
               R"(<text x="{:.1f}" y="{:.0f}" text-anchor="middle" fill="#333">{:g}</text>)"
               "\n",
               at, kTop + kPlot + 18, value);
  }
  fmt::print(out,
             R"(<text x="{:.0f}" y="{:.0f}" text-anchor="middle" fill="#333">{}</text>)"
             "\n",
             (kLeft + kWidth - kRight) / 2, kTop + kPlot + 36, load_noun(study.setup.kind));
  fmt::print(out,
             R"svg(<text transform="translate(18 {:.0f}) rotate(-90)" text-anchor="middle" fill="#333">)svg"
             "99 % of {}s within, ms</text>\n",
             kTop + kPlot / 2, turn_noun(study.setup.kind));
  if (!study.setup.goals.latency) return;
  const double goal = chart.y.place(milliseconds(*study.setup.goals.latency));
  svg_line(out, {{kLeft, goal}, {kWidth - kRight, goal}}, "#777", "5 4");
  fmt::print(out,
             R"(<text x="{:.0f}" y="{:.1f}" fill="#555">deadline</text>)"
             "\n",
             kWidth - kRight + 6, goal + 4);
}

void write_line(const ServingStudy& study, const Chart& chart, std::size_t series, std::ostream& out) {
  const StrategyServing& s = study.strategies[series];
  std::vector<SvgPoint> points;
  for (const ServingFigures& f : s.points) {
    if (f.latency.count == 0 || f.stopped) continue;
    points.push_back({chart.x.place(f.load), chart.y.place(std::max(chart.y.low, milliseconds(f.latency.p99)))});
  }
  svg_line(out, points, series_colour(series), "");
  for (const SvgPoint& at : points) svg_mark(out, series, at.x, at.y);
  const double legend = kWidth - kRight + 14, row = kTop + 10 + 20 * static_cast<double>(series);
  svg_mark(out, series, legend + 4, row);
  fmt::print(out,
             R"(<text x="{:.0f}" y="{:.0f}">{}{}</text>)"
             "\n",
             legend + 14, row + 4, escaped_markup(s.strategy), s.infeasible ? " (infeasible)" : "");
}

void write_bar(const ServingStudy& study, const Chart& chart, std::size_t series, std::ostream& out) {
  const StrategyServing& s = study.strategies[series];
  if (!s.sustainable) return;
  double most = 1;
  for (const StrategyServing& other : study.strategies) most = std::max(most, other.sustainable.value_or(0));
  const double top = chart.bars + kBar * static_cast<double>(series);
  constexpr double kShare = 0.55;  // of the plot's width: words stand behind the bar
  const double length = *s.sustainable / most * kShare * (kWidth - kRight - kLeft);
  fmt::print(out,
             R"(<rect x="{:.0f}" y="{:.1f}" width="{:.1f}" height="{:.0f}" fill="{}"/>)"
             "\n",
             kLeft, top, length, kBar - 6, series_colour(series));
  fmt::print(out,
             R"(<text x="{:.1f}" y="{:.1f}">{}</text>)"
             "\n",
             kLeft + length + 6, top + 12, escaped_markup(result_text(study, s)));
}

}  // namespace

void write_serving_svg(const ServingStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  const Chart chart = chart_of(study);
  begin_svg(kWidth, chart.height, out);
  fmt::print(out, "<title id=\"t\">{} on {} x {}: {}</title>\n", escaped_markup(p.model), p.tp * p.ep,
             escaped_markup(p.device_title), escaped_markup(headline(study)));
  fmt::print(out,
             "<desc id=\"d\">moesim {}, {}; device {} {}; model {}, weights {}; tp {}, ep {}; routing {}, seed {}; {}; "
             "goals: {}; {}; {}.</desc>\n",
             p.tool_version, p.calibration, escaped_markup(p.device_file), p.device_hash, escaped_markup(p.model_file),
             p.weights, p.tp, p.ep, escaped_markup(p.routing), p.seed, escaped_markup(arrivals_text(study.setup)),
             goals_text(study.setup), server_text(study), steps_text(study));
  fmt::print(out, "<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", kWidth, chart.height);
  fmt::print(out,
             R"(<text x="{:.0f}" y="20" font-size="15" font-weight="bold">{} on {} x {}</text>)"
             "\n",
             kLeft, escaped_markup(p.model), p.tp * p.ep, escaped_markup(p.device_title));
  fmt::print(out,
             R"(<text x="{:.0f}" y="38" fill="#555">{}</text>)"
             "\n",
             kLeft, escaped_markup(arrivals_text(study.setup)));
  fmt::print(out,
             R"(<text x="{:.0f}" y="54" fill="#555">at most {} of {}s may miss; {}</text>)"
             "\n",
             kLeft, share_text(study.setup.goals.most_missed), turn_noun(study.setup.kind),
             escaped_markup(p.calibration));
  write_axes(study, chart, out);
  for (std::size_t s = 0; s < study.strategies.size(); ++s) write_line(study, chart, s, out);
  for (std::size_t s = 0; s < study.strategies.size(); ++s) write_bar(study, chart, s, out);
  out << "</svg>\n";
}

}  // namespace moesim
