// How a study's rows are named in text.
#pragma once

#include <string>
#include <vector>

#include "workloads/studies/concurrency.h"

namespace moesim {

// Marks of strategies that nobody fitted, and of tokens beyond the fit.
inline constexpr const char* kNotFitted = "†";
inline constexpr const char* kBeyondFit = "‡";
// Of strategies that no kernel does.
inline constexpr const char* kWhatIf = "◊";

bool calibrated(const ConcurrencyStudy& study);
std::string strategy_cell(const StrategyRow& row);  // of auto: with what it took
// With a mark where the row does not rest on a fit although an overlay is in use.
std::string marked_strategy(const ConcurrencyStudy& study, const StrategyRow& row);
// Of a study with error bars, what they are; empty: it has none.
std::vector<std::string> uncertainty_notes(const ConcurrencyStudy& study);
// "At 1 to 8 tokens stream_gemv is fastest, 1.10 to 1.52 times as fast as grouped_gemm."
std::string verdict_sentence(const Verdict& verdict);
// The verdicts in one sentence.
std::string headline(const std::vector<Verdict>& verdicts);

}  // namespace moesim
