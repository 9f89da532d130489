// The study as one line per strategy and load.
#include <fmt/format.h>

#include <ostream>

#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/serving_data.h"

namespace moesim {
namespace {

std::string number(double value) { return fmt::format("{}", six_digits(value)); }

void add_quantiles(std::vector<CsvCell>& cells, const char* name, const TimeQuantiles& q) {
  for (const auto& [key, value] : {std::pair{"p50", q.p50}, {"p95", q.p95}, {"p99", q.p99}}) {
    cells.push_back({fmt::format("{}_{}_ms", name, key), q.count == 0 ? "" : fmt::format("{}", milliseconds(value))});
  }
}

std::vector<CsvCell> cells_of(const ServingStudy& study, const StrategyServing& s, const ServingFigures& f) {
  const Provenance& p = study.provenance;
  std::vector<CsvCell> cells = {{"load", number(f.load)},
                                {"strategy", s.strategy},
                                {"sustainable", s.sustainable ? number(*s.sustainable) : ""},
                                {"stopped_early", f.stopped ? "true" : "false"},
                                {"turns", fmt::format("{}", f.turns)},
                                {"misses", fmt::format("{}", f.misses)},
                                {"miss_share", number(f.miss_share())}};
  add_quantiles(cells, "latency", f.latency);
  add_quantiles(cells, "first_token", f.first_token);
  add_quantiles(cells, "per_token", f.per_token);
  add_quantiles(cells, "step", f.step);
  const CsvCell rest[] = {{"utilisation", number(f.utilisation)},
                          {"tokens_in_per_s", number(f.tokens_in)},
                          {"tokens_out_per_s", number(f.tokens_out)},
                          {"mean_sequences", number(f.mean_sequences)},
                          {"mean_tokens", number(f.mean_tokens)}};
  cells.insert(cells.end(), std::begin(rest), std::end(rest));
  for (std::size_t c = 0; c < f.steps_by_strategy.size(); ++c) {
    cells.push_back({"steps_" + study.candidates[c], fmt::format("{}", f.steps_by_strategy[c])});
  }
  const CsvCell origin[] = {{"model", p.model},
                            {"device", p.device},
                            {"device_hash", p.device_hash},
                            {"calibration", p.calibration},
                            {"tp", fmt::format("{}", p.tp)},
                            {"ep", fmt::format("{}", p.ep)},
                            {"routing", p.routing},
                            {"seed", fmt::format("{}", p.seed)},
                            {"version", p.tool_version}};
  cells.insert(cells.end(), std::begin(origin), std::end(origin));
  return cells;
}

}  // namespace

void write_serving_csv(const ServingStudy& study, std::ostream& out) {
  CsvRows rows(out);
  for (const StrategyServing& s : study.strategies) {
    for (const ServingFigures& f : s.points) rows.write(cells_of(study, s, f));
  }
}

}  // namespace moesim
