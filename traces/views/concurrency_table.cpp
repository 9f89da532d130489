// The study as aligned text: who made it and of what, a row per concurrency and strategy, the verdict and, of an
// explained study, where the time goes and the kernels of its first concurrency.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "traces/views/catalogue.h"
#include "traces/views/concurrency_text.h"
#include "traces/views/ladder_views.h"
#include "traces/views/provenance_views.h"
#include "traces/views/step_table.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr double kMega = 1e6;
constexpr double kTera = 1e12;

std::string micros(Duration d) { return fmt::format("{:.2f}", to_microseconds(d)); }
std::string percent(double share) { return fmt::format("{:.1f}", share * 100); }
std::string megabytes(double bytes) { return fmt::format("{:.1f}", bytes / kMega); }

void write_footnotes(const ConcurrencyStudy& study, std::ostream& out) {
  std::vector<std::string> not_fitted, beyond;
  const std::int64_t most = study.points.back().concurrency;
  for (const StrategyConstants& constants : study.provenance.constants) {
    if (constants.implementation.empty()) {
      not_fitted.push_back(constants.strategy);
    } else if (most > constants.most_tokens) {
      beyond.push_back(fmt::format("{} to {} tokens", constants.implementation, constants.most_tokens));
    }
  }
  if (not_fitted.empty() && beyond.empty()) return;
  out << '\n';
  if (!not_fitted.empty()) {
    out << fmt::format("  {} not fitted, the device's constants alone: no {} kernel in the overlay for {}\n",
                       kNotFitted, study.provenance.weights, fmt::join(not_fitted, ", "));
  }
  if (!beyond.empty()) {
    out << fmt::format("  {} outside the calibrated range: fitted were {}\n", kBeyondFit, fmt::join(beyond, ", "));
  }
}

void write_rows(const ConcurrencyStudy& study, std::ostream& out) {
  TextTable table({{"tokens", Align::kRight},
                   {"", Align::kLeft},
                   {"strategy", Align::kLeft},
                   {"time µs", Align::kRight},
                   {"p95 µs", Align::kRight},
                   {"bound µs", Align::kRight},
                   {"% of bound", Align::kRight},
                   {"distinct", Align::kRight},
                   {"dup %", Align::kRight},
                   {"rows/expert", Align::kRight},
                   {"MB", Align::kRight},
                   {"TB/s", Align::kRight},
                   {"limited by", Align::kLeft}});
  for (const ConcurrencyPoint& point : study.points) {
    if (&point != &study.points.front()) table.add_gap();
    for (const StrategyRow& row : point.rows) {
      std::vector<std::string> cells = {fmt::format("{}", point.concurrency), row.winner ? "*" : "",
                                        marked_strategy(study, row)};
      const auto add = [&](std::string cell) { cells.push_back(std::move(cell)); };
      const StrategyFigures* figures = row.figures();
      add(figures == nullptr ? "-" : micros(figures->time_median));
      add(figures == nullptr ? "-" : micros(figures->time_p95));
      add(micros(point.bound_median));
      add(figures == nullptr ? "-" : percent(figures->bound_fraction_median));
      add(fmt::format("{:.1f}", point.distinct_experts));
      add(percent(point.duplicate_share));
      add(fmt::format("{:.2f}", point.rows_per_expert));
      add(figures == nullptr ? "-" : megabytes(figures->memory_read_mean));
      add(figures == nullptr ? "-" : fmt::format("{:.2f}", figures->achieved_rate / kTera));
      if (figures == nullptr) {
        add("infeasible: " + std::get<Infeasible>(row.result).reason);
      } else {
        const Blame blame = largest(figures->attribution);
        add(fmt::format("{} {:.0f} %", blame_name(blame), figures->share(blame) * 100));
      }
      table.add_row(std::move(cells));
    }
  }
  table.write(out);
}

void write_verdict(const ConcurrencyStudy& study, std::ostream& out) {
  out << "\nverdict (* smallest median; factors over the next best)\n";
  for (const Verdict& verdict : study.verdicts) out << "  " << verdict_sentence(verdict) << '\n';
}

