// moesim run: one MoE layer at several concurrencies under several strategies.
#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/progress.h"
#include "tools/run_request.h"
#include "tools/timeline_output.h"
#include "traces/views/catalogue.h"
#include "workloads/studies/uncertainty.h"

namespace moesim {
namespace {

struct RunFlags {
  RequestFlags request;
  bool explain = false;
  bool uncertainty = false;
  TimelineFlags timeline;
  std::string format = "table";
};

CommandResult run(const RunFlags& flags) {
  const ConcurrencyView& view = find_concurrency_view(flags.format);
  if (flags.explain && !view.shows_kernels) {
    throw InputError({"--explain", "", fmt::format("--format {}", view.name), "--format table or json", ""});
  }
  if (flags.request.ladder.ladder && !view.shows_kernels) {
    throw InputError({"--ladder", "", fmt::format("--format {}", view.name), "--format table or json", ""});
  }
  TimelineOutput timeline(flags.timeline);
  ConcurrencyRequest request = request_of(flags.request);
  request.explain = flags.explain;
  Progress progress;
  request.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  ConcurrencyStudy study = run_concurrency_study(request);
  if (!study.feasible()) return infeasible_result(study);
  if (flags.uncertainty) {
    add_uncertainty(request, study, [&](std::size_t done, std::size_t all) { progress.show(done, all, "error bars"); });
  }
  std::ostringstream out;
  view.write(study, out);
  return {.output = out.str(), .complaint = timeline.write(request, study)};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<RunFlags>();
  flags->request.add(set);
  set.on("--explain", flags->explain,
         "Also where the time goes and, at the first concurrency, the kernels and the speed-up ladder");
  set.on("--uncertainty", flags->uncertainty,
         "Also error bars: p5 to p95 of each time, and how likely each strategy is the fastest");
  flags->timeline.add(set);
  std::vector<std::string> formats;
  for (const ConcurrencyView& view : concurrency_views()) formats.emplace_back(view.name);
  set.value("--format", fmt::format("{}", fmt::join(formats, "|")), flags->format, "How to print");
  return [flags] { return run(*flags); };
}

}  // namespace

constinit const Command kRunCommand = {
    "run", "Simulate one MoE layer or a decode step: the fastest strategy per concurrency",
    "  moesim run --model qwen3.5-397b-a17b-fp8 --device h200 --concurrency 1,2,4,8\n"
    "  moesim run --model gpt-oss-120b --device b200 --strategy grouped_gemm:block_m=32,stream_gemv --explain\n"
    "  moesim run --model mixtral-8x7b --set hbm.bandwidth=6TB/s --routing zipf:0.8 --format csv\n"
    "  moesim run --strategy grouped_gemm,stream_gemv --concurrency 1 --timeline run.pftrace\n"
    "  moesim run --concurrency 1,8 --uncertainty\n"
    "  moesim run --concurrency 1 --ladder grouped_gemm_persistent,stream_gemv\n"
    "  moesim run --model deepseek-v3 --device h200 --tp 8 --scope step --context 8192 --concurrency 1,16",
    define};

}  // namespace moesim
