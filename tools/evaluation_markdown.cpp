// An evaluation as the tables of the READMEs, each between markers that tools/calibrate_h200 finds.
#include <fmt/format.h>

#include <ostream>

#include "tools/coverage_views.h"
#include "tools/evaluation_views.h"

namespace moesim {
namespace {

std::string errors(const ErrorSummary& s) {
  return s.count == 0 ? "" : fmt::format("{:.1f} / {:.1f}", s.median_abs_pct, s.p95_abs_pct);
}
std::string bias(const ErrorSummary& s) { return s.count == 0 ? "" : fmt::format("{:+.1f}", s.bias_pct); }

template <class List, class Same>
ErrorSummary found(const std::optional<Evaluation>& evaluation, List Evaluation::*list, Same same) {
  if (!evaluation) return {};
  for (const auto& entry : (*evaluation).*list) {
    if (same(entry)) return entry.ours;
  }
  return {};
}

void write_implementations(const EvaluationReport& report, std::ostream& out) {
  out << "| strategy | implementation | weights | rows | median / p95 % | bias % | device constants alone |\n"
         "|---|---|---|---|---|---|---|\n";
  for (const ImplementationErrors& of : report.evaluation.implementations) {
    const ErrorSummary alone =
        found(report.uncalibrated, &Evaluation::implementations, [&](const ImplementationErrors& other) {
          return other.implementation == of.implementation && other.strategy == of.strategy &&
                 other.weights == of.weights;
        });
    out << fmt::format("| `{}` | `{}` | {} | {} | {} | {} | {} |\n", of.strategy, of.implementation, of.weights,
                       of.ours.count, errors(of.ours), bias(of.ours), errors(alone));
  }
}

void write_cells(const EvaluationReport& report, std::ostream& out) {
  out << "| strategy | weights | tokens | totals | median / p95 % | bias % | device constants alone | floor |\n"
         "|---|---|---|---|---|---|---|---|\n";
  for (const Cell& cell : cells_in_band_order(report.evaluation.cells)) {
    const ErrorSummary alone = found(report.uncalibrated, &Evaluation::cells, [&](const Cell& other) {
      return other.strategy == cell.strategy && other.weights == cell.weights && other.band == cell.band &&
             other.scope == cell.scope;
    });
    out << fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", cell.strategy, cell.weights, cell.band,
                       cell.ours.count, errors(cell.ours), bias(cell.ours), errors(alone), errors(cell.floor));
  }
}

void write_groups(const EvaluationReport& report, std::ostream& out) {
  const Evaluation& e = report.evaluation;
  out << "| rows | count | median / p95 % | bias % |\n|---|---|---|---|\n";
  const std::pair<const char*, const ErrorSummary*> groups[] = {{"all", &e.overall},
                                                                {"in the calibrated range", &e.in_range},
                                                                {"outside of it", &e.out_of_range},
                                                                {"power-capped", &e.power_capped},
                                                                {"not power-capped", &e.not_power_capped},
                                                                {"under 10 µs, counted nowhere else", &e.small},
                                                                {"totals, by the roofline floor", &e.floor}};
  for (const auto& [name, summary] : groups) {
    out << fmt::format("| {} | {} | {} | {} |\n", name, summary->count, errors(*summary), bias(*summary));
  }
}

void write_choice(const EvaluationReport& report, std::ostream& out) {
  out << "| cells | count | right winner % | regret % | of the kernel % |\n|---|---|---|---|---|\n";
  const Choice& choice = report.evaluation.choice;
  const std::string decided = fmt::format("fastest two differ by more than {} times their spread", kSpreads);
  for (const auto& [name, errors] :
       {std::pair<std::string, ChoiceErrors>("all", choice.all), {decided, choice.decided}}) {
    out << fmt::format("| {} | {} | {:.1f} | {:.2f} | {:.2f} |\n", name, errors.cells, errors.right_share * 100,
                       errors.mean_regret_pct, errors.mean_kernel_regret_pct);
  }
}

void write_coverage(const EvaluationReport& report, std::ostream& out) {
  if (report.evaluation.coverage) write_coverage_markdown(*report.evaluation.coverage, out);
}

void write_worst(const EvaluationReport& report, std::ostream& out) {
  out << "| implementation | weights | model | tokens | routing | stage | measured µs | simulated µs | error % | "
         "simulated time "
         "goes to |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const RowResult* row : worst_rows(report.evaluation)) {
    const MoeMeasurement& m = *row->row;
    const std::string shard = m.tp * m.ep == 1 ? "" : fmt::format(" tp {} ep {}", m.tp, m.ep);
    out << fmt::format("| `{}` | {} | {}{} | {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} | {} |\n", m.implementation,
                       m.weights, m.model_name, shard, m.tokens, m.routing, m.stage, m.us, row->simulated_us,
                       row->error_pct(), attribution_text(*row));
  }
}

}  // namespace

void write_evaluation_markdown(const EvaluationReport& report, std::ostream& out) {
  const std::pair<const char*, void (*)(const EvaluationReport&, std::ostream&)> tables[] = {
      {"implementations", write_implementations},
      {"cells", write_cells},
      {"groups", write_groups},
      {"choice", write_choice},
      {"coverage", write_coverage},
      {"worst", write_worst}};
  for (const auto& [name, write] : tables) {
    out << fmt::format("<!-- table: {} -->\n", name);
    write(report, out);
    out << "<!-- end -->\n";
  }
}

}  // namespace moesim
