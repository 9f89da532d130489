// What drawings as SVG files have in common: logarithmic axes, series told apart by colour and by shape.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <vector>

namespace moesim {

struct LogAxis {
  double low = 1, high = 1;   // of the values, > 0
  double begin = 0, end = 0;  // pixels
  [[nodiscard]] double place(double value) const;
};
// 1, 2, 5, 10, ... within [low, high].
std::vector<double> log_ticks(double low, double high);

struct SvgPoint {
  double x = 0, y = 0;
};

const char* series_colour(std::size_t series);
// The root element, of this size in pixels, whose title has the id "t" and whose description has the id "d".
void begin_svg(double width, double height, std::ostream& out);
void svg_mark(std::ostream& out, std::size_t series, double x, double y);
void svg_line(std::ostream& out, const std::vector<SvgPoint>& points, const char* colour, const char* dashes);

}  // namespace moesim
