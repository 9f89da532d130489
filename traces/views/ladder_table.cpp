#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "sim/engine/effects.h"
#include "traces/views/ladder_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr double kWorthNaming = 0.1;  // of the gain, in the sentence
constexpr std::size_t kMostNamed = 4;

std::string micros(Duration d) { return fmt::format("{:.2f}", to_microseconds(d)); }

// Nothing where there is no gain to have a share of.
std::string share_of(Duration part, Duration gain) {
  if (gain == Duration(0)) return "";
  return fmt::format("{:.1f}", part.as_double() / gain.as_double() * 100);
}

// "3.10 helper kernels, 1.20 launches": the largest shares of the gain, and what is lost elsewhere.
std::string named(std::vector<LadderRung> rungs, Duration gain, bool gained) {
  std::erase_if(rungs, [&](const LadderRung& rung) {
    const double share = rung.gain().as_double() / gain.as_double();
    return gained ? share < kWorthNaming : share > -kWorthNaming;
  });
  std::stable_sort(rungs.begin(), rungs.end(), [&](const LadderRung& a, const LadderRung& b) {
    return gained ? a.gain() > b.gain() : a.gain() < b.gain();
  });
  if (rungs.size() > kMostNamed) rungs.resize(kMostNamed);
  std::vector<std::string> parts;
  for (const LadderRung& rung : rungs) {
    parts.push_back(fmt::format("{} {}", micros(gained ? rung.gain() : rung.faster - rung.slower), ladder_title(rung)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string sentence(const Ladder& ladder) {
  const Duration gain = ladder.gain();
  if (gain == Duration(0)) return fmt::format("{} takes as long as {}.", ladder.faster, ladder.slower);
  std::string text =
      fmt::format("{} is {:.2f} times as fast as {}: of {} µs", ladder.faster,
                  ladder.slower_time.as_double() / ladder.faster_time.as_double(), ladder.slower, micros(gain));
  const std::string won = named(ladder.rungs, gain, true);
  const std::string lost = named(ladder.rungs, gain, false);
  text += won.empty() ? ", no effect is a tenth" : fmt::format(", {}", won);
  if (!lost.empty()) text += fmt::format("; it loses {}", lost);
  return text + ".";
}

void write_rungs(const Ladder& ladder, const std::vector<LadderRung>& rungs, std::ostream& out) {
  TextTable table({{"effect", Align::kLeft},
                   {"what takes time", Align::kLeft},
                   {"slower µs", Align::kRight},
                   {"faster µs", Align::kRight},
                   {"gain µs", Align::kRight},
                   {"% of gain", Align::kRight}});
  for (const LadderRung& rung : rungs) {
    if (rung.slower == Duration(0) && rung.faster == Duration(0)) continue;
    table.add_row({rung.effect.empty() ? "-" : rung.effect, ladder_title(rung), micros(rung.slower),
                   micros(rung.faster), micros(rung.gain()), share_of(rung.gain(), ladder.gain())});
  }
  table.add_row({"", "all", micros(ladder.slower_time), micros(ladder.faster_time), micros(ladder.gain()),
                 share_of(ladder.gain(), ladder.gain())});
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
  out << fmt::format("\nspeed-up ladder from {} to {} at {} token{}, {}, effects left out one after another\n",
                     ladder.slower, ladder.faster, ladder.concurrency, ladder.concurrency == 1 ? "" : "s",
                     ladder.samples == 1 ? "one sample" : fmt::format("mean of {} samples", ladder.samples));
  write_rungs(ladder, ladder.rungs, out);
  out << "\nthe same in the reverse order\n";
  write_rungs(ladder, ladder.reverse_rungs, out);
  out << fmt::format("\n  {}\n", sentence(ladder));
}

}  // namespace moesim
