#include "traces/views/svg_chart.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <iterator>
#include <ostream>

namespace moesim {
namespace {

// Colours that stay apart in the common forms of colour blindness (Okabe and Ito), and marks that stay apart without
// colour.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

}  // namespace

double LogAxis::place(double value) const {
  const double share = high > low ? std::log(value / low) / std::log(high / low) : 0.5;
  return begin + share * (end - begin);
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> values;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (decade * step >= low * 0.999 && decade * step <= high * 1.001) values.push_back(decade * step);
    }
  }
  return values;
}

const char* series_colour(std::size_t series) { return kColours[series % std::size(kColours)]; }

void begin_svg(double width, double height, std::ostream& out) {
  fmt::print(
      out,
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-labelledby="t d" )"
      R"(font-family="sans-serif" font-size="12">)"
      "\n",
      width, height);
}

void svg_mark(std::ostream& out, std::size_t series, double x, double y) {
  const char* colour = series_colour(series);
  switch (series % 4) {
    case 0:
      fmt::print(out, R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>)", x, y, colour);
      break;
    case 1:
      fmt::print(out, R"(<rect x="{:.1f}" y="{:.1f}" width="7" height="7" fill="{}"/>)", x - 3.5, y - 3.5, colour);
      break;
    case 2:
      fmt::print(out, R"(<path d="M{:.1f} {:.1f}l4.5 8h-9z" fill="{}"/>)", x, y - 5, colour);
      break;
    case 3:
      fmt::print(out, R"(<path d="M{:.1f} {:.1f}l5 5l-5 5l-5 -5z" fill="{}"/>)", x, y - 5, colour);
      break;
  }
  out << '\n';
}

void svg_line(std::ostream& out, const std::vector<SvgPoint>& points, const char* colour, const char* dashes) {
  if (points.empty()) return;
  out << R"(<polyline fill="none" stroke-width="2" stroke=")" << colour << '"';
  if (*dashes != '\0') out << R"( stroke-dasharray=")" << dashes << '"';
  out << R"( points=")";
  for (const SvgPoint& p : points) fmt::print(out, "{:.1f},{:.1f} ", p.x, p.y);
  out << "\"/>\n";
}

}  // namespace moesim
