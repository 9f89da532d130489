#include "sim/engine/blame_meter.h"

#include <algorithm>

namespace moesim {
namespace {

constexpr std::size_t index(Blame blame) { return static_cast<std::size_t>(blame); }

}  // namespace

void BlameMeter::resolve(const std::vector<KernelActivity>& running, const FlowTable& flows) {
  running_.clear();
  double active = 0;
  for (const KernelActivity& k : running) active += static_cast<double>(k.delayed + k.waiting);
  for (const std::uint32_t i : flows.active()) active += static_cast<double>(flows[i].items);
  idle_ = active == 0;
  if (idle_) return;
  for (const KernelActivity& k : running) {
    running_.push_back(k.kernel);
    Meter& meter = kernels_[k.kernel];
    meter.rate.fill(0);
    meter.rate[index(Blame::kDispatchFill)] = static_cast<double>(k.delayed) / active;
    meter.rate[index(Blame::kSynchronisation)] = static_cast<double>(k.waiting) / active;
    double steps = 0;  // a second
    for (const std::uint32_t i : flows.active()) {
      const FlowRecord& flow = flows[i];
      if (flow.key.kernel == k.kernel && !flow.key.ahead.alone)
        steps += static_cast<double>(flow.items) * flow.rate * flow.steps;
    }
    meter.best_steps = std::max(meter.best_steps, steps);
    const double tail = meter.tail = k.all_started && meter.best_steps > 0 ? 1 - steps / meter.best_steps : 0;
    for (const std::uint32_t i : flows.active()) {
      const FlowRecord& flow = flows[i];
      if (flow.key.kernel != k.kernel) continue;
      const double share = static_cast<double>(flow.items) / active;
      for (std::size_t b = 0; b < kBlameCount; ++b) meter.rate[b] += share * (1 - tail) * flow.blame[b];
      meter.rate[index(Blame::kTail)] += share * tail;
    }
  }
}

void BlameMeter::advance(double picoseconds, std::uint32_t launching) {
  if (idle_) {
    kernels_[launching].blame[index(Blame::kLaunch)] += picoseconds;
    return;
  }
  for (const std::uint32_t k : running_) {
    Meter& meter = kernels_[k];
    for (std::size_t b = 0; b < kBlameCount; ++b) meter.blame[b] += picoseconds * meter.rate[b];
  }
}

std::array<double, kBlameCount> BlameMeter::total(std::uint32_t kernel, bool helper) const {
  std::array<double, kBlameCount> blame = kernels_[kernel].blame;
  if (!helper) return blame;
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    if (b == index(Blame::kLaunch) || b == index(Blame::kHelper)) continue;
    blame[index(Blame::kHelper)] += blame[b];
    blame[b] = 0;
  }
  return blame;
}

}  // namespace moesim
