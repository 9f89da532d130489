// A crossover study as one self-contained SVG (no script, no font, no network). Of a single line: times against the axis,
// both logarithmic, a line per strategy, the zone in which the lead is under the predicted error shaded. Of several: a map, a
// strip per line in the winner's colour, deeper where it leads by more, hatched where the lead is under the error.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "traces/views/crossover_views.h"
#include "traces/views/markup.h"
#include "traces/views/svg_chart.h"

namespace moesim {
namespace {

constexpr double kWidth = 840, kLeft = 90, kRight = 220, kTop = 66, kBottom = 55;
constexpr double kPlotHeight = 340;
constexpr double kLetter = 6.5;                                   // of a text of 12 pixels, about
constexpr double kPalest = 0.35, kDeepest = 0.95, kFullLead = 2;  // opacity at no lead, and at this lead and more

// A text in at most two lines of so many letters; what is beyond is left out.
void write_wrapped(const std::string& text, double x, double y, std::size_t letters, std::ostream& out) {
  std::string rest = text;
  for (int line = 0; line < 2 && !rest.empty(); ++line) {
    std::size_t end = rest.size() <= letters ? rest.size() : rest.rfind(' ', letters);
    if (end == std::string::npos || end == 0) end = rest.size();
    std::string piece = rest.substr(0, end);
    rest = end < rest.size() ? rest.substr(end + 1) : "";
    if (line == 1 && !rest.empty()) piece += " …";
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555\">{}</text>\n", x, y + 15 * line,
               escaped_markup(piece));
  }
}

void write_head(const CrossoverStudy& study, double height, const std::string& what, const std::string& below,
                std::ostream& out) {
  const Provenance& p = study.provenance;
  begin_svg(kWidth, height, out);
  fmt::print(out, "<title id=\"t\">{} on {}: {}</title>\n", escaped_markup(p.model), escaped_markup(p.device_title),
             what);
  fmt::print(
      out,
      "<desc id=\"d\">moesim {}, {}; device {} {}; model {}, weights {}, activations {}; scope {}, launch {}; routing "
      "{}, {} samples, seed {}; tp {}, ep {}. {}</desc>\n",
      p.tool_version, escaped_markup(p.calibration), escaped_markup(p.device_file), p.device_hash,
      escaped_markup(p.model_file), p.weights, p.activations, p.scope, p.launch, escaped_markup(p.routing), p.samples,
      p.seed, p.tp, p.ep, escaped_markup(below));
  out << R"svg(<defs><pattern id="h" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">)svg"
      << R"svg(<path d="M0 0V7" stroke="#fff" stroke-width="5"/></pattern></defs>)svg" << '\n';
  fmt::print(out, "<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", kWidth, height);
  fmt::print(out, "<text x=\"{:.0f}\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{} on {}</text>\n", kLeft,
             escaped_markup(p.model), escaped_markup(p.device_title));
  write_wrapped(below, kLeft, 38, static_cast<std::size_t>((kWidth - kLeft) / kLetter), out);
}

bool is_whole(double value) { return value == std::floor(value); }

// Where neighbouring places of the axis part: whole numbers half way (in logarithms) to the next.
double edge_between(double one, double other) { return std::sqrt(one * other); }

struct Scale {
  LogAxis x;
  bool whole = true;
};

Scale scale_of(const CrossoverStudy& study) {
  Scale scale;
  double low = 1e300, high = 0;
  for (const CrossoverLine& line : study.lines) {
    low = std::min(low, line.standings.front().value.number);
    high = std::max(high, line.standings.back().value.number);
    for (const Standing& s : line.standings) scale.whole = scale.whole && is_whole(s.value.number);
  }
  low = std::max(low, high * 1e-12);
  scale.x = {low, std::max(high, low), kLeft, kWidth - kRight};
  return scale;
}

