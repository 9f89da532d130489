#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "sim/engine/effects.h"
#include "traces/views/ladder_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

// Of the gain, in the sentence: less than an even share, so that one rung at least is named.
constexpr double kWorthNaming = 0.05;
static_assert(kWorthNaming * (kEffectCount + 1) < 1);
constexpr std::size_t kMostNamed = 4;

// Without a sign where nothing but zeros is printed.
std::string fixed(double value, int digits) {
  const std::string text = fmt::format("{:.{}f}", value, digits);
  return text.find_first_of("123456789") == std::string::npos ? fmt::format("{:.{}f}", 0.0, digits) : text;
}
std::string micros(Duration d) { return fixed(to_microseconds(d), 2); }

// Nothing where there is no gain to have a share of.
std::string percent_of(Duration part, Duration gain) {
  return gain == Duration(0) ? "" : fixed(part.as_double() / gain.as_double() * 100, 1);
}

// "12.63 of helper kernels; 1.20 of launches and dispatch": the rungs with the largest gains, or of the largest losses.
std::string named(const Ladder& ladder, bool gains) {
  std::vector<std::pair<Duration, std::string>> amounts;
  for (const LadderRung& rung : ladder.rungs) {
    const Duration amount = gains ? rung.gain() : rung.faster - rung.slower;
    if (amount.as_double() >= kWorthNaming * ladder.gain().as_double())
      amounts.emplace_back(amount, ladder_title(rung));
  }
  std::stable_sort(amounts.begin(), amounts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (amounts.size() > kMostNamed) amounts.resize(kMostNamed);
  std::vector<std::string> parts;
  for (const auto& [amount, title] : amounts) parts.push_back(fmt::format("{} of {}", micros(amount), title));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string sentence(const Ladder& ladder) {
  if (ladder.gain() == Duration(0)) return fmt::format("{} takes as long as {}.", ladder.faster, ladder.slower);
  std::string text = fmt::format("{} is {:.2f} times as fast as {}, {} µs less.\n  Saved: {}", ladder.faster,
                                 ladder.slower_time.as_double() / ladder.faster_time.as_double(), ladder.slower,
                                 micros(ladder.gain()), named(ladder, true));
  const std::string lost = named(ladder, false);
  if (!lost.empty()) text += fmt::format(".\n  Lost: {}", lost);
  return text + ".";
}

void write_rungs(const Ladder& ladder, const std::vector<LadderRung>& rungs, std::ostream& out) {
  const auto takes_time = [](const LadderRung& rung) {
    return micros(rung.slower) != micros(Duration(0)) || micros(rung.faster) != micros(Duration(0));
  };
  TextTable table({{"effect", Align::kLeft},
                   {"what takes time", Align::kLeft},
                   {"slower µs", Align::kRight},
                   {"faster µs", Align::kRight},
                   {"gain µs", Align::kRight},
                   {"% of gain", Align::kRight}});
  for (const LadderRung& rung : rungs) {
    if (!takes_time(rung)) continue;
    table.add_row({rung.effect.empty() ? "-" : rung.effect, ladder_title(rung), micros(rung.slower),
                   micros(rung.faster), micros(rung.gain()), percent_of(rung.gain(), ladder.gain())});
  }
  table.add_row({"", "all", micros(ladder.slower_time), micros(ladder.faster_time), micros(ladder.gain()),
                 percent_of(ladder.gain(), ladder.gain())});
  table.write(out);
}

}  // namespace

std::string ladder_title(const LadderRung& rung) {
  return std::string(rung.effect.empty() ? "the stream of the bytes"
                                         : effect_title(parse_effect("effect", rung.effect)));
}

void write_ladder(const LadderOrInfeasible& result, std::ostream& out) {
  if (const auto* infeasible = std::get_if<Infeasible>(&result)) {
    out << fmt::format("\nspeed-up ladder: none, since {}\n", infeasible->reason);
    return;
  }
  const auto& ladder = std::get<Ladder>(result);
  out << fmt::format(
      "\nspeed-up ladder from {} to {} at {} token{}, first sample: effects left out one after another\n",
      ladder.slower, ladder.faster, ladder.concurrency, ladder.concurrency == 1 ? "" : "s");
  write_rungs(ladder, ladder.rungs, out);
  out << "\nthe same in the reverse order\n";
  write_rungs(ladder, ladder.reverse_rungs, out);
  out << fmt::format("\n  {}\n", sentence(ladder));
  out << "  (What an effect costs depends on what is left out before it. Each figure is of two runs that --without "
         "repeats.)\n";
}

}  // namespace moesim
