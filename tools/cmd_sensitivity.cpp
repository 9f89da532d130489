// moesim sensitivity: what a result hangs on, constant by constant.
#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/progress.h"
#include "tools/run_request.h"
#include "tools/sensitivity_flags.h"
#include "traces/views/sensitivity_views.h"

namespace moesim {
namespace {

struct Flags {
  RequestFlags request;
  SensitivityFlags sensitivity;
  std::string format = "table";
};

CommandResult sensitivity(const Flags& flags) {
  const SensitivityView& view = find_sensitivity_view(flags.format);
  const ConcurrencyRequest base = request_of(flags.request);
  if (base.ladder) throw InputError({"--ladder", "", "sensitivity", "run or report", ""});
  if (base.concurrencies.size() != 1) {
    throw InputError({"--concurrency", "", fmt::format("{} of them", base.concurrencies.size()), "one", ""});
  }
  Progress progress;
  const std::optional<SensitivityStudy> study = run_sensitivity_study(
      flags.sensitivity.request(base, [&](std::size_t done, std::size_t all) { progress.show(done, all); }));
  if (!study) return infeasible_result(run_concurrency_study(base));
  std::ostringstream out;
  view.write(*study, out);
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<Flags>();
  flags->request.usual_concurrency = "1";
  flags->request.add(set);
  flags->sensitivity.add(set);
  std::vector<std::string> formats;
  for (const SensitivityView& view : sensitivity_views()) formats.emplace_back(view.name);
  set.value("--format", fmt::format("{}", fmt::join(formats, "|")), flags->format, "How to print");
  return [flags] { return sensitivity(*flags); };
}

}  // namespace

constinit const Command kSensitivityCommand = {
    "sensitivity",
    "What a time or a choice hangs on: each constant of device, fit and workload at p5 and p95 of its range",
    "  moesim sensitivity --model mixtral-8x7b --concurrency 3 --strategy grouped_gemm,stream_gemv --samples 2\n"
    "  moesim sensitivity --strategy grouped_gemm,stream_gemv --samples 1 --result time:stream_gemv --format csv\n"
    "  moesim sensitivity --strategy grouped_gemm,stream_gemv --samples 1 --range hbm.latency=20% --range tokens=0",
    define};

}  // namespace moesim
