#include "tools/grid_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "tools/command_line.h"
#include "workloads/model_overrides.h"

namespace moesim {
namespace {

constexpr const char* kExperts = "experts";
constexpr const char* kTopk = "topk";
constexpr const char* kIntermediate = "intermediate";

// Flags hold a default, nothing, or a list.
void assign(std::string& flag, const std::string& text) { flag = text; }
void assign(std::optional<std::string>& flag, const std::string& text) { flag = text; }
void assign(std::vector<std::string>& flag, const std::string& text) { flag = {text}; }

void apply_flag(const std::string& name, const std::string& text, RequestFlags& flags) {
  const auto is = [&](const char* known, auto& flag) {
    if (name != known) return false;
    assign(flag, text);
    return true;
  };
  RoutingFlags& routing = flags.routing;
  const bool applied = is("model", flags.model) || is("device", flags.device) || is("concurrency", flags.concurrency) ||
                       is("strategy", flags.strategies) || is("routing", routing.routing) ||
                       is("match", routing.match) || is("tokens_per_request", routing.tokens_per_request) ||
                       is("domains", routing.domains) || is("weights", flags.weights) ||
                       is("other_weights", flags.other_weights) || is("activations", flags.activations) ||
                       is("tp", flags.tp) || is("ep", flags.ep) || is("launch", flags.launch) ||
                       is("clock", flags.clock) || is("context", flags.context) || is("kv_dtype", flags.kv_dtype) ||
                       is("samples", flags.samples) || is("seed", flags.seed);
  MOESIM_CHECK(applied);
}

// What the point states of the experts' sizes, and what follows from it.
void keep_size(const RequestFlags& before, const std::vector<Axis>& axes, const std::vector<AxisValue>& values,
               Keep keep, RequestFlags& flags) {
  VariedShape varied;
  std::vector<std::string> fixed = before.model_flags.overrides;  // and all axes but those of the sizes
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind != AxisKind::kModelField) continue;
    std::optional<std::int64_t>* const size = axes[i].name == kExperts        ? &varied.experts
                                              : axes[i].name == kTopk         ? &varied.topk
                                              : axes[i].name == kIntermediate ? &varied.intermediate
                                                                              : nullptr;
    if (size != nullptr) {
      *size = std::llround(*values[i].number);
    } else {
      ModelOverrides::set(fixed, axes[i].name, values[i].text);
    }
  }
  const MoeModel base = ModelFlags{.overrides = fixed}.load(flags.model);
  const auto shape = rescale({base.experts, base.topk, base.expert_intermediate}, varied, keep);
  if (const auto* why = std::get_if<std::string>(&shape)) {
    throw InputError({"--keep", "", *why, "sizes that keep it", ""});
  }
  const auto& kept = std::get<ExpertShape>(shape);
  std::vector<std::string>& overrides = flags.model_flags.overrides;
  overrides = fixed;
  // In some families the width of shared experts follows that of the routed ones.
  if (base.shared_intermediate > 0) {
    ModelOverrides::set(overrides, "shared_intermediate", fmt::format("{}", base.shared_intermediate));
  }
  ModelOverrides::set(overrides, kExperts, fmt::format("{}", kept.experts));
  ModelOverrides::set(overrides, kTopk, fmt::format("{}", kept.topk));
  ModelOverrides::set(overrides, kIntermediate, fmt::format("{}", kept.intermediate));
}

void check_keep(const AxisGrid& grid) {
  const auto varied = [&](const char* name) {
    return std::any_of(grid.axes.begin(), grid.axes.end(), [&](const Axis& axis) { return axis.name == name; });
  };
  const std::optional<std::string> why = cannot_keep(varied(kExperts), varied(kTopk), varied(kIntermediate), grid.keep);
  if (!why) return;
  throw InputError({"--keep", "", fmt::format("{}, where {}", keep_name(grid.keep), *why),
                    "axes that leave a size to be rescaled (see workloads/README.md)", ""});
}

}  // namespace

void GridFlags::add(FlagSet& set) {
  set.repeated("--vary", "AXIS=LIST", vary,
               "An axis of the grid: a flag of `run` (concurrency=1-8,16), a field of --model-override "
               "(experts=64,128,256), a path of --set (hbm.bandwidth=3..8TB/s:6, or 6:geometric) or "
               "STRATEGY.PARAMETER; the last axis varies fastest");
  set.value("--grid", "FILE", grid, "Axes, strategies and what is kept, as JSON (moesim.grid/1)");
  set.value(
      "--keep", "active|total|both", keep,
      "Rescale experts, topk or intermediate, where not varied, so that a layer's parameters stay what they were");
}

AxisGrid GridFlags::load(RequestFlags& base) const {
  AxisGrid loaded;
  if (grid) loaded = load_grid(*grid);
  for (const std::string& text : vary) add_axis(loaded, parse_axis(text), "--vary");
  if (keep) loaded.keep = parse_keep(*keep);
  if (base.strategies.empty()) base.strategies = loaded.strategies;
  check_keep(loaded);
  return loaded;
}

void apply_axis(const Axis& axis, const AxisValue& value, RequestFlags& flags) {
  switch (axis.kind) {
    case AxisKind::kFlag:
      apply_flag(axis.name, value.text, flags);
      return;
    case AxisKind::kModelField:
      ModelOverrides::set(flags.model_flags.overrides, axis.name, value.text);
      return;
    case AxisKind::kDeviceNumber:
      flags.hardware.overrides.push_back(fmt::format("{}={}", axis.name, value.text));  // the last one holds
      return;
    case AxisKind::kStrategyParameter:
      flags.parameters.push_back(fmt::format("{}={}", axis.name, value.text));
      return;
  }
}

RequestFlags flags_at(const RequestFlags& base, const std::vector<Axis>& axes, const std::vector<AxisValue>& values,
                      Keep keep) {
  MOESIM_CHECK(axes.size() == values.size());
  RequestFlags flags = base;
  for (std::size_t i = 0; i < axes.size(); ++i) apply_axis(axes[i], values[i], flags);
  if (keep != Keep::kNothing) keep_size(base, axes, values, keep, flags);
  return flags;
}

}  // namespace moesim
