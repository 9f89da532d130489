// The study as one JSON object. Times stand in microseconds and, exactly, in picoseconds; shares are of 1.
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/views/catalogue.h"
#include "traces/views/ladder_views.h"
#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"
#include "traces/views/step_table.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTera = 1e12;

Json attribution_shares(const StrategyFigures& figures) {
  Json shares = Json::object();
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    const auto blame = static_cast<Blame>(b);
    shares[std::string(blame_key(blame))] = six_digits(figures.share(blame));
  }
  return shares;
}

Json attribution_ps(const Attribution& attribution) {
  Json amounts = Json::object();
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    amounts[std::string(blame_key(static_cast<Blame>(b)))] = attribution[b].value();
  }
  return amounts;
}

Json kernel_json(const KernelSummary& kernel) {
  const KernelResult& result = kernel.result;
  return {{"name", kernel.name},
          {"stage", kernel.stage},
          {"launch_ps", result.launch.value()},
          {"start_ps", result.start.value()},
          {"end_ps", result.end.value()},
          {"items", result.items},
          {"slots", result.slots},
          {"waves", (result.items + result.slots - 1) / result.slots},
          {"memory_read_bytes", result.memory_read.value()},
          {"memory_reread_bytes", result.memory_reread.value()},
          {"cache_read_bytes", result.cache_read.value()},
          {"written_bytes", result.written.value()},
          {"limited_by", blame_key(largest(result.attribution))},
          {"attribution_ps", attribution_ps(result.attribution)}};
}

Json step_json(const ConcurrencyPoint& point, const StrategyFigures& figures) {
  Json shares = Json::object(), amounts = Json::object();
  for (std::size_t p = 0; p < kStepPartCount; ++p) {
    const auto part = static_cast<StepPart>(p);
    shares[std::string(step_part_key(part))] = six_digits(figures.part_share(part));
    amounts[std::string(step_part_key(part))] = figures.parts[p].value();
  }
  const double rate = tokens_per_second(figures);
  return {{"tokens_per_s_per_sequence", six_digits(rate)},
          {"tokens_per_s", six_digits(rate * static_cast<double>(point.concurrency))},
          {"moe_share", six_digits(figures.moe_share())},
          {"parts", shares},
          {"parts_ps_sum", amounts}};
}

Json row_json(const ConcurrencyPoint& point, const StrategyRow& row, bool step) {
  Json json = {{"concurrency", point.concurrency},
               {"strategy", row.strategy},
               {"feasible", row.figures() != nullptr},
               {"winner", row.winner},
               {"implementation", row.implementation.empty() ? Json(nullptr) : Json(row.implementation)},
               {"in_calibrated_range", row.in_range}};
  if (const auto* infeasible = std::get_if<Infeasible>(&row.result)) json["reason"] = infeasible->reason;
  const StrategyFigures* figures = row.figures();
  if (figures != nullptr) {
    json["time_us_median"] = to_microseconds(figures->time_median);
    json["time_us_p95"] = to_microseconds(figures->time_p95);
    json["time_ps_median"] = figures->time_median.value();
    json["time_ps_p95"] = figures->time_p95.value();
    json["time_ps_sum"] = figures->time_sum.value();
  }
  json["bound_us_median"] = to_microseconds(point.bound_median);
  json["bound_ps_median"] = point.bound_median.value();
  json["bound_by"] = point.matrix_bound ? "matrix" : "memory";
  if (figures != nullptr) json["bound_fraction_median"] = six_digits(figures->bound_fraction_median);
  json["distinct_experts_mean"] = six_digits(point.distinct_experts);
  json["duplicate_share_mean"] = six_digits(point.duplicate_share);
  json["rows_per_expert_mean"] = six_digits(point.rows_per_expert);
  if (figures == nullptr) return json;
  json["memory_read_bytes_mean"] = std::llround(figures->memory_read_mean);
  json["memory_reread_bytes_mean"] = std::llround(figures->memory_reread_mean);
  json["achieved_tb_per_s"] = six_digits(figures->achieved_rate / kTera);
  if (step) json["step"] = step_json(point, *figures);
  json["limited_by"] = blame_key(largest(figures->attribution));
  json["attribution"] = attribution_shares(*figures);
  json["attribution_ps_sum"] = attribution_ps(figures->attribution);
  if (!figures->picked.empty()) json["picked_samples"] = figures->picked;
  if (!figures->kernels.empty()) {
    Json& kernels = json["kernels_first_sample"] = Json::array();
    for (const KernelSummary& kernel : figures->kernels) {
      if (kernel.result.items > 0) kernels.push_back(kernel_json(kernel));  // else left out
    }
  }
  return json;
}

Json verdict_json(const Verdict& verdict) {
  Json json = {{"concurrency_from", verdict.from}, {"concurrency_to", verdict.to}};
  json["winner"] = verdict.winner.empty() ? Json(nullptr) : Json(verdict.winner);
  json["next_best"] = verdict.next_best;
  if (!verdict.next_best.empty()) {
    json["lead_min"] = six_digits(verdict.lead_min);
    json["lead_max"] = six_digits(verdict.lead_max);
  }
  return json;
}

}  // namespace

void write_concurrency_json(const ConcurrencyStudy& study, std::ostream& out) {
  const Provenance& p = study.provenance;
  Json json = {{"schema", "moesim.concurrency_study/1"}};
  json.update(provenance_json(p));
  Json& rows = json["rows"] = Json::array();
  for (const ConcurrencyPoint& point : study.points) {
    for (const StrategyRow& row : point.rows) rows.push_back(row_json(point, row, p.step.has_value()));
  }
  Json& verdicts = json["verdict"] = Json::array();
  for (const Verdict& verdict : study.verdicts) verdicts.push_back(verdict_json(verdict));
  if (study.ladder) json["ladder"] = ladder_json(*study.ladder);
  constexpr int kIndent = 2;
  out << json.dump(kIndent) << '\n';
}

}  // namespace moesim
