#include "traces/views/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "traces/views/concurrency_text.h"
#include "traces/views/ladder_views.h"
#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"
#include "traces/views/report_inputs.h"
#include "traces/views/sensitivity_views.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e12;
constexpr double kRateSteps = 1000;  // of a TB/s, in the curve of the memory's rate
// Of one strategy at one concurrency: a page should open at once. Of more the first are shown, and the page says so.
constexpr std::size_t kMostKernels = 2000;

Json verdicts_json(const ConcurrencyStudy& study) {
  Json list = Json::array();
  for (const Verdict& verdict : study.verdicts) {
    Json json = {{"from", verdict.from},
                 {"to", verdict.to},
                 {"winner", verdict.winner.empty() ? Json(nullptr) : Json(verdict.winner)},
                 {"next_best", verdict.next_best},
                 {"sentence", verdict_sentence(verdict)}};
    if (!verdict.next_best.empty()) {
      json["lead_min"] = six_digits(verdict.lead_min);
      json["lead_max"] = six_digits(verdict.lead_max);
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json amounts(const Attribution& attribution) {
  Json list = Json::array();
  for (const Duration d : attribution) list.push_back(d.value());
  return list;
}

Json kernels_json(const std::vector<KernelSummary>& kernels) {
  Json rows = Json::array();
  for (std::size_t k = 0; k < std::min(kernels.size(), kMostKernels); ++k) {
    const KernelResult& result = kernels[k].result;
    const Blame limit = largest(result.attribution);
    const Duration time = sum(result.attribution);
    const double share =
        time.value() == 0 ? 0 : result.attribution[static_cast<std::size_t>(limit)].as_double() / time.as_double();
    rows.push_back({kernels[k].name, kernels[k].stage, result.launch.value(), result.start.value(), result.end.value(),
                    result.items, result.slots, result.memory_read.value(), result.cache_read.value(),
                    static_cast<std::size_t>(limit), six_digits(share)});
  }
  return {{"count", kernels.size()},
          {"columns",
           {"name", "stage", "launch_ps", "start_ps", "end_ps", "items", "slots", "memory_read_bytes",
            "cache_read_bytes", "limited_by", "limited_share"}},
          {"rows", rows}};
}

Json row_json(const StrategyRow& row, std::size_t strategy, bool step) {
  Json json = {{"strategy", strategy},
               {"winner", row.winner},
               {"implementation", row.implementation.empty() ? Json(nullptr) : Json(row.implementation)},
               {"in_calibrated_range", row.in_range}};
  const StrategyFigures* figures = row.figures();
  if (figures == nullptr) {
    json["reason"] = std::get<Infeasible>(row.result).reason;
    return json;
  }
  json["median_ps"] = figures->time_median.value();
  json["p95_ps"] = figures->time_p95.value();
  json["sum_ps"] = figures->time_sum.value();
  if (row.interval) {
    const ErrorInterval& error = row.interval->error;
    json["interval"] = {{"low_ps", row.interval->low.value()},
                        {"high_ps", row.interval->high.value()},
                        {"half_width_pct", six_digits(error.half_width_pct())},
                        {"basis", error_basis_name(error.basis)},
                        {"fastest", row.interval->fastest ? Json(six_digits(*row.interval->fastest)) : Json(nullptr)}};
  }
  json["bound_fraction"] = six_digits(figures->bound_fraction_median);
  json["memory_read_bytes"] = std::llround(figures->memory_read_mean);
  json["memory_reread_bytes"] = std::llround(figures->memory_reread_mean);
  json["achieved_tb_per_s"] = six_digits(figures->achieved_rate / kTera);
  json["attribution_ps_sum"] = amounts(figures->attribution);
  if (step) {
    Json parts = Json::array();
    for (const Duration d : figures->parts) parts.push_back(d.value());
    json["parts_ps_sum"] = parts;
    json["tokens_per_s_per_sequence"] = six_digits(tokens_per_second(*figures));
  }
  if (!figures->picked.empty()) json["picked_samples"] = figures->picked;
  if (!figures->kernels.empty()) json["kernels"] = kernels_json(figures->kernels);
  return json;
}

Json rate_json(const MemoryRate& rate) {
  Json values = Json::array();
  for (const double value : rate.bytes_per_second)
    values.push_back(std::round(value / kTera * kRateSteps) / kRateSteps);
  return {
      {"step_ps", rate.step.value()}, {"peak_tb_per_s", six_digits(rate.peak.value() / kTera)}, {"tb_per_s", values}};
}

Json point_json(const ConcurrencyPoint& point, const std::vector<MemoryRate>& rates, bool step) {
  Json histogram = Json::array();
  for (const auto& [rows, experts] : point.experts_by_rows) histogram.push_back({rows, experts});
  Json rows = Json::array();
  for (std::size_t s = 0; s < point.rows.size(); ++s) {
    rows.push_back(row_json(point.rows[s], s, step));
    if (s < rates.size() && !rates[s].bytes_per_second.empty()) rows.back()["memory_rate"] = rate_json(rates[s]);
  }
  return {{"concurrency", point.concurrency},
          {"bound_ps", point.bound_median.value()},
          {"bound_by", point.matrix_bound ? "matrix" : "memory"},
          {"distinct_experts", six_digits(point.distinct_experts)},
          {"duplicate_share", six_digits(point.duplicate_share)},
          {"rows_per_expert", six_digits(point.rows_per_expert)},
          {"experts_by_rows", histogram},
          {"rows", rows}};
}

Json rungs_json(const std::vector<LadderRung>& rungs) {
  Json list = Json::array();
  for (const LadderRung& rung : rungs) {
    list.push_back({{"effect", rung.effect},
                    {"title", ladder_title(rung)},
                    {"slower_ps", rung.slower.value()},
                    {"faster_ps", rung.faster.value()}});
  }
  return list;
}

Json ladders_json(const std::vector<LadderOrInfeasible>& ladders) {
  Json list = Json::array();
  for (const LadderOrInfeasible& result : ladders) {
    if (const auto* infeasible = std::get_if<Infeasible>(&result)) {
      list.push_back({{"reason", infeasible->reason}});
      continue;
    }
    const auto& ladder = std::get<Ladder>(result);
    list.push_back({{"concurrency", ladder.concurrency},
                    {"slower", ladder.slower},
                    {"faster", ladder.faster},
                    {"slower_ps", ladder.slower_time.value()},
                    {"faster_ps", ladder.faster_time.value()},
                    {"rungs", rungs_json(ladder.rungs)},
                    {"reverse_rungs", rungs_json(ladder.reverse_rungs)}});
  }
  return list;
}

Json measured_json(const MeasuredPoints& measured) {
  Json points = Json::array(), left_out = Json::array();
  for (const auto& [row, strategy] : measured.points) {
    points.push_back({{"strategy", strategy},
                      {"implementation", row.implementation},
                      {"concurrency", row.tokens},
                      {"us", row.us},
                      {"p90_us", row.p90_us ? Json(*row.p90_us) : Json(nullptr)},
                      {"power_capped", row.power_capped},
                      {"source", row.source},
                      {"place", fmt::format("{}:{}", row.file, row.line)}});
  }
  for (const auto& [reason, rows] : measured.left_out) left_out.push_back({{"reason", reason}, {"rows", rows}});
  return {{"files", measured.files}, {"points", points}, {"left_out", left_out}};
}

// How wrong the constants of each strategy were on models left out of their fit.
Json accuracy_json(const ConcurrencyRequest& request, const Provenance& p) {
  Json list = Json::array();
  for (const StrategyConstants& constants : p.constants) {
    Json json = {{"strategy", constants.strategy}};
    if (constants.implementation.empty()) {
      json["implementation"] = nullptr;
    } else {
      const Implementation* implementation = request.calibration->find(constants.implementation, p.weights);
      json["implementation"] = constants.implementation;
      json["most_tokens"] = constants.most_tokens;
      if (implementation != nullptr && !implementation->no_fit.empty()) json["no_fit"] = implementation->no_fit;
      json["rows"] = constants.held_out.rows;
      json["median_abs_pct"] = constants.held_out.median;
      json["p95_abs_pct"] = constants.held_out.p95;
      json["bias_pct"] = constants.held_out.bias;
      json["by_band"] = Json::array();
      for (std::size_t b = 0; implementation != nullptr && b < kTokenBands.size(); ++b) {
        const HeldOutError& error = implementation->held_out_by_band[b];
        if (error.rows == 0) continue;
        json["by_band"].push_back({{"tokens", kTokenBands[b]},
                                   {"rows", error.rows},
                                   {"median_abs_pct", error.median},
                                   {"p95_abs_pct", error.p95},
                                   {"bias_pct", error.bias}});
      }
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json names_of_effects() {
  Json list = Json::array();
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    const auto blame = static_cast<Blame>(b);
    list.push_back({{"key", blame_key(blame)}, {"name", blame_name(blame)}});
  }
  return list;
}

Json names_of_parts() {
  Json list = Json::array();
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    const auto part = static_cast<StepPart>(i);
    list.push_back({{"key", step_part_key(part)}, {"name", step_part_name(part)}});
  }
  return list;
}

}  // namespace

std::string report_data(const Report& report) {
  const ConcurrencyStudy& study = report.study;
  const Provenance& p = study.provenance;
  Json json = {{"schema", "moesim.report/1"},
               {"what", subject_text(p)},
               {"scope", p.scope},
               {"samples", p.samples},
               {"tp", p.tp},
               {"ep", p.ep},
               {"calibrated", calibrated(study)},
               {"headline", headline(study.verdicts)},
               {"verdicts", verdicts_json(study)},
               {"effects", names_of_effects()},
               {"parts", p.step ? names_of_parts() : Json::array()}};
  json.update(page_head_json(p));
  Json& strategies = json["strategies"] = Json::array();
  for (const StrategyRow& row : study.points.front().rows) strategies.push_back(row.strategy);
  Json& points = json["points"] = Json::array();
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const bool known = i < report.memory_rates.size();
    points.push_back(
        point_json(study.points[i], known ? report.memory_rates[i] : std::vector<MemoryRate>(), p.step.has_value()));
  }
  json["ladders"] = ladders_json(report.ladders);
  json["measured"] = measured_json(report.measured);
  json["uncertainty"] = uncertainty_notes(study);
  json["sensitivity"] = report.sensitivity ? sensitivity_json(*report.sensitivity) : Json(nullptr);
  json["accuracy"] = accuracy_json(report.request, p);
  json["inputs"] = report_inputs(report.request, p);
  constexpr int kOneLine = -1;
  return json.dump(kOneLine, ' ', false, Json::error_handler_t::replace);  // a file's name may be no UTF-8
}

}  // namespace moesim
