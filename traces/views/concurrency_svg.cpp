// A chart: time of the layer against tokens, both logarithmic, a line per strategy and the bound as a dashed line.
// One self-contained SVG (no script, no font, no network); the description holds the provenance.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "traces/views/catalogue.h"
#include "traces/views/markup.h"
#include "traces/views/svg_chart.h"

namespace moesim {
namespace {

constexpr double kWidth = 760, kHeight = 460;
constexpr double kLeft = 70, kRight = 210, kTop = 50, kBottom = 55;  // margins; the legend stands at the right

// p5 to p95 behind a strategy's line, where they are known.
void band(std::ostream& out, const ConcurrencyStudy& study, std::size_t strategy, const LogAxis& x, const LogAxis& y) {
  std::vector<SvgPoint> edge, back;
  for (const ConcurrencyPoint& point : study.points) {
    const std::optional<TimeInterval>& interval = point.rows[strategy].interval;
    if (!interval) continue;
    const double at = x.place(static_cast<double>(point.concurrency));
    edge.push_back({at, y.place(to_microseconds(interval->high))});
    back.push_back({at, y.place(to_microseconds(interval->low))});
  }
  if (edge.empty()) return;
  if (edge.size() == 1) {  // a bar
    fmt::print(out, R"(<path d="M{:.1f} {:.1f}V{:.1f}" stroke="{}" stroke-width="2"/>)", edge[0].x, edge[0].y,
               back[0].y, series_colour(strategy));
    out << '\n';
    return;
  }
  edge.insert(edge.end(), back.rbegin(), back.rend());
  out << R"(<polygon fill-opacity="0.15" fill=")" << series_colour(strategy) << R"(" points=")";
  for (const SvgPoint& p : edge) fmt::print(out, "{:.1f},{:.1f} ", p.x, p.y);
  out << "\"/>\n";
}

}  // namespace

void write_concurrency_svg(const ConcurrencyStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  double least = 1e300, most = 0;
  for (const ConcurrencyPoint& point : study.points) {
    least = std::min(least, to_microseconds(point.bound_median));
    for (const StrategyRow& row : point.rows) {
      if (const StrategyFigures* figures = row.figures()) most = std::max(most, to_microseconds(figures->time_median));
      if (!row.interval) continue;
      least = std::min(least, to_microseconds(row.interval->low));
      most = std::max(most, to_microseconds(row.interval->high));
    }
  }
  least = std::max(least, 1e-3);
  const LogAxis x{static_cast<double>(study.points.front().concurrency),
                  static_cast<double>(study.points.back().concurrency), kLeft, kWidth - kRight};
  const LogAxis y{least * 0.8, std::max(most, least) * 1.25, kHeight - kBottom, kTop};

  begin_svg(kWidth, kHeight, out);
  fmt::print(out, "<title id=\"t\">{}: time of one {} on {}</title>\n", escaped_markup(p.model),
             p.step ? "decode step" : "MoE layer", escaped_markup(p.device_title));
  fmt::print(out,
             "<desc id=\"d\">moesim {}, {}; device {} {}; model {}, weights {}, activations {}; scope {}, launch {}; "
             "routing {}, {} "
             "samples, seed {}; tp {}, ep {}. Median time in microseconds against tokens of a decode step.</desc>\n",
             p.tool_version, p.calibration, escaped_markup(p.device_file), p.device_hash, escaped_markup(p.model_file),
             p.weights, p.activations, p.scope, p.launch, escaped_markup(p.routing), p.samples, p.seed, p.tp, p.ep);
  fmt::print(out, "<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", kWidth, kHeight);
  fmt::print(out,
             R"(<text x="{:.0f}" y="20" font-size="15" font-weight="bold">{} on {}</text>)"
             "\n",
             kLeft, escaped_markup(p.model), escaped_markup(p.device_title));
  fmt::print(out,
             R"(<text x="{:.0f}" y="38" fill="#555">{}, {}, {} routing, {}</text>)"
             "\n",
             kLeft, p.scope, p.launch, escaped_markup(p.routing), p.calibration);

  for (const double value : log_ticks(y.low, y.high)) {
    fmt::print(out,
               R"(<path d="M{:.0f} {:.1f}H{:.0f}" stroke="#ddd"/>)"
               "\n",
               kLeft, y.place(value), kWidth - kRight);
    fmt::print(out,
               R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end" fill="#333">{:g}</text>)"
               "\n",
               kLeft - 6, y.place(value) + 4, value);
  }
  double last_label = -1e9;
  for (const ConcurrencyPoint& point : study.points) {
    const double at = x.place(static_cast<double>(point.concurrency));
    fmt::print(out,
               R"(<path d="M{0:.1f} {1:.0f}V{2:.0f}" stroke="#eee"/>)"
               "\n",
               at, kTop, kHeight - kBottom);
    if (at - last_label < 22) continue;  // labels that would overlap are left out
    last_label = at;
    fmt::print(out,
               R"(<text x="{:.1f}" y="{:.0f}" text-anchor="middle" fill="#333">{}</text>)"
               "\n",
               at, kHeight - kBottom + 18, point.concurrency);
  }
  fmt::print(out,
             R"(<text x="{:.0f}" y="{:.0f}" text-anchor="middle" fill="#333">tokens of a decode step</text>)"
             "\n",
             (kLeft + kWidth - kRight) / 2, kHeight - 14);
  fmt::print(
      out,
      R"svg(<text transform="translate(18 {:.0f}) rotate(-90)" text-anchor="middle" fill="#333">time, µs (median)</text>)svg"
      "\n",
      (kTop + kHeight - kBottom) / 2);

  const double legend = kWidth - kRight + 14;
  double row_y = kTop + 10;
  const std::vector<StrategyRow>& strategies = study.points.front().rows;
  for (std::size_t s = 0; s < strategies.size(); ++s) band(out, study, s, x, y);
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    std::vector<SvgPoint> points;
    for (const ConcurrencyPoint& point : study.points) {
      if (const StrategyFigures* figures = point.rows[s].figures()) {
        points.push_back(
            {x.place(static_cast<double>(point.concurrency)), y.place(to_microseconds(figures->time_median))});
      }
    }
    svg_line(out, points, series_colour(s), "");
    for (const SvgPoint& at : points) svg_mark(out, s, at.x, at.y);
    svg_mark(out, s, legend + 4, row_y);
    fmt::print(out,
               R"(<text x="{:.0f}" y="{:.0f}">{}{}</text>)"
               "\n",
               legend + 14, row_y + 4, escaped_markup(strategies[s].strategy), points.empty() ? " (infeasible)" : "");
    row_y += 20;
  }
  std::vector<SvgPoint> bound;
  for (const ConcurrencyPoint& point : study.points) {
    bound.push_back({x.place(static_cast<double>(point.concurrency)),
                     y.place(std::max(least, to_microseconds(point.bound_median)))});
  }
  svg_line(out, bound, "#777", "5 4");
  fmt::print(out,
             R"(<path d="M{:.0f} {:.0f}h10" stroke="#777" stroke-width="2" stroke-dasharray="4 2"/>)"
             "\n",
             legend - 1, row_y);
  fmt::print(out,
             R"(<text x="{:.0f}" y="{:.0f}">bound</text>)"
             "\n",
             legend + 14, row_y + 4);
  if (study.uncertainty) {
    fmt::print(out,
               R"(<text x="{:.0f}" y="{:.0f}" fill="#555">shaded: p5 to p95</text>)"
               "\n",
               legend - 1, row_y + 24);
  }
  out << "</svg>\n";
}

}  // namespace moesim
