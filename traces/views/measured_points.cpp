#include "traces/views/measured_points.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {
namespace {

bool is_of_device(const MoeMeasurement& row, const HardwareModel& hardware) {
  return row.device == hardware.name ||
         std::find(hardware.aliases.begin(), hardware.aliases.end(), row.device) != hardware.aliases.end();
}

bool is_of_model(const MoeMeasurement& row, const MoeModel& model) {
  return row.hidden == model.hidden && row.intermediate == model.expert_intermediate && row.experts == model.experts &&
         row.topk == model.topk && row.gated == model.gated && model.latent == 0 && model.zero_experts == 0;
}

// "": the row can stand beside the study.
std::string other(const MoeMeasurement& row, const ConcurrencyRequest& request) {
  if (!is_of_device(row, request.hardware)) return "of another device";
  if (!is_of_model(row, request.model)) return "of a model of other sizes";
  if (row.stage != "total") return "of one stage";
  if (row.tp != request.tp || row.ep != request.ep) return fmt::format("of tp {} x ep {}", row.tp, row.ep);
  if (row.weights != format_name(request.model.expert_weights)) return fmt::format("of {} weights", row.weights);
  if (row.activations != format_name(request.activations)) return fmt::format("of {} activations", row.activations);
  if (row.scope != scope_name(request.options.scope)) return fmt::format("of scope {}", row.scope);
  if (row.launch != launch_name(request.options.launch)) return fmt::format("of launch {}", row.launch);
  if (row.routing != routing_name(request.routing)) return fmt::format("of {} routing", row.routing);
  if (row.warm) return "with weights in the cache";
  if (row.tokens < request.concurrencies.front() || row.tokens > request.concurrencies.back()) {
    return "of other concurrencies";
  }
  return "";
}

bool can_be_of(const MoeMeasurement& row, const StrategyChoice& choice) {
  return choice.strategy != nullptr && row.strategy == choice.strategy->name &&
         (choice.implementation.empty() || choice.implementation == row.implementation);
}

}  // namespace

MeasuredPoints match_measured(const std::vector<MoeMeasurement>& rows, const ConcurrencyRequest& request) {
  MeasuredPoints points;
  for (const MoeMeasurement& row : rows) {
    if (std::find(points.files.begin(), points.files.end(), row.file) == points.files.end()) {
      points.files.push_back(row.file);
    }
    const std::string reason = other(row, request);
    const auto choice = std::find_if(request.strategies.begin(), request.strategies.end(),
                                     [&](const StrategyChoice& c) { return can_be_of(row, c); });
    if (!reason.empty()) {
      ++points.left_out[reason];
    } else if (choice == request.strategies.end()) {
      ++points.left_out["of strategies that were not asked for"];
    } else {
      points.points.push_back({row, static_cast<std::size_t>(choice - request.strategies.begin())});
    }
  }
  return points;
}

}  // namespace moesim
