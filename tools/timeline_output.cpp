#include "tools/timeline_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "traces/timeline/gzip_output.h"
#include "traces/timeline/simulated_timeline.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

constexpr std::int64_t kDefaultUnits = 4;
constexpr std::int64_t kMostUnits = 1'000'000;
// Counters are means over a 20,000th of the run, at least 50 ns, so that they take no more space than that.
constexpr std::int64_t kCounterSteps = 20'000, kLeastCounterStep = 50'000;

// Hands on, and counts.
class CountingWriter : public TrackWriter {
 public:
  explicit CountingWriter(TrackWriter& writer) : writer_(writer) {}
  Track add_group(std::string_view name) override { return writer_.add_group(name); }
  Track add_track(Track group, std::string_view name) override { return writer_.add_track(group, name); }
  Track add_counter(Track group, std::string_view name, std::string_view unit) override {
    return writer_.add_counter(group, name, unit);
  }
  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> arguments) override {
    ++slices;
    writer_.slice(track, start, length, name, category, arguments);
  }
  void count(Track counter, TimePoint at, double value) override {
    ++counts;
    writer_.count(counter, at, value);
  }
  void finish() override { writer_.finish(); }

  std::int64_t slices = 0, counts = 0;

 private:
  TrackWriter& writer_;
};

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
  flags.value("--timeline", "FILE", file,
              "Also write the first concurrency's first routing as a timeline, a group of tracks a strategy, for "
              "ui.perfetto.dev: .json, .json.gz (Chrome), .pftrace or .perfetto-trace");
  flags.value("--units", "N|all", units,
              fmt::format("Timeline: units whose work items are shown [default: {}]", kDefaultUnits));
}

TimelineOutput::Format TimelineOutput::format_of(const std::string& path) {
  const std::pair<const char*, Format> known[] = {{".json", Format::kChrome},
                                                  {".json.gz", Format::kChromeGzip},
                                                  {".pftrace", Format::kPerfetto},
                                                  {".perfetto-trace", Format::kPerfetto}};
  std::vector<std::string> names;
  for (const auto& [extension, format] : known) {
    if (path.ends_with(extension) && path.size() > std::string_view(extension).size()) return format;
    names.emplace_back(extension);
  }
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::size_t dot = name.find('.');
  const std::string found = dot == std::string::npos ? "" : name.substr(dot);
  throw InputError({"--timeline", "", fmt::format("'{}'", path), fmt::format("a file {}", fmt::join(names, ", ")),
                    found.empty() ? "" : nearest_name(found, names)});
}

TimelineOutput::TimelineOutput(const TimelineFlags& flags) {
  if (!flags.file) {
    if (flags.units) throw InputError({"--units", "", "no --timeline", "--timeline FILE", ""});
    return;
  }
  path_ = *flags.file;
  format_ = format_of(path_);
  const std::string units = flags.units.value_or(fmt::format("{}", kDefaultUnits));
  if (units != "all") units_ = parse_whole("--units", units, 1, kMostUnits);
  file_.emplace(path_, "--timeline");
}

std::string TimelineOutput::write(const ConcurrencyRequest& request, const ConcurrencyStudy& study) {
  if (!file_) return "";
  std::optional<GzipOutput> gzip;
  std::ostream* out = &file_->stream();
  if (format_ == Format::kChromeGzip) out = &gzip.emplace(*out);
  const std::unique_ptr<TrackWriter> writer =
      format_ == Format::kPerfetto ? perfetto_writer(*out) : chrome_writer(*out);
  CountingWriter counting(*writer);
  const std::vector<StrategyRow>& rows = study.points.front().rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StrategyFigures* figures = rows[i].figures();
    if (figures == nullptr) continue;
    SimulatedTimeline timeline(counting, {.title = rows[i].strategy,
                                          .facts = facts_of(study, rows[i]),
                                          .units = units_,
                                          .counter_step = counter_step(figures->time_median)});
    predict_first(request, request.strategies[i], &timeline);
  }
  counting.finish();
  if (gzip) gzip->finish();
  const std::int64_t bytes = file_->commit();
  return fmt::format("{}: {} slices, {} counter values, {} bytes", path_, counting.slices, counting.counts, bytes);
}

}  // namespace moesim
