#include "workloads/studies/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

void widen(std::optional<LeastMost>& range, double value) {
  if (!range) range = {value, value};
  range->least = std::min(range->least, value);
  range->most = std::max(range->most, value);
}

DispatchEntry entry_of(const std::vector<Standing>& places, std::size_t reference) {
  const Standing& first = places.front();
  DispatchEntry entry;
  entry.from = entry.tokens_from = first.tokens;
  entry.to = entry.tokens_to = places.back().tokens;
  entry.strategy = *first.winner;
  entry.parameters = first.parameters;
  std::optional<LeastMost> lead;
  bool sure = true;  // a confidence is known at all places
  for (const Standing& s : places) {
    widen(lead, s.lead());
    if (s.times[reference])
      widen(entry.gain_over_reference, s.times[reference]->as_double() / s.times[*s.winner]->as_double());
    const std::optional<double> confidence = s.confidence();
    sure = sure && confidence;
    if (confidence) widen(entry.confidence, *confidence);
  }
  entry.gain_over_next = *lead;
  if (!sure) entry.confidence.reset();
  return entry;
}

// The whole number of distinct experts from which on the later of two neighbouring token counts is meant.
std::int64_t distinct_from(const Standing& before, const Standing& after) {
  return static_cast<std::int64_t>(std::floor((before.distinct_experts + after.distinct_experts) / 2)) + 1;
}

void go_by_distinct(DispatchTable& table, const CrossoverLine& line) {
  const auto most = std::max<std::int64_t>(1, std::llround(line.standings.back().distinct_experts));
  std::int64_t from = std::max<std::int64_t>(1, std::llround(line.standings.front().distinct_experts));
  std::vector<DispatchEntry> told;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    DispatchEntry& entry = table.entries[i];
    const bool last = i + 1 == table.entries.size();
    const std::int64_t next =
        last ? most + 1
             : std::min(most, distinct_from(line.standing(entry.tokens_to), line.standing(entry.tokens_to + 1)));
    entry.from = from;
    entry.to = next - 1;
    (next > from ? told : table.not_told).push_back(entry);
    from = std::max(from, next);
  }
  table.entries = std::move(told);
}

}  // namespace

const char* dispatch_key(DispatchBy by) {
  switch (by) {
    case DispatchBy::kTokens:
      return "tokens";
    case DispatchBy::kDistinctExperts:
      return "distinct_experts";
  }
  return "";
}

DispatchBy parse_dispatch_by(const std::string& text) {
  for (const DispatchBy by : {DispatchBy::kTokens, DispatchBy::kDistinctExperts}) {
    if (text == dispatch_key(by)) return by;
  }
  throw InputError({"--by", "", fmt::format("'{}'", text), "tokens or distinct_experts",
                    nearest_name(text, {"tokens", "distinct_experts"})});
}

std::variant<DispatchTable, Infeasible> dispatch_table(const CrossoverStudy& study, DispatchBy by,
                                                       std::size_t reference) {
  MOESIM_CHECK(study.lines.size() == 1 && reference < study.strategies.size());
  const CrossoverLine& line = study.lines.front();
  DispatchTable table;
  table.by = by;
  table.reference = study.strategies[reference];
  std::vector<Standing> places;
  const auto close = [&] {
    if (!places.empty()) table.entries.push_back(entry_of(places, reference));
    places.clear();
  };
  for (const Standing& s : line.standings) {
    MOESIM_CHECK(s.at == s.tokens);
    if (!s.winner) return Infeasible{fmt::format("no strategy is feasible at {} tokens", s.tokens)};
    if (!places.empty() && (places.back().winner != s.winner || places.back().parameters != s.parameters)) close();
    places.push_back(s);
  }
  close();
  if (by == DispatchBy::kDistinctExperts) go_by_distinct(table, line);
  return table;
}

std::size_t usual_reference(const std::vector<std::string>& strategies) {
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    if (strategies[i].substr(0, strategies[i].find(':')) == "grouped_gemm") return i;
  }
  return 0;
}

std::string strategy_text(const std::string& strategy, const Parameters& parameters) {
  std::string text = strategy;
  bool first = strategy.find(':') == std::string::npos;
  for (const auto& [name, value] : parameters) {
    const std::string stated = fmt::format("{}=", name);
    if (strategy.find(":" + stated) != std::string::npos || strategy.find("," + stated) != std::string::npos) continue;
    text += fmt::format("{}{}={}", first ? ":" : ",", name, value);
    first = false;
  }
  return text;
}

}  // namespace moesim
