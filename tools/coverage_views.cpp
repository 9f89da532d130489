#include "tools/coverage_views.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "traces/views/numbers.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

std::string inside(const CoverageSummary& s) { return fmt::format("{:.1f}", s.inside_share * 100); }
std::string half_width(const CoverageSummary& s) { return fmt::format("{:.1f}", s.median_half_width_pct); }

std::vector<std::pair<std::string, CoverageSummary>> groups_of(const Coverage& coverage) {
  std::vector<std::pair<std::string, CoverageSummary>> groups = {
      {"all", coverage.overall}, {"whole blocks", coverage.layers}, {"stages", coverage.stages}};
  for (const std::string_view band : kTokenBands) {
    const auto found = coverage.by_band.find(std::string(band));
    if (found != coverage.by_band.end()) groups.emplace_back(fmt::format("{} tokens", band), found->second);
  }
  groups.emplace_back(fmt::format("under {} µs, counted nowhere else", kShortTimeUs), coverage.small);
  return groups;
}

Json summary_json(const CoverageSummary& s) {
  if (s.rows == 0) return {{"rows", 0}};
  return {{"rows", s.rows},
          {"inside_share", six_digits(s.inside_share)},
          {"below_share", six_digits(s.below_share)},
          {"median_half_width_pct", six_digits(s.median_half_width_pct)}};
}

Json summaries_json(const std::map<std::string, CoverageSummary>& summaries) {
  Json json = Json::object();
  for (const auto& [name, summary] : summaries) json[name] = summary_json(summary);
  return json;
}

// Empty: no point with several strategies.
std::vector<std::string> odds_sentences(const Coverage& coverage) {
  std::vector<std::string> sentences;
  const auto add = [&](const char* which, const WinnerOdds& odds) {
    if (odds.points == 0) return;
    sentences.push_back(fmt::format("predicted winner{}: said to win with {:.1f} %, right in {:.1f} % of {} cells",
                                    which, odds.mean_probability * 100, odds.right_share * 100, odds.points));
  };
  add("", coverage.odds);
  add(" where it was said to win with 90 % and more", coverage.sure_odds);
  return sentences;
}

Json odds_json(const WinnerOdds& odds) {
  if (odds.points == 0) return {{"cells", 0}};
  return {{"cells", odds.points},
          {"mean_probability", six_digits(odds.mean_probability)},
          {"right_share", six_digits(odds.right_share)}};
}

}  // namespace

void write_coverage_table(const Coverage& coverage, std::ostream& out) {
  out << fmt::format("\nrows within p5 to p95 (90 % is right), by quantiles of {}\n", coverage.quantiles_of);
  TextTable groups({{"", Align::kLeft},
                    {"rows", Align::kRight},
                    {"inside %", Align::kRight},
                    {"median half-width %", Align::kRight}});
  for (const auto& [name, summary] : groups_of(coverage)) {
    if (summary.rows == 0) continue;
    groups.add_row({name, fmt::format("{}", summary.rows), inside(summary), half_width(summary)});
  }
  groups.write(out);
  if (coverage.unknown > 0) out << fmt::format("  {} rows without an interval\n", coverage.unknown);
  for (const std::string& sentence : odds_sentences(coverage)) out << "  " << sentence << '\n';
  if (coverage.cells.empty()) return;
  out << '\n';
  TextTable cells({{"strategy", Align::kLeft},
                   {"weights", Align::kLeft},
                   {"tokens", Align::kLeft},
                   {"rows", Align::kRight},
                   {"inside %", Align::kRight},
                   {"median half-width %", Align::kRight}});
  for (const CoverageCell& cell : coverage.cells) {
    cells.add_row({cell.strategy, cell.weights, cell.band, fmt::format("{}", cell.summary.rows), inside(cell.summary),
                   half_width(cell.summary)});
  }
  cells.write(out);
}

void write_coverage_markdown(const Coverage& coverage, std::ostream& out) {
  out << "| rows | count | within p5 to p95 % | median half-width % |\n|---|---|---|---|\n";
  for (const auto& [name, summary] : groups_of(coverage)) {
    if (summary.rows == 0) continue;
    out << fmt::format("| {} | {} | {} | {} |\n", name, summary.rows, inside(summary), half_width(summary));
  }
  for (const auto& [name, summary] : coverage.by_strategy_dtype) {
    out << fmt::format("| `{}` | {} | {} | {} |\n", name, summary.rows, inside(summary), half_width(summary));
  }
  for (const std::string& sentence : odds_sentences(coverage)) out << fmt::format("\nThe {}.\n", sentence);
}

Json coverage_json(const Coverage& coverage) {
  Json json = {{"quantiles_of", coverage.quantiles_of},
               {"overall", summary_json(coverage.overall)},
               {"layers", summary_json(coverage.layers)},
               {"stages", summary_json(coverage.stages)},
               {"small_rows", summary_json(coverage.small)},
               {"by_strategy", summaries_json(coverage.by_strategy)},
               {"by_strategy_dtype", summaries_json(coverage.by_strategy_dtype)},
               {"by_band", summaries_json(coverage.by_band)},
               {"by_basis", summaries_json(coverage.by_basis)},
               {"by_model", summaries_json(coverage.by_model)},
               {"winner", odds_json(coverage.odds)},
               {"sure_winner", odds_json(coverage.sure_odds)},
               {"without_interval", coverage.unknown}};
  Json& cells = json["cells"] = Json::array();
  for (const CoverageCell& cell : coverage.cells) {
    Json one = {{"strategy", cell.strategy}, {"weights", cell.weights}, {"band", cell.band}};
    one.update(summary_json(cell.summary));
    cells.push_back(std::move(one));
  }
  return json;
}

}  // namespace moesim
