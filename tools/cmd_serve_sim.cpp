// moesim serve-sim: sessions or requests on a server that batches continuously.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <sstream>

#include "tools/command_line.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/serving_request.h"
#include "tools/timeline_file.h"
#include "traces/views/serving_views.h"

namespace moesim {
namespace {

struct ServeFlags {
  ServingFlags request;
  std::optional<std::string> timeline, report;
  std::string format = "table";
};

CommandResult infeasible(const ServingStudy& study) {
  std::string reasons;
  for (const StrategyServing& s : study.strategies) {
    const bool same = s.infeasible->reason == study.strategies.front().infeasible->reason;
    if (same && &s != &study.strategies.front()) continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", s.strategy, s.infeasible->reason);
  }
  return {.output = "",
          .complaint = fmt::format("no strategy is feasible: {}", reasons),
          .exit_code = ExitCode::kInfeasible};
}

CommandResult serve(const ServeFlags& flags) {
  const ServingView& view = find_serving_view(flags.format);
  ServingRequest request = serving_request_of(flags.request);
  std::optional<TimelineFile> timeline;
  std::optional<OutputFile> report;
  if (flags.timeline) timeline.emplace(*flags.timeline);
  if (flags.report) report.emplace(*flags.report, "--report");
  Progress progress;
  request.progress = [&](std::size_t runs) { progress.show(runs, 0, "steps simulated:"); };
  const ServingStudy study = run_serving_study(request);
  if (!study.feasible()) return infeasible(study);
  CommandResult result;
  std::ostringstream out;
  view.write(study, out);
  result.output = out.str();
  if (report) {
    std::ostringstream page;
    write_serving_report(study, page);
    report->write(page.str());
  }
  if (timeline) {
    result.complaint = timeline->write([&](TrackWriter& writer) { write_serving_tracks(study, writer); });
  }
  return result;
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ServeFlags>();
  flags->request.add(set);
  set.value("--timeline", "FILE", flags->timeline,
            fmt::format("Also write steps and {} as a timeline for ui.perfetto.dev: {}", "chunks or requests",
                        TimelineFile::kFormats));
  set.value("--report", "FILE", flags->report, "Also write an HTML page with charts, which needs no network");
  std::vector<std::string> formats;
  for (const ServingView& serving_view : serving_views()) formats.emplace_back(serving_view.name);
  set.value("--format", fmt::format("{}", fmt::join(formats, "|")), flags->format, "How to print");
  return [flags] { return serve(*flags); };
}

}  // namespace

constinit const Command kServeSimCommand = {
    "serve-sim", "Sessions or requests on a server: latencies, misses, how many it sustains",
    "  moesim serve-sim --model qwen3-30b-a3b --layers 4 --sessions 4,16 --horizon 3s --warm-up 1s\n"
    "  moesim serve-sim --model qwen3-30b-a3b --layers 2 --deadline 2ms --max-batch 4 --horizon 2s --warm-up 0s\n"
    "  moesim serve-sim --model qwen3-30b-a3b --layers 4 --workload requests --rate 20 --prompt lognormal:200,0.5 "
    "--output 8 --strategy grouped_gemm --horizon 2s --warm-up 0s --format csv\n"
    "  moesim serve-sim --model qwen3-30b-a3b --layers 4 --sessions 8 --horizon 2s --warm-up 0s --timeline "
    "serve.pftrace "
    "--report serve.html",
    define};

}  // namespace moesim
