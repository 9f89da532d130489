#include "validation/micro.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "hwmodels/build_machine.h"
#include "sim/engine/simulate.h"
#include "validation/micro_kernels.h"

namespace moesim {
namespace {

constexpr std::int64_t kShortChain = 1, kLongChain = 3;

ExecutionPlan chain_of(const MicroKernel& micro, std::int64_t launches) {
  PlanBuilder builder(micro.launch);
  std::optional<RegionId> read, written;
  std::optional<KernelId> before;
  for (std::int64_t i = 0; i < launches; ++i) {
    Kernel kernel = micro.kernel;
    if (micro.read > Bytes(0)) {
      if (!read || !micro.warm) read = builder.add_region("read", micro.read);
      kernel.groups[0].region = read;
    }
    if (micro.written > Bytes(0)) {
      if (!written || !micro.warm) written = builder.add_region("written", micro.written);
      kernel.groups[0].write_region = written;
    }
    const KernelId id = builder.add_kernel(std::move(kernel));
    if (before) builder.add_dependence(*before, id);
    before = id;
  }
  return builder.seal();
}

double simulate_us(const MicroKernel& micro, const HardwareModel& hardware) {
  Machine machine = build_machine(hardware);
  if (!micro.spread) machine.launch_spread = Duration(0);
  if (!micro.launched) machine.launch_graph = machine.launch_spread = Duration(0);
  if (micro.units > 0) {
    machine.ports.short_units = machine.ports.short_units * micro.units / machine.units;
    machine.units = micro.units;
  }
  const Duration shorter = simulate(chain_of(micro, kShortChain), machine).total;
  const Duration longer = simulate(chain_of(micro, kLongChain), machine).total;
  return to_microseconds(longer - shorter) / static_cast<double>((kLongChain - kShortChain) * micro.parts);
}

}  // namespace

MicroEvaluation evaluate_micro(const std::vector<MicroMeasurement>& rows, const std::string& file,
                               const HardwareModel& hardware) {
  MicroEvaluation result;
  result.device = hardware.name;
  result.device_hash = hardware.hash;
  result.measurements = file;
  std::vector<std::optional<MicroKernel>> kernels(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.rows.push_back({&rows[i], 0, ""});
    auto lowered = lower_micro(rows[i], hardware);
    if (auto* const kernel = std::get_if<MicroKernel>(&lowered)) {
      kernels[i] = std::move(*kernel);
    } else {
      result.rows[i].left_out = std::get<LeftOut>(lowered).reason;
    }
  }
  tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
    if (kernels[i]) result.rows[i].simulated_us = simulate_us(*kernels[i], hardware);
  });

  std::vector<double> all;
  std::vector<std::pair<std::string, std::vector<double>>> groups;
  for (const MicroResult& r : result.rows) {
    if (!r.left_out.empty()) {
      ++result.left_out[{r.row->benchmark, r.left_out}];
      continue;
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == r.row->benchmark; });
    if (group == groups.end()) group = groups.insert(groups.end(), {r.row->benchmark, {}});
    group->second.push_back(r.error_pct());
    all.push_back(r.error_pct());
  }
  result.overall = summarise(all);
  for (auto& [benchmark, errors] : groups) result.by_benchmark.emplace_back(benchmark, summarise(std::move(errors)));
  return result;
}

}  // namespace moesim
