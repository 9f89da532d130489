#include "tools/timeline_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "traces/timeline/simulated_timeline.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

constexpr std::int64_t kDefaultUnits = 4;
constexpr std::int64_t kMostUnits = 1'000'000;
// Counters are means over a 20,000th of the run, at least 50 ns, so that they take no more space than that.
constexpr std::int64_t kCounterSteps = 20'000, kLeastCounterStep = 50'000;

std::vector<std::pair<std::string, std::string>> facts_of(const ConcurrencyStudy& study, const StrategyRow& row) {
  const Provenance& p = study.provenance;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"tool", fmt::format("moesim {}", p.tool_version)},
      {"strategy", row.strategy},
      {"implementation", row.implementation.empty() ? "none: the device's constants alone" : row.implementation},
      {"model", fmt::format("{} ({})", p.model, p.model_file)},
      {"weights", p.weights},
      {"activations", p.activations},
      {"device", fmt::format("{}: {}", p.device, p.device_title)},
      {"device_file", p.device_file},
      {"device_hash", p.device_hash},
      {"clock_ghz", fmt::format("{}", p.clock_hz / 1e9)},
      {"calibration", p.calibration},
      {"scope", p.scope},
      {"launch", p.launch},
      {"tokens", fmt::format("{}", study.points.front().concurrency)},
      {"routing", p.routing},
      {"sample", fmt::format("1 of {}", p.samples)},
      {"seed", fmt::format("{}", p.seed)},
      {"tp", fmt::format("{}", p.tp)},
      {"ep", fmt::format("{}", p.ep)}};
  if (p.step) {
    facts.emplace_back("context", fmt::format("{}", p.step->context));
    facts.emplace_back("kv_cache", p.step->cache);
    facts.emplace_back("layers", fmt::format("{} of {}", p.step->layers, p.step->layers_of_model));
  }
  if (!p.overrides.empty()) facts.emplace_back("set", fmt::format("{}", fmt::join(p.overrides, ", ")));
  if (!p.model_overrides.empty()) {
    facts.emplace_back("model_override", fmt::format("{}", fmt::join(p.model_overrides, ", ")));
  }
  return facts;
}

Duration counter_step(Duration run) { return Duration(std::max(kLeastCounterStep, run.value() / kCounterSteps)); }

}  // namespace

void TimelineFlags::add(FlagSet& flags) {
  flags.value(
      "--timeline", "FILE", file,
      fmt::format("Also write the first concurrency's first routing as a timeline, a group of tracks a strategy, "
                  "for ui.perfetto.dev: {}",
                  TimelineFile::kFormats));
  flags.value("--units", "N|all", units,
              fmt::format("Timeline: units whose work items are shown [default: {}]", kDefaultUnits));
}

TimelineOutput::TimelineOutput(const TimelineFlags& flags) {
  if (!flags.file) {
    if (flags.units) throw InputError({"--units", "", "no --timeline", "--timeline FILE", ""});
    return;
  }
  const std::string units = flags.units.value_or(fmt::format("{}", kDefaultUnits));
  if (units != "all") units_ = parse_whole("--units", units, 1, kMostUnits);
  file_.emplace(*flags.file);
}

std::string TimelineOutput::write(const ConcurrencyRequest& request, const ConcurrencyStudy& study) {
  if (!file_) return "";
  return file_->write([&](TrackWriter& writer) {
    const std::vector<StrategyRow>& rows = study.points.front().rows;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const StrategyFigures* figures = rows[i].figures();
      if (figures == nullptr) continue;
      SimulatedTimeline timeline(writer, {.title = rows[i].strategy,
                                          .facts = facts_of(study, rows[i]),
                                          .units = units_,
                                          .counter_step = counter_step(figures->time_median)});
      predict_first(request, request.strategies[i], &timeline);
    }
  });
}

}  // namespace moesim