void write_x_axis(const CrossoverStudy& study, const Scale& scale, double top, double bottom, std::ostream& out) {
  double last = -1e9;
  // The axis's own words where it has units: of the places of the first line that are nearest to round numbers.
  const std::vector<Standing>& places = study.lines.front().standings;
  for (const Standing& s : places) {
    const double at = scale.x.place(std::max(s.value.number, scale.x.low));
    const double half = kLetter / 2 * static_cast<double>(s.value.text.size());
    const bool is_last = &s == &places.back();
    if (at - half - last < 10 || (!is_last && scale.x.end - at < 2 * half + 10)) continue;
    last = at + half;
    fmt::print(out, "<path d=\"M{0:.1f} {1:.0f}V{2:.0f}\" stroke=\"#ccc\"/>\n", at, bottom, bottom + 4);
    fmt::print(out, "<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#333\">{}</text>\n", at, bottom + 18,
               escaped_markup(s.value.text));
  }
  fmt::print(out, "<path d=\"M{0:.0f} {1:.0f}V{2:.0f}H{3:.0f}\" stroke=\"#999\" fill=\"none\"/>\n", kLeft, top, bottom,
             kWidth - kRight);
  fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#333\">{}</text>\n",
             (kLeft + kWidth - kRight) / 2, bottom + 40,
             study.axis == "concurrency" ? "concurrency: tokens of a decode step" : escaped_markup(study.axis));
}

// Pixels from the border with the span before to the border with the one after.
std::pair<double, double> extent(const CrossoverLine& line, const std::vector<WinnerSpan>& spans, std::size_t i,
                                 const LogAxis& x) {
  const auto number = [&](std::int64_t at) { return std::max(line.standing(at).value.number, x.low); };
  const double from = i == 0 ? number(spans[i].from) : edge_between(number(spans[i - 1].to), number(spans[i].from));
  const double to =
      i + 1 == spans.size() ? number(spans[i].to) : edge_between(number(spans[i].to), number(spans[i + 1].from));
  return {x.place(from), x.place(to)};
}

void write_legend_of_zone(double x, double y, const char* colour, std::ostream& out) {
  fmt::print(out, "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"12\" fill=\"{}\"/>", x, y - 6, colour);
  fmt::print(out, "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"12\" fill=\"url(#h)\"/>", x, y - 6);
  fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">lead under the error</text>\n", x + 20, y + 4);
}

bool any_contested(const CrossoverStudy& study) {
  return std::any_of(study.lines.begin(), study.lines.end(), [](const CrossoverLine& line) {
    return std::any_of(line.standings.begin(), line.standings.end(), [](const Standing& s) { return s.contested(); });
  });
}

void write_chart(const CrossoverStudy& study, std::ostream& out) {
  const CrossoverLine& line = study.lines.front();
  const double height = kTop + kPlotHeight + kBottom, bottom = kTop + kPlotHeight;
  write_head(study, height, "time against " + escaped_markup(study.axis), crossover_sentence(study, line), out);
  const Scale scale = scale_of(study);
  double least = 1e300, most = 0;
  for (const Standing& s : line.standings) {
    for (const std::optional<Duration>& time : s.times) {
      if (!time) continue;
      least = std::min(least, to_microseconds(*time));
      most = std::max(most, to_microseconds(*time));
    }
  }
  least = std::max(std::min(least, most), 1e-3);
  const LogAxis y{least * 0.85, std::max(most, least) * 1.15, bottom, kTop};
  const std::vector<WinnerSpan> spans = spans_of(line);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto [from, to] = extent(line, spans, i, scale.x);
    if (spans[i].contested) {
      fmt::print(out, "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"#dde3e8\"/>\n", from,
                 kTop, std::max(1.0, to - from), kPlotHeight);
    }
    if (i > 0 && spans[i].winner != spans[i - 1].winner) {
      fmt::print(out, "<path d=\"M{0:.1f} {1:.0f}V{2:.0f}\" stroke=\"#555\" stroke-dasharray=\"5 3\"/>\n", from, kTop,
                 bottom);
    }
  }
  for (const double value : log_ticks(y.low, y.high)) {
    fmt::print(out, "<path d=\"M{:.0f} {:.1f}H{:.0f}\" stroke=\"#ddd\"/>\n", kLeft, y.place(value), kWidth - kRight);
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#333\">{:g}</text>\n", kLeft - 6,
               y.place(value) + 4, value);
  }
  write_x_axis(study, scale, kTop, bottom, out);
  fmt::print(out,
             "<text transform=\"translate(18 {:.0f}) rotate(-90)\" text-anchor=\"middle\" fill=\"#333\">time, µs "
             "(median)</text>\n",
             (kTop + bottom) / 2);
  const double legend = kWidth - kRight + 16;
  double row = kTop + 10;
  for (std::size_t i = 0; i < study.strategies.size(); ++i) {
    std::vector<SvgPoint> points;
    for (const Standing& s : line.standings) {
      if (!s.times[i]) continue;
      points.push_back({scale.x.place(std::max(s.value.number, scale.x.low)),
                        y.place(std::max(least, to_microseconds(*s.times[i])))});
    }
    svg_line(out, points, series_colour(i), "");
    for (const SvgPoint& at : points) svg_mark(out, i, at.x, at.y);
    svg_mark(out, i, legend + 6, row);
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">{}{}</text>\n", legend + 20, row + 4,
               escaped_markup(study.strategies[i]), points.empty() ? " (infeasible)" : "");
    row += 20;
  }
  if (any_contested(study)) {
    fmt::print(out, "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"12\" fill=\"#dde3e8\"/>", legend, row - 6);
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">lead under the error</text>\n", legend + 20, row + 4);
  }
  out << "</svg>\n";
}

