#include <fmt/format.h>

#include <ostream>

#include "traces/views/comparison_views.h"
#include "traces/views/csv.h"

namespace moesim {
namespace {

std::string micros(Duration time) { return fmt::format("{}", to_microseconds(time)); }

void write_line(const Comparison& c, const SectionComparison& section, const std::string& stage,
                const std::optional<MeasuredStage>& measured, const std::optional<SimulatedStage>& simulated,
                std::ostream& out) {
  const SimulatedLayer* layer = section.layer();
  std::vector<std::string> cells = {c.trace_file,
                                    section.name,
                                    c.device,
                                    c.model,
                                    c.weights,
                                    fmt::format("{}", section.tokens),
                                    layer ? layer->strategy : "",
                                    layer ? layer->implementation : "",
                                    section.scope,
                                    section.launch,
                                    fmt::format("{}", section.alike),
                                    stage};
  for (const Duration time :
       {measured ? measured->time.median : Duration(), measured ? measured->time.least : Duration(),
        measured ? measured->time.most : Duration()}) {
    cells.push_back(measured ? micros(time) : "");
  }
  cells.push_back(simulated ? micros(simulated->time) : "");
  const std::optional<double> error =
      measured && simulated ? error_percent(simulated->time, measured->time.median) : std::nullopt;
  cells.push_back(error ? fmt::format("{:.3f}", *error) : "");
  cells.push_back(simulated ? std::string(blame_key(simulated->limited_by)) : "");
  write_csv_line(cells, out);
}

}  // namespace

void write_comparison_csv(const Comparison& comparison, std::ostream& out) {
  write_csv_line({"trace", "section", "device", "model", "weights", "tokens", "strategy", "implementation", "scope",
                  "launch", "layers", "stage", "measured_us_median", "measured_us_min", "measured_us_max",
                  "simulated_us", "error_pct", "limited_by"},
                 out);
  for (const SectionComparison& section : comparison.sections) {
    for (const StageRow& row : section.stages) {
      write_line(comparison, section, row.stages.name(), row.measured, row.simulated, out);
    }
    const SimulatedLayer* layer = section.layer();
    const auto total = [&](const char* name, const MeasuredTime& measured, Duration simulated,
                           std::optional<Blame> limit = std::nullopt) {
      std::optional<SimulatedStage> stage;
      if (layer != nullptr) stage = SimulatedStage{simulated, 0, limit.value_or(layer->limited_by), 0};
      write_line(comparison, section, name, MeasuredStage{measured, 0}, stage, out);
    };
    total("all", section.busy, layer ? layer->busy : Duration());
    total("gaps", section.gaps, layer ? layer->gaps() : Duration(), Blame::kLaunch);
    total("layer", section.span, layer ? layer->span : Duration());
  }
}

}  // namespace moesim
