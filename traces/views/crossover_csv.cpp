// A crossover study as one line per place; each line also says what it was made of.
#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "traces/views/crossover_views.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "workloads/studies/dispatch.h"

namespace moesim {

void write_crossover_csv(const CrossoverStudy& study, std::ostream& out) {
  const auto number = [](double value) { return fmt::format("{}", six_digits(value)); };
  const auto known = [&](const std::optional<double>& value) { return value ? number(*value) : ""; };
  std::vector<std::string> headings = study.line_axes;
  headings.insert(headings.end(), {study.axis, "tokens", "distinct_experts_mean", "winner", "next_best", "lead",
                                   "lead_error", "contested", "confidence", "launch_as"});
  for (const std::string& strategy : study.strategies) headings.push_back("time_us_median " + strategy);
  headings.insert(headings.end(), {"tool_version", "calibration", "device_file", "device_hash", "model_file", "scope",
                                   "launch", "routing", "samples", "seed", "tp", "ep"});
  write_csv_line(headings, out);
  for (const CrossoverLine& line : study.lines) {
    const Provenance& p = line.provenance;
    for (const Standing& s : line.standings) {
      std::vector<std::string> cells = line.coordinates;
      cells.insert(cells.end(),
                   {s.value.text, fmt::format("{}", s.tokens), number(s.distinct_experts),
                    s.winner ? study.strategies[*s.winner] : "", s.next ? study.strategies[*s.next] : "",
                    s.next ? number(s.lead()) : "", known(s.lead_error()), s.contested() ? "1" : "0",
                    known(s.confidence()), s.winner ? strategy_text(study.strategies[*s.winner], s.parameters) : ""});
      for (const std::optional<Duration>& time : s.times) {
        cells.push_back(time ? fmt::format("{}", to_microseconds(*time)) : "");
      }
      cells.insert(cells.end(), {p.tool_version, p.calibration, p.device_file, p.device_hash, p.model_file, p.scope,
                                 p.launch, p.routing, fmt::format("{}", p.samples), fmt::format("{}", p.seed),
                                 fmt::format("{}", p.tp), fmt::format("{}", p.ep)});
      write_csv_line(cells, out);
    }
  }
}

}  // namespace moesim
