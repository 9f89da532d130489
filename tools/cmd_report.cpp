// moesim report: what `run` simulates, as one HTML file to look at.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_request.h"
#include "tools/sensitivity_flags.h"
#include "traces/measurement.h"
#include "traces/views/report_html.h"
#include "workloads/studies/uncertainty.h"

namespace moesim {
namespace {

// Concurrencies whose kernels and ladders are shown: of more, or of a step, whose layers are many, the first alone.
constexpr std::size_t kMostDetailed = 16;

struct ReportFlags {
  RequestFlags request;
  std::string out = "report.html";
  std::vector<std::string> measured;
  bool uncertainty = false, sensitivity = false;
  SensitivityFlags of_sensitivity;
};

MeasuredPoints read_measured(const std::vector<std::string>& paths, const ConcurrencyRequest& request) {
  std::vector<MoeMeasurement> rows;
  for (const std::string& path : paths) {
    std::vector<MoeMeasurement> of_file = read_measurements(path);
    rows.insert(rows.end(), std::make_move_iterator(of_file.begin()), std::make_move_iterator(of_file.end()));
  }
  return match_measured(rows, request);
}

// The study's own, and one at each further concurrency that is shown in detail.
std::vector<LadderOrInfeasible> climb_ladders(const ConcurrencyRequest& request, const ConcurrencyStudy& study) {
  std::vector<LadderOrInfeasible> ladders;
  if (study.ladder) ladders.push_back(*study.ladder);
  if (!request.all_kernels) return ladders;
  for (std::size_t i = 1; i < study.points.size(); ++i) {
    const auto ends = ladder_ends(request, study.points[i]);
    if (ends) ladders.push_back(ladder_between(request, study.points[i].concurrency, ends->first, ends->second));
  }
  return ladders;
}

// Of the runs whose kernels are kept, once more.
std::vector<std::vector<MemoryRate>> hear_memory(const ConcurrencyRequest& request, const ConcurrencyStudy& study) {
  std::vector<std::vector<MemoryRate>> rates;
  ConcurrencyRequest one = request;
  for (const ConcurrencyPoint& point : study.points) {
    std::vector<MemoryRate>& of_point = rates.emplace_back(point.rows.size());
    one.concurrencies = {point.concurrency};
    for (std::size_t s = 0; s < point.rows.size(); ++s) {
      const StrategyFigures* figures = point.rows[s].figures();
      if (figures == nullptr || figures->kernels.empty()) continue;
      MemoryRateMeter meter;
      predict_first(one, one.strategies[s], &meter);
      of_point[s] = meter.rate();
    }
  }
  return rates;
}

// At the first concurrency at which anything is feasible; of strategies by name, since auto is one of them.
ConcurrencyRequest first_feasible(ConcurrencyRequest request, const ConcurrencyStudy& study) {
  const auto found = std::find_if(study.points.begin(), study.points.end(), [](const ConcurrencyPoint& point) {
    return std::any_of(point.rows.begin(), point.rows.end(), [](const StrategyRow& row) { return row.figures(); });
  });
  request.concurrencies = {found->concurrency};
  std::erase_if(request.strategies, [](const StrategyChoice& choice) { return choice.strategy == nullptr; });
  if (request.strategies.empty()) {
    throw InputError({"--sensitivity", "", "--strategy auto alone", "strategies by name", ""});
  }
  return request;
}

CommandResult report(const ReportFlags& flags) {
  if (!flags.sensitivity) flags.of_sensitivity.refuse_without("--sensitivity");
  ConcurrencyRequest request = request_of(flags.request);
  request.explain = true;
  request.all_kernels = request.options.scope != Scope::kStep && request.concurrencies.size() <= kMostDetailed;
  const MeasuredPoints measured = read_measured(flags.measured, request);
  OutputFile file(flags.out, "--out");
  Progress progress;
  request.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  ConcurrencyStudy study = run_concurrency_study(request);
  if (!study.feasible()) return infeasible_result(study);
  if (flags.uncertainty) {
    add_uncertainty(request, study, [&](std::size_t done, std::size_t all) { progress.show(done, all, "error bars"); });
  }
  std::optional<SensitivityStudy> sensitivity;
  if (flags.sensitivity) {
    sensitivity = run_sensitivity_study(flags.of_sensitivity.request(
        first_feasible(request, study),
        [&](std::size_t done, std::size_t all) { progress.show(done, all, "sensitivity"); }));
  }
  std::ostringstream page;
  write_report_html({.request = request,
                     .study = study,
                     .ladders = climb_ladders(request, study),
                     .measured = measured,
                     .memory_rates = hear_memory(request, study),
                     .sensitivity = std::move(sensitivity)},
                    page);
  file.write(page.str());
  return {.output = fmt::format("{}\n", flags.out), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ReportFlags>();
  flags->request.add(set);
  set.value("--out", "FILE", flags->out, "The page: one file that needs no network");
  set.repeated("--measured", "FILE", flags->measured,
               "Measured times (JSON Lines): those of this very layer are shown");
  set.on("--uncertainty", flags->uncertainty, "Also error bars, as run --uncertainty has them");
  set.on("--sensitivity", flags->sensitivity,
         "Also what the result hangs on, at the first concurrency (takes a run per constant)");
  flags->of_sensitivity.add(set);
  return [flags] { return report(*flags); };
}

}  // namespace

constinit const Command kReportCommand = {
    "report", "What run simulates, as one HTML page with charts",
    "  moesim report --model qwen3.5-397b-a17b-fp8 --device h200 --out report.html\n"
    "  moesim report --strategy grouped_gemm,stream_gemv --concurrency 1,8 --samples 2 --uncertainty --sensitivity\n"
    "  moesim report --concurrency 1-8 --ladder grouped_gemm_persistent,stream_gemv\n"
    "  moesim report --model mixtral-8x7b --scope expert_ffn --measured measurements.jsonl",
    define};

}  // namespace moesim