void write_attribution(const ConcurrencyStudy& study, std::ostream& out) {
  const auto any_time = [&](Blame blame) {
    return std::any_of(study.points.begin(), study.points.end(), [&](const ConcurrencyPoint& point) {
      return std::any_of(point.rows.begin(), point.rows.end(), [&](const StrategyRow& row) {
        return row.figures() != nullptr && row.figures()->share(blame) > 0;
      });
    });
  };
  std::vector<Blame> shown;
  std::vector<TextTable::Column> columns = {{"tokens", Align::kRight}, {"strategy", Align::kLeft}};
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    const auto blame = static_cast<Blame>(b);
    if (!any_time(blame)) continue;
    shown.push_back(blame);
    columns.push_back({std::string(blame_name(blame)), Align::kRight});
  }
  TextTable table(columns);
  for (const ConcurrencyPoint& point : study.points) {
    if (&point != &study.points.front()) table.add_gap();
    for (const StrategyRow& row : point.rows) {
      if (row.figures() == nullptr) continue;
      std::vector<std::string> cells = {fmt::format("{}", point.concurrency), strategy_cell(row)};
      for (const Blame blame : shown) cells.push_back(percent(row.figures()->share(blame)));
      table.add_row(std::move(cells));
    }
  }
  out << "\nwhere the time goes, % of it, over all samples\n";
  table.write(out);
}

// Launches of one name, which a loop over experts has many of.
struct KernelGroup {
  std::string name, stage;
  std::int64_t launches = 0;
  TimePoint start;  // of the first
  Duration busy;    // first item to last epilogue, summed
  std::int64_t items = 0, slots = 0, waves = 0;
  Bytes memory_read;
  Attribution attribution;
};

std::vector<KernelGroup> group_kernels(const std::vector<KernelSummary>& kernels) {
  std::vector<KernelGroup> groups;
  for (const KernelSummary& kernel : kernels) {
    if (kernel.result.items == 0) continue;  // left out
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const KernelGroup& g) { return g.name == kernel.name && g.stage == kernel.stage; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), KernelGroup());
      group->name = kernel.name;
      group->stage = kernel.stage;
      group->start = kernel.result.start;
    }
    ++group->launches;
    group->busy += kernel.result.end - kernel.result.start;
    group->items += kernel.result.items;
    group->slots = std::max(group->slots, kernel.result.slots);
    group->waves += (kernel.result.items + kernel.result.slots - 1) / kernel.result.slots;
    group->memory_read += kernel.result.memory_read;
    for (std::size_t b = 0; b < kBlameCount; ++b) group->attribution[b] += kernel.result.attribution[b];
  }
  return groups;
}

void write_kernels(const ConcurrencyPoint& point, std::ostream& out) {
  for (const StrategyRow& row : point.rows) {
    if (row.figures() == nullptr) continue;
    TextTable table({{"kernel", Align::kLeft},
                     {"stage", Align::kLeft},
                     {"launches", Align::kRight},
                     {"start µs", Align::kRight},
                     {"busy µs", Align::kRight},
                     {"% of time", Align::kRight},
                     {"items", Align::kRight},
                     {"slots", Align::kRight},
                     {"waves", Align::kRight},
                     {"MB", Align::kRight},
                     {"limited by", Align::kLeft}});
    Duration time;
    for (const KernelSummary& kernel : row.figures()->kernels) time += sum(kernel.result.attribution);
    for (const KernelGroup& kernel : group_kernels(row.figures()->kernels)) {
      const double share = sum(kernel.attribution).as_double() / time.as_double();
      table.add_row({kernel.name, kernel.stage, fmt::format("{}", kernel.launches),
                     fmt::format("{:.2f}", static_cast<double>(kernel.start.value()) / kPicosecondsPerMicrosecond),
                     micros(kernel.busy), percent(share), fmt::format("{}", kernel.items),
                     fmt::format("{}", kernel.slots), fmt::format("{}", kernel.waves),
                     megabytes(kernel.memory_read.as_double()), std::string(blame_name(largest(kernel.attribution)))});
    }
    out << fmt::format("\nkernels of {} at {} token{}, first sample, {} µs\n", strategy_cell(row), point.concurrency,
                       point.concurrency == 1 ? "" : "s", micros(time));
    table.write(out);
  }
}

}  // namespace

void write_concurrency_table(const ConcurrencyStudy& study, std::ostream& out) {
  write_provenance(study.provenance, out);
  if (study.provenance.step) {
    write_step_rows(study, out);
    write_footnotes(study, out);
    write_step_parts(study, out);
  } else {
    write_rows(study, out);
    write_footnotes(study, out);
  }
  write_verdict(study, out);
  if (study.explained) {
    write_attribution(study, out);
    write_kernels(study.points.front(), out);
  }
  if (study.ladder) write_ladder(*study.ladder, out);
}

}  // namespace moesim
