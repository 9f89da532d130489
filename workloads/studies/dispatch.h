// A dispatch table: from so many tokens, or distinct experts, on which strategy to launch and with what parameters.
//
// By distinct experts: a threshold is the mean number of distinct experts at the change, between the means of the two token
// counts around it. Distinct experts stop growing where all are active: changes beyond cannot be told by them, the entry of
// the most tokens holds, and what it hides is listed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "workloads/studies/crossover.h"

namespace moesim {

enum class DispatchBy { kTokens, kDistinctExperts };
const char* dispatch_key(DispatchBy by);                // "tokens", "distinct_experts"
DispatchBy parse_dispatch_by(const std::string& text);  // throws InputError (flag --by)

struct LeastMost {
  double least = 0, most = 0;
};

struct DispatchEntry {
  std::int64_t from = 0, to = 0;                // of what the table is by
  std::int64_t tokens_from = 0, tokens_to = 0;  // where it was simulated
  std::size_t strategy = 0;                     // of the study
  Parameters parameters;
  LeastMost gain_over_next;  // time of the second fastest / its time, at the places looked at; 1: none
  std::optional<LeastMost> gain_over_reference;  // nullopt: the reference is nowhere feasible there
  std::optional<LeastMost> confidence;           // that it is the fastest; nullopt: some error is not known
};

struct DispatchTable {
  DispatchBy by = DispatchBy::kTokens;
  std::string reference;                // a strategy of the study
  std::vector<DispatchEntry> entries;   // ascending and without gaps; not empty
  std::vector<DispatchEntry> not_told;  // by distinct experts: entries that no number of them tells from a later one
};

// Of one line whose axis is concurrency. Infeasible where no strategy is at some place.
std::variant<DispatchTable, Infeasible> dispatch_table(const CrossoverStudy& study, DispatchBy by,
                                                       std::size_t reference);

// The strategy always launched that gains are told against: grouped_gemm where it is among them, else the first.
std::size_t usual_reference(const std::vector<std::string>& strategies);

// As --strategy takes it: "grouped_gemm:block_m=16,block_n=64". Parameters that the strategy's text states stay.
std::string strategy_text(const std::string& strategy, const Parameters& parameters);

}  // namespace moesim
