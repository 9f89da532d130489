// The study as one line per concurrency and strategy; each line also says what it was made of.
#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "traces/views/catalogue.h"
#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

constexpr double kTera = 1e12;

std::string number(double value) { return fmt::format("{}", six_digits(value)); }
std::string micros(Duration d) { return fmt::format("{}", to_microseconds(d)); }

// What a row without an interval lacks stays empty.
void add_interval(const StrategyRow& row, std::vector<CsvCell>& cells) {
  const auto add = [&](const char* heading, auto text_of) {
    cells.push_back({heading, row.interval ? text_of(*row.interval) : std::string()});
  };
  const auto rounded = [](Duration d) { return number(to_microseconds(d)); };
  add("interval_p5_us", [&](const TimeInterval& i) { return rounded(i.low); });
  add("interval_p95_us", [&](const TimeInterval& i) { return rounded(i.high); });
  add("interval_half_width_pct", [](const TimeInterval& i) { return number(i.error.half_width_pct()); });
  add("interval_basis", [](const TimeInterval& i) { return std::string(error_basis_name(i.error.basis)); });
  add("interval_rows", [](const TimeInterval& i) { return fmt::format("{}", i.error.rows); });
  add("fastest_probability", [](const TimeInterval& i) { return i.fastest ? number(*i.fastest) : std::string(); });
}

std::vector<CsvCell> cells_of(const ConcurrencyPoint& point, const StrategyRow& row, const ConcurrencyStudy& study) {
  const Provenance& p = study.provenance;
  std::vector<CsvCell> cells = {{"concurrency", fmt::format("{}", point.concurrency)},
                                {"strategy", row.strategy},
                                {"winner", row.winner ? "1" : "0"}};
  const StrategyFigures* figures = row.figures();
  // What an infeasible row lacks stays empty.
  const auto figure = [&](std::string heading, auto text_of) {
    cells.push_back({std::move(heading), figures == nullptr ? "" : text_of(*figures)});
  };
  figure("time_us_median", [](const StrategyFigures& f) { return micros(f.time_median); });
  figure("time_us_p95", [](const StrategyFigures& f) { return micros(f.time_p95); });
  cells.push_back({"bound_us_median", micros(point.bound_median)});
  figure("bound_fraction_median", [](const StrategyFigures& f) { return number(f.bound_fraction_median); });
  cells.push_back({"distinct_experts_mean", number(point.distinct_experts)});
  cells.push_back({"duplicate_share_mean", number(point.duplicate_share)});
  cells.push_back({"rows_per_expert_mean", number(point.rows_per_expert)});
  figure("memory_read_bytes_mean",
         [](const StrategyFigures& f) { return fmt::format("{}", std::llround(f.memory_read_mean)); });
  figure("memory_reread_bytes_mean",
         [](const StrategyFigures& f) { return fmt::format("{}", std::llround(f.memory_reread_mean)); });
  figure("achieved_tb_per_s", [](const StrategyFigures& f) { return number(f.achieved_rate / kTera); });
  figure("limited_by", [](const StrategyFigures& f) { return std::string(blame_key(largest(f.attribution))); });
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    const auto blame = static_cast<Blame>(b);
    figure(fmt::format("{}_share", blame_key(blame)), [&](const StrategyFigures& f) { return number(f.share(blame)); });
  }
  if (p.step) {
    figure("tokens_per_s_per_sequence", [](const StrategyFigures& f) { return number(tokens_per_second(f)); });
    figure("tokens_per_s", [&](const StrategyFigures& f) {
      return number(tokens_per_second(f) * static_cast<double>(point.concurrency));
    });
    figure("moe_share", [](const StrategyFigures& f) { return number(f.moe_share()); });
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      const auto part = static_cast<StepPart>(i);
      figure(fmt::format("part_{}_share", step_part_key(part)),
             [&](const StrategyFigures& f) { return number(f.part_share(part)); });
    }
    cells.push_back({"context", fmt::format("{}", p.step->context)});
    cells.push_back({"kv_dtype", p.step->cache});
    cells.push_back({"layers", fmt::format("{}", p.step->layers)});
    cells.push_back({"layers_of_model", fmt::format("{}", p.step->layers_of_model)});
  }
  if (study.uncertainty) add_interval(row, cells);
  const auto* infeasible = std::get_if<Infeasible>(&row.result);
  cells.push_back({"infeasible", infeasible == nullptr ? "" : infeasible->reason});
  cells.push_back({"implementation", row.implementation});
  cells.push_back({"in_calibrated_range", row.in_range ? "1" : "0"});
  const std::vector<CsvCell> provenance = {{"tool_version", p.tool_version},
                                           {"calibration", p.calibration},
                                           {"device", p.device},
                                           {"device_file", p.device_file},
                                           {"device_hash", p.device_hash},
                                           {"device_overrides", fmt::format("{}", fmt::join(p.overrides, " "))},
                                           {"clock_hz", fmt::format("{}", p.clock_hz)},
                                           {"model", p.model},
                                           {"model_file", p.model_file},
                                           {"weights", p.weights},
                                           {"activations", p.activations},
                                           {"tp", fmt::format("{}", p.tp)},
                                           {"ep", fmt::format("{}", p.ep)},
                                           {"moe_layers", fmt::format("{}", p.moe_layers)},
                                           {"scope", p.scope},
                                           {"launch", p.launch},
                                           {"routing", p.routing},
                                           {"samples", fmt::format("{}", p.samples)},
                                           {"seed", fmt::format("{}", p.seed)}};
  cells.insert(cells.end(), provenance.begin(), provenance.end());
  if (!p.model_overrides.empty()) {
    cells.push_back({"model_overrides", fmt::format("{}", fmt::join(p.model_overrides, " "))});
  }
  if (!p.without.empty()) cells.push_back({"without", fmt::format("{}", fmt::join(p.without, " "))});
  return cells;
}

}  // namespace

void write_concurrency_csv(const ConcurrencyStudy& study, std::ostream& out) {
  CsvRows rows(out);
  for (const ConcurrencyPoint& point : study.points) {
    for (const StrategyRow& row : point.rows) rows.write(cells_of(point, row, study));
  }
}

}  // namespace moesim
