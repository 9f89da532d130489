#include "traces/views/concurrency_text.h"

#include <fmt/format.h>

#include <map>
#include <ostream>
#include <set>

#include "sim/units/parse_quantity.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

// "1 token", "3 to 8 tokens"
std::string token_range(const Verdict& verdict) {
  const std::string where =
      verdict.from == verdict.to ? fmt::format("{}", verdict.from) : fmt::format("{} to {}", verdict.from, verdict.to);
  return where + (where == "1" ? " token" : " tokens");
}

}  // namespace

bool calibrated(const ConcurrencyStudy& study) { return !study.provenance.constants.empty(); }

std::string strategy_cell(const StrategyRow& row) {
  const StrategyFigures* figures = row.figures();
  if (figures == nullptr || figures->picked.empty()) return row.strategy;
  std::string cell = row.strategy + " =";
  const char* separator = " ";
  for (const auto& [name, count] : figures->picked) {
    cell += figures->picked.size() == 1 ? fmt::format("{}{}", separator, name)
                                        : fmt::format("{}{} x{}", separator, name, count);
    separator = ", ";
  }
  return cell;
}

std::string marked_strategy(const ConcurrencyStudy& study, const StrategyRow& row) {
  const std::string cell = strategy_cell(row) + (row.what_if ? kWhatIf : "");
  if (!calibrated(study) || row.figures() == nullptr || row.in_range) return cell;
  return cell + (row.implementation.empty() ? kNotFitted : kBeyondFit);
}

std::vector<std::string> uncertainty_notes(const ConcurrencyStudy& study) {
  if (!study.uncertainty) return {};
  std::map<ErrorBasis, std::set<std::string>> cells;
  for (const ConcurrencyPoint& point : study.points) {
    for (const StrategyRow& row : point.rows) {
      if (!row.interval) continue;
      const ErrorInterval& error = row.interval->error;
      cells[error.basis].insert(fmt::format("{}: {} rows", error_class_name(error.cell), error.rows));
    }
  }
  const UncertaintyRecord& record = *study.uncertainty;
  std::vector<std::string> notes = {
      "p5 to p95: where the true time lies with 90 %, by how far measured times lay from simulated ones"};
  for (const auto& [basis, of_basis] : cells) {
    const std::string rows = fmt::format("{}", fmt::join(of_basis, "; "));
    switch (basis) {
      case ErrorBasis::kHeldOut:
        notes.push_back(fmt::format("fitted: on models left out of the fit, {} ({})", record.residuals_of, rows));
        break;
      case ErrorBasis::kBeyondFit:
        notes.push_back(fmt::format("beyond the fit: the wider of that and of runs without a fit ({})", rows));
        break;
      case ErrorBasis::kNotFitted:
        notes.push_back(fmt::format("not fitted: of runs with a device's constants alone, {} ({}){}",
                                    record.residuals_of, rows,
                                    record.device_spread ? "; wider by the ranges of this device's constants" : ""));
        break;
    }
  }
  notes.push_back(
      fmt::format("fastest: in how many of {} draws of the errors, which correlate by {:.2f} between strategies",
                  record.draws, record.strategy_correlation));
  return notes;
}

std::string verdict_sentence(const Verdict& verdict) {
  const std::string tokens = token_range(verdict);
  if (verdict.winner.empty()) return fmt::format("At {} no strategy is feasible.", tokens);
  if (verdict.next_best.empty())
    return fmt::format("At {} {} is the only feasible one asked for.", tokens, verdict.winner);
  const std::string low = fmt::format("{:.2f}", verdict.lead_min);
  const std::string high = fmt::format("{:.2f}", verdict.lead_max);
  return fmt::format("At {} {} is fastest, {} times as fast as {}.", tokens, verdict.winner,
                     low == high ? low : fmt::format("{} to {}", low, high), fmt::join(verdict.next_best, " or "));
}

std::string headline(const std::vector<Verdict>& verdicts) {
  if (verdicts.size() == 1) return verdict_sentence(verdicts.front());
  std::string text;
  bool said = false;  // that what is named is fastest
  for (const Verdict& verdict : verdicts) {
    const bool first = &verdict == &verdicts.front();
    const bool last = &verdict == &verdicts.back();
    text += first ? "" : last ? " and " : ", ";
    if (verdict.winner.empty()) {
      text += fmt::format("{} is feasible at {}", first ? "Nothing" : "nothing", token_range(verdict));
    } else {
      text += fmt::format("{}{} at {}", verdict.winner, said ? "" : " is fastest", token_range(verdict));
      said = true;
    }
  }
  return text + ".";
}

}  // namespace moesim
