// The tornado: a bar per constant from the result at its p5 to that at its p95, the largest first. One self-contained SVG.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>

#include "traces/views/markup.h"
#include "traces/views/sensitivity_views.h"

namespace moesim {
namespace {

constexpr std::size_t kMostBars = 20;
constexpr double kWidth = 940, kLeft = 390, kRight = 90, kTop = 74, kPitch = 24, kBar = 15, kBottom = 46;
constexpr const char* kAtLow = "#56b4e9";  // Okabe and Ito: apart in the common forms of colour blindness
constexpr const char* kAtHigh = "#d55e00";

struct Scale {
  double low, high;
  [[nodiscard]] double place(double value) const {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
};

void text(std::ostream& out, double x, double y, const char* anchor, const std::string& what,
          const char* colour = "#333") {
  fmt::print(out, R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", x, y, anchor, colour,
             escaped_markup(what));
  out << '\n';
}

void bar(std::ostream& out, const Scale& scale, double base, double value, double y, const char* colour) {
  const double from = std::min(scale.place(base), scale.place(value)),
               to = std::max(scale.place(base), scale.place(value));
  fmt::print(out, R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.0f}" fill="{}"/>)", from, y, to - from, kBar,
             colour);
  out << '\n';
}

}  // namespace

void write_sensitivity_svg(const SensitivityStudy& study, std::ostream& out) {
  const SensitivityResult& result = study.result;
  const std::size_t bars = std::min(study.effects.size(), kMostBars);
  Scale scale{result.base * (1 - result.all.down), result.base * (1 + result.all.up)};
  for (const FactorEffect& effect : study.effects) {
    for (const auto& value : {result.at(effect.low), result.at(effect.high)}) {
      if (!value) continue;
      scale.low = std::min(scale.low, *value);
      scale.high = std::max(scale.high, *value);
    }
  }
  const double height = kTop + static_cast<double>(bars + 1) * kPitch + kBottom;
  const Provenance& p = study.provenance;
  fmt::print(out,
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-labelledby="t d" )"
             R"(font-family="sans-serif" font-size="12">)"
             "\n",
             kWidth, height);
  fmt::print(out, "<title id=\"t\">{} on {}: what {} hangs on</title>\n", escaped_markup(p.model),
             escaped_markup(p.device_title), escaped_markup(result.name));
  fmt::print(out, "<desc id=\"d\">moesim {}, {}; device {} {}; model {}; routing {}, {} samples, seed {}.</desc>\n",
             p.tool_version, p.calibration, escaped_markup(p.device_file), p.device_hash, escaped_markup(p.model_file),
             escaped_markup(p.routing), p.samples, p.seed);
  fmt::print(out, "<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", kWidth, height);
  fmt::print(out, R"(<text x="12" y="20" font-size="15" font-weight="bold">{} on {}</text>)", escaped_markup(p.model),
             escaped_markup(p.device_title));
  out << '\n';
  text(out, 12, 38, "start", sensitivity_headline(study), "#555");
  fmt::print(
      out,
      R"(<rect x="12" y="48" width="12" height="12" fill="{}"/><rect x="190" y="48" width="12" height="12" fill="{}"/>)",
      kAtLow, kAtHigh);
  out << '\n';
  text(out, 29, 58, "start", "at the constant's p5");
  text(out, 207, 58, "start", "at its p95");

  const double bottom = kTop + static_cast<double>(bars + 1) * kPitch;
  fmt::print(out, R"(<path d="M{0:.1f} {1:.0f}V{2:.1f}" stroke="#777"/>)", scale.place(result.base), kTop - 4, bottom);
  out << '\n';
  if (result.denominator && scale.low < 1 && scale.high > 1) {
    fmt::print(out, R"(<path d="M{0:.1f} {1:.0f}V{2:.1f}" stroke="#c00" stroke-dasharray="4 3"/>)", scale.place(1),
               kTop - 4, bottom);
    out << '\n';
  }
  double y = kTop;
  for (std::size_t i = 0; i < bars; ++i) {
    const FactorEffect& effect = study.effects[i];
    const Factor& factor = effect.factor;
    text(out, kLeft - 8, y + 12, "end",
         fmt::format("{} {} ({} to {})", factor.name, factor.text(factor.value), factor.text(factor.low),
                     factor.text(factor.high)));
    const auto low = result.at(effect.low), high = result.at(effect.high);
    if (low) bar(out, scale, result.base, *low, y, kAtLow);
    if (high) bar(out, scale, result.base, *high, y, kAtHigh);
    if (effect.low_flip || effect.high_flip) text(out, kWidth - kRight + 8, y + 12, "start", "flips", "#c00");
    y += kPitch;
  }
  text(out, kLeft - 8, y + 12, "end", "all: root of the sum of squares");
  const double from = scale.place(result.base * (1 - result.all.down)),
               to = scale.place(result.base * (1 + result.all.up));
  fmt::print(
      out,
      R"(<path d="M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v10M{1:.1f} {3:.1f}v10" stroke="#000" stroke-width="2"/>)",
      from, to, y + kBar / 2, y + kBar / 2 - 5);
  out << '\n';
  for (const double value : {scale.low, result.base, scale.high}) {
    text(out, scale.place(value), bottom + 18, "middle", result_text(result, value));
  }
  text(out, (kLeft + kWidth - kRight) / 2, bottom + 36, "middle", result.name);
  out << "</svg>\n";
}

}  // namespace moesim
