// The study as aligned text: who made it and of what, a row per strategy and load, the verdict, and of the shown load of
// each strategy the sizes of its steps and Little's law.
#include <fmt/format.h>

#include <ostream>

#include "traces/views/provenance_views.h"
#include "traces/views/serving_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr double kPercent = 100, kMilli = 1e3;

std::string millis(Duration d) { return fmt::format("{:.1f}", to_seconds(d) * kMilli); }
std::string percent(double share) { return fmt::format("{:.1f}", share * kPercent); }

std::string quantile(const TimeQuantiles& q, Duration value) { return q.count == 0 ? "-" : millis(value); }

// "grouped_gemm 61 %, stream_gemv 39 %": of its steps.
std::string taken_text(const ServingStudy& study, const ServingFigures& f) {
  std::int64_t all = 0;
  for (const std::int64_t steps : f.steps_by_strategy) all += steps;
  std::string text;
  for (std::size_t c = 0; c < f.steps_by_strategy.size(); ++c) {
    if (f.steps_by_strategy[c] == 0) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", study.candidates[c],
                        kPercent * static_cast<double>(f.steps_by_strategy[c]) / static_cast<double>(all));
  }
  return text;
}

void write_rows(const ServingStudy& study, std::ostream& out) {
  const bool per_token = [&] {
    for (const StrategyServing& s : study.strategies) {
      for (const ServingFigures& f : s.points) {
        if (f.per_token.count > 0) return true;
      }
    }
    return false;
  }();
  std::vector<TextTable::Column> columns = {{load_noun(study.setup.kind)},
                                            {"", Align::kLeft},
                                            {"strategy", Align::kLeft},
                                            {"miss %"},
                                            {"p50 ms"},
                                            {"p95 ms"},
                                            {"p99 ms"},
                                            {"first p50"},
                                            {"first p99"}};
  if (per_token) columns.insert(columns.end(), {{"a token p50"}, {"a token p99"}});
  columns.insert(columns.end(), {{"step ms"}, {"sequences"}, {"busy %"}, {"out/s"}, {"steps by", Align::kLeft}});
  TextTable table(columns);
  for (const StrategyServing& s : study.strategies) {
    if (s.points.empty()) continue;
    if (&s != &study.strategies.front()) table.add_gap();
    for (const ServingFigures& f : s.points) {
      const bool shown = s.sustainable && *s.sustainable == f.load;
      std::vector<std::string> cells = {fmt::format("{:g}", f.load),
                                        shown ? "*" : "",
                                        s.strategy,
                                        f.stopped ? fmt::format(">{}", percent(study.setup.goals.most_missed))
                                                  : fmt::format("{:.2f}", f.miss_share() * kPercent),
                                        quantile(f.latency, f.latency.p50),
                                        quantile(f.latency, f.latency.p95),
                                        quantile(f.latency, f.latency.p99),
                                        quantile(f.first_token, f.first_token.p50),
                                        quantile(f.first_token, f.first_token.p99)};
      if (per_token) {
        cells.push_back(quantile(f.per_token, f.per_token.p50));
        cells.push_back(quantile(f.per_token, f.per_token.p99));
      }
      cells.insert(cells.end(),
                   {fmt::format("{:.2f}", to_seconds(f.step.mean) * kMilli), fmt::format("{:.1f}", f.mean_sequences),
                    percent(f.utilisation), fmt::format("{:.0f}", f.tokens_out), taken_text(study, f)});
      table.add_row(std::move(cells));
    }
  }
  table.write(out);
}

void write_shown(const ServingStudy& study, std::ostream& out) {
  TextTable table({{"strategy", Align::kLeft},
                   {load_noun(study.setup.kind)},
                   {fmt::format("{}s", turn_noun(study.setup.kind))},
                   {"in system"},
                   {"= rate/s"},
                   {"x time ms"},
                   {"caches %"},
                   {"sequences in a step: share of steps", Align::kLeft}});
  for (const StrategyServing& s : study.strategies) {
    if (s.points.empty() || s.shown >= s.points.size()) continue;
    const ServingFigures& f = s.points[s.shown];
    std::int64_t steps = 0;
    for (const auto& [size, count] : f.steps_by_sequences) steps += count;
    std::string sizes;
    for (const auto& [size, count] : f.steps_by_sequences) {
      const double share = kPercent * static_cast<double>(count) / static_cast<double>(steps);
      if (share < 0.5) continue;
      sizes += fmt::format("{}{}: {:.0f} %", sizes.empty() ? "" : ", ", size, share);
    }
    table.add_row({s.strategy, fmt::format("{:g}", f.load), fmt::format("{}", f.turns),
                   fmt::format("{:.4f}", f.turns_in_system), fmt::format("{:.3f}", f.turns_per_second),
                   fmt::format("{:.3f}", f.seconds_in_system * kMilli), percent(f.cache_share), sizes});
  }
  out << fmt::format("\nthe {} load of each strategy: Little's law over the whole run, sizes of steps\n",
                     study.setup.loads.empty() ? "largest sustained" : "last");
  table.write(out);
}

}  // namespace

void write_serving_table(const ServingStudy& study, std::ostream& out) {
  write_provenance(study.provenance, out);
  const ServingSetup& setup = study.setup;
  out << fmt::format("arrivals {}\n", arrivals_text(setup));
  out << fmt::format("goals    {}\n", goals_text(setup));
  out << fmt::format("counted  {}s that come from {:g} s to {:g} s, all served to the end\n", turn_noun(setup.kind),
                     to_seconds(setup.warm_up), to_seconds(setup.horizon));
  out << fmt::format("server   {}\n", server_text(study));
  out << fmt::format("steps    {}\n\n", steps_text(study));
  write_rows(study, out);
  write_shown(study, out);
  out << fmt::format("\nverdict ({})\n",
                     setup.loads.empty() ? "* the largest load with few enough misses" : "at the last load");
  for (const StrategyServing& s : study.strategies) out << "  " << result_text(study, s) << '\n';
}

}  // namespace moesim