double opacity(double lead) {
  const double share = std::clamp(std::log(lead) / std::log(kFullLead), 0.0, 1.0);
  return kPalest + share * (kDeepest - kPalest);
}

// Where a strip's depth changes: at places looked at, each up to half way to the next.
void write_strip(const CrossoverLine& line, const LogAxis& x, double top, double height, std::ostream& out) {
  const std::vector<Standing>& all = line.standings;
  const auto number = [&](std::size_t i) { return std::max(all[i].value.number, x.low); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double from = x.place(i == 0 ? number(0) : edge_between(number(i - 1), number(i)));
    const double to = x.place(i + 1 == all.size() ? number(i) : edge_between(number(i), number(i + 1)));
    const double width = to - from;
    if (!all[i].winner || width <= 0) continue;
    fmt::print(
        out,
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"{:.2f}\"/>\n",
        from, top, width, height, series_colour(*all[i].winner), opacity(all[i].lead()));
    if (all[i].contested()) {
      fmt::print(out, "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"url(#h)\"/>\n", from,
                 top, width, height);
    }
  }
}

void write_map(const CrossoverStudy& study, std::ostream& out) {
  const double strip = std::clamp(kPlotHeight / static_cast<double>(study.lines.size()), 12.0, 46.0);
  const double bottom = kTop + strip * static_cast<double>(study.lines.size());
  const std::string axes = fmt::format("{}", fmt::join(study.line_axes, ", "));
  const std::string below = fmt::format("The fastest strategy by {} (across) and {} (a strip each).", study.axis, axes);
  const double legend_end = kTop + 20 * static_cast<double>(study.strategies.size() + 4);
  write_head(study, std::max(bottom + kBottom, legend_end), "map of the fastest strategy", below, out);
  const Scale scale = scale_of(study);
  const double legend = kWidth - kRight + 16;
  for (std::size_t l = 0; l < study.lines.size(); ++l) {
    const CrossoverLine& line = study.lines[l];
    const double top = kTop + strip * static_cast<double>(l);
    write_strip(line, scale.x, top, strip - 1, out);
    const std::vector<WinnerSpan> spans = spans_of(line);
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].winner == spans[i - 1].winner) continue;
      fmt::print(out, "<path d=\"M{0:.1f} {1:.1f}v{2:.1f}\" stroke=\"#111\" stroke-width=\"1.6\"/>\n",
                 extent(line, spans, i, scale.x).first, top, strip - 1);
    }
    std::string name = fmt::format("{}", fmt::join(line.coordinates, ", "));
    constexpr std::size_t kMostLetters = 14;
    if (name.size() > kMostLetters) name = name.substr(0, kMostLetters - 1) + "…";
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#333\"{}>{}</text>\n", kLeft - 6,
               top + strip / 2 + 4, name.size() > 11 ? " font-size=\"10\"" : "", escaped_markup(name));
  }
  write_x_axis(study, scale, kTop, bottom, out);
  fmt::print(out, "<text x=\"8\" y=\"{:.0f}\" fill=\"#333\">{}</text>\n", kTop - 8, escaped_markup(axes));
  double row = kTop + 10;
  for (std::size_t i = 0; i < study.strategies.size(); ++i) {
    fmt::print(out, "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"12\" fill=\"{}\"/>", legend, row - 6,
               series_colour(i));
    fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", legend + 20, row + 4,
               escaped_markup(study.strategies[i]));
    row += 20;
  }
  if (any_contested(study)) write_legend_of_zone(legend, row, "#999", out);
  row += 20;
  fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555\">deeper: leads by more,</text>\n", legend, row + 4);
  fmt::print(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555\">full at {:g} × and over</text>\n", legend, row + 20,
             kFullLead);
  out << "</svg>\n";
}

}  // namespace

void write_crossover_svg(const CrossoverStudy& study, std::ostream& out) {
  if (study.lines.size() == 1) return write_chart(study, out);
  write_map(study, out);
}

}  // namespace moesim
