#include "traces/views/concurrency_text.h"

#include <fmt/format.h>

namespace moesim {

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

}  // namespace moesim
