#include "traces/views/concurrency_text.h"

#include <fmt/format.h>

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
  if (!calibrated(study) || row.figures() == nullptr || row.in_range) return strategy_cell(row);
  return strategy_cell(row) + (row.implementation.empty() ? kNotFitted : kBeyondFit);
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
