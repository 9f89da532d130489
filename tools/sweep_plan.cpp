#include "tools/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "hwmodels/loader.h"
#include "sim/io/content_hash.h"
#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/match_memo.h"
#include "traces/routing_formats/sidecar.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

const Axis* find_axis(const AxisGrid& grid, const std::string& name) {
  const auto found =
      std::find_if(grid.axes.begin(), grid.axes.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == grid.axes.end() ? nullptr : &*found;
}

// What a flag takes over the whole grid.
std::set<std::string> texts_of(const AxisGrid& grid, const std::string& axis_name, const std::string& otherwise) {
  const Axis* const axis = find_axis(grid, axis_name);
  if (axis == nullptr) return {otherwise};
  std::set<std::string> texts;
  for (const AxisValue& value : axis->values) texts.insert(value.text);
  return texts;
}

std::string file_hash(const std::string& path) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 33;
  return content_hash(read_text_file(path, kMostBytes));
}

constexpr const char* kTrace = "trace:";
bool reads_trace(const std::string& routing) { return routing.starts_with(kTrace); }

// "trace:FILE" or "trace:FORMAT=FILE", and the sidecar.
std::string trace_hash(const std::string& routing) {
  if (!reads_trace(routing)) return "";
  std::string path = routing.substr(std::string_view(kTrace).size());
  if (const std::size_t equals = path.find('='); !std::filesystem::exists(path) && equals != std::string::npos) {
    path = path.substr(equals + 1);
  }
  const std::string sidecar = trace_sidecar_path(path);
  return file_hash(path) + (std::filesystem::exists(sidecar) ? file_hash(sidecar) : "");
}

// All that the points are made from. An axis's text that names no file is in the grid already.
std::string request_hash(const Sweep& sweep, const RequestFlags& base) {
  constexpr char kEnd = '\n';
  std::string text = sweep.tool_version + kEnd + keep_name(sweep.grid.keep) + kEnd;
  for (const Axis& axis : sweep.grid.axes) {
    text += axis.name + kEnd;
    for (const AxisValue& value : axis.values) text += ' ' + value.text + kEnd;
  }
  for (const std::string& strategy : base.strategies) text += strategy + kEnd;
  for (const std::string& flag : sweep.flags) {
    const bool in_grid = flag.starts_with("--vary=") || flag.starts_with("--grid=") || flag.starts_with("--keep=");
    if (!in_grid) text += flag + kEnd;
  }
  for (const std::string& device : texts_of(sweep.grid, "device", base.device)) {
    const HardwareModel hardware = load_hardware(device);
    text += hardware.hash + kEnd;
    const std::optional<Calibration> known = calibration_of_device(hardware.name);
    if (known) text += known->hash + kEnd;
  }
  if (base.calibration.file) text += file_hash(*base.calibration.file) + kEnd;
  for (const std::string& model : texts_of(sweep.grid, "model", base.model)) text += model_hash(model) + kEnd;
  for (const std::string& routing : texts_of(sweep.grid, "routing", base.routing.routing.value_or("uniform"))) {
    text += trace_hash(routing) + kEnd;
  }
  return content_hash(text);
}

// Where points differ in their tokens by a flag that is no axis, it becomes one.
void add_concurrency(const RequestFlags& base, AxisGrid& grid) {
  if (find_axis(grid, "concurrency") != nullptr) {
    if (!base.concurrency) return;
    throw InputError({"--concurrency", "", "--vary concurrency too", "one of the two", ""});
  }
  const std::set<std::string> routings = texts_of(grid, "routing", base.routing.routing.value_or("uniform"));
  if (!base.concurrency && std::any_of(routings.begin(), routings.end(), reads_trace)) return;  // has its own
  std::vector<std::string> pieces;
  for (const std::int64_t tokens : parse_concurrencies(base.concurrency.value_or(kDefaultConcurrency))) {
    pieces.push_back(fmt::format("{}", tokens));
  }
  add_axis(grid, axis_of("concurrency", pieces, "--concurrency"), "--concurrency");
}

// A parameter of a strategy that no device of the grid could run varies nothing.
void check_parameters_have_devices(const RequestFlags& base, const AxisGrid& grid) {
  for (const Axis& axis : grid.axes) {
    if (axis.kind != AxisKind::kStrategyParameter) continue;
    const Strategy& strategy = *parse_strategy(axis.name.substr(0, axis.name.find('.'))).strategy;
    const std::set<std::string> devices = texts_of(grid, "device", base.device);
    const auto runs = [&](const std::string& device) { return load_hardware(device).grid == strategy.grid; };
    if (std::any_of(devices.begin(), devices.end(), runs)) continue;
    throw InputError({"--vary", axis.name, fmt::format("{} alone", fmt::join(devices, ", ")),
                      fmt::format("a device that {} is for", strategy.name), ""});
  }
}

// Values that are wrong wherever they stand, as a flag's, are wrong at all points.
void require_any_point(const AxisGrid& grid, const PointRequest& request_of) {
  std::exception_ptr first;
  for (std::size_t point = 0; point < grid.points(); ++point) {
    check_for_interrupt();
    try {
      request_of(grid.values(point));
      return;
    } catch (const InputError&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

}  // namespace

SweepPlan plan_sweep(const RequestFlags& request, const GridFlags& grid, const std::vector<std::string>& given) {
  SweepPlan plan;
  RequestFlags base = request;
  base.routing.quiet = true;
  base.routing.memo = std::make_shared<MatchMemo>();
  Sweep& sweep = plan.sweep;
  sweep.tool_version = kVersion;
  sweep.grid = grid.load(base);
  add_concurrency(base, sweep.grid);
  check_parameters_have_devices(base, sweep.grid);
  sweep.step = parse_scope(base.scope) == Scope::kStep;
  for (const std::string& flag : given) {
    const bool of_this_run =
        flag.starts_with("--out=") || flag.starts_with("--threads=") || flag.starts_with("--format=");
    if (!of_this_run) sweep.flags.push_back(flag);
  }
  plan.request_of = [base, axes = sweep.grid.axes, keep = sweep.grid.keep](const std::vector<AxisValue>& values) {
    ConcurrencyRequest point = request_of(flags_at(base, axes, values, keep));
    point.progress = [](std::size_t, std::size_t) { check_for_interrupt(); };
    return point;
  };
  sweep.request = request_hash(sweep, base);
  require_any_point(sweep.grid, plan.request_of);
  return plan;
}

}  // namespace moesim
