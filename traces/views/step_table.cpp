#include "traces/views/step_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "traces/views/concurrency_text.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr double kMilli = 1e-3;
constexpr double kMega = 1e6;
constexpr double kTera = 1e12;

std::string millis(Duration d) { return fmt::format("{:.3f}", to_seconds(d) / kMilli); }
std::string percent(double share) { return fmt::format("{:.1f}", share * 100); }

bool any_time(const ConcurrencyStudy& study, StepPart part) {
  return std::any_of(study.points.begin(), study.points.end(), [&](const ConcurrencyPoint& point) {
    return std::any_of(point.rows.begin(), point.rows.end(), [&](const StrategyRow& row) {
      return row.figures() != nullptr && row.figures()->part_share(part) > 0;
    });
  });
}

}  // namespace

double tokens_per_second(const StrategyFigures& figures) { return 1 / to_seconds(figures.time_median); }

std::string step_title(const Provenance& p) {
  return fmt::format("decode step ({} of {} layers, {} of them MoE)", p.step->layers, p.step->layers_of_model,
                     p.moe_layers);
}

void write_step_provenance(const Provenance::Step& step, std::ostream& out) {
  const std::string what = step.context > 0 ? fmt::format("one token of each sequence, context {} tokens", step.context)
                                            : "decodes and chunks of prompts, as below";
  out << fmt::format("step     {}, KV cache {}\n", what, step.cache);
}

void write_step_rows(const ConcurrencyStudy& study, std::ostream& out) {
  TextTable table({{"sequences", Align::kRight},
                   {"", Align::kLeft},
                   {"strategy", Align::kLeft},
                   {"time ms", Align::kRight},
                   {"p95 ms", Align::kRight},
                   {"bound ms", Align::kRight},
                   {"% of bound", Align::kRight},
                   {"tokens/s each", Align::kRight},
                   {"in all", Align::kRight},
                   {"MoE %", Align::kRight},
                   {"distinct", Align::kRight},
                   {"MB", Align::kRight},
                   {"TB/s", Align::kRight},
                   {"limited by", Align::kLeft}});
  for (const ConcurrencyPoint& point : study.points) {
    if (&point != &study.points.front()) table.add_gap();
    for (const StrategyRow& row : point.rows) {
      std::vector<std::string> cells = {fmt::format("{}", point.concurrency), row.winner ? "*" : "",
                                        marked_strategy(study, row)};
      const StrategyFigures* figures = row.figures();
      const auto figure = [&](auto text_of) { cells.push_back(figures == nullptr ? "-" : text_of(*figures)); };
      figure([](const StrategyFigures& f) { return millis(f.time_median); });
      figure([](const StrategyFigures& f) { return millis(f.time_p95); });
      cells.push_back(millis(point.bound_median));
      figure([](const StrategyFigures& f) { return percent(f.bound_fraction_median); });
      figure([](const StrategyFigures& f) { return fmt::format("{:.1f}", tokens_per_second(f)); });
      figure([&](const StrategyFigures& f) {
        return fmt::format("{:.1f}", tokens_per_second(f) * static_cast<double>(point.concurrency));
      });
      figure([](const StrategyFigures& f) { return percent(f.moe_share()); });
      cells.push_back(fmt::format("{:.1f}", point.distinct_experts));
      figure([](const StrategyFigures& f) { return fmt::format("{:.1f}", f.memory_read_mean / kMega); });
      figure([](const StrategyFigures& f) { return fmt::format("{:.2f}", f.achieved_rate / kTera); });
      if (figures == nullptr) {
        cells.push_back("infeasible: " + std::get<Infeasible>(row.result).reason);
      } else {
        const Blame blame = largest(figures->attribution);
        cells.push_back(fmt::format("{} {:.0f} %", blame_name(blame), figures->share(blame) * 100));
      }
      table.add_row(std::move(cells));
    }
  }
  table.write(out);
}

void write_step_parts(const ConcurrencyStudy& study, std::ostream& out) {
  std::vector<StepPart> shown;
  std::vector<TextTable::Column> columns = {{"sequences", Align::kRight}, {"strategy", Align::kLeft}};
  for (std::size_t p = 0; p < kStepPartCount; ++p) {
    const auto part = static_cast<StepPart>(p);
    if (!any_time(study, part)) continue;
    shown.push_back(part);
    columns.push_back({std::string(step_part_name(part)), Align::kRight});
  }
  TextTable table(columns);
  for (const ConcurrencyPoint& point : study.points) {
    if (&point != &study.points.front()) table.add_gap();
    for (const StrategyRow& row : point.rows) {
      const StrategyFigures* figures = row.figures();
      if (figures == nullptr) continue;
      std::vector<std::string> cells = {fmt::format("{}", point.concurrency), strategy_cell(row)};
      const double mean = to_seconds(figures->time_sum) / kMilli / static_cast<double>(study.provenance.samples);
      for (const StepPart part : shown) cells.push_back(fmt::format("{:.3f}", figures->part_share(part) * mean));
      table.add_row(std::move(cells));
    }
  }
  out << "\nparts of a step, ms, mean over the samples\n";
  table.write(out);
}

}  // namespace moesim
