#include "workloads/step/collectives.h"

#include <fmt/format.h>

#include "hwmodels/schema.h"

namespace moesim {
namespace {

constexpr double kScaledFp8Bytes = 1 + 4.0 / 128;  // a float32 scale per 128

void add_collective(StepChain& chain, const char* name, std::int64_t devices, Hw latency, Hw fraction, double bytes) {
  if (devices == 1) return;
  const Device& device = chain.device();
  const double others = static_cast<double>(devices - 1) / static_cast<double>(devices);
  const double rate = device.constant(Hw::kLinkBandwidth) * device.constant(fraction);
  Kernel kernel;
  kernel.name = name;
  kernel.helper = true;
  ItemClass item;
  item.prologue_after = duration_from_seconds(device.constant(latency) + others * bytes / rate);
  kernel.classes = {item};
  ItemGroup group;
  group.count = 1;
  kernel.groups = {group};
  chain.add(StepPart::kCollectives, std::move(kernel), {kHelperThreads, 32, 0});
}

double token_values(const StepChain& chain, std::int64_t values) {
  return static_cast<double>(chain.step().tokens()) * static_cast<double>(values);
}

void add_reduction(StepChain& chain, const char* name, double bytes) {
  add_collective(chain, name, chain.step().tp, Hw::kLinkReduceLatency, Hw::kLinkReduceFraction, bytes);
}

void add_exchange(StepChain& chain, const char* name, double value_bytes) {
  const MoeModel& model = chain.step().model;
  add_collective(chain, name, chain.step().ep, Hw::kLinkExchangeLatency, Hw::kLinkExchangeFraction,
                 value_bytes * token_values(chain, model.topk * (model.latent > 0 ? model.latent : model.hidden)));
}

}  // namespace

std::optional<Infeasible> link_shortage(const DecodeStep& step, const HardwareModel& hardware) {
  std::vector<Hw> needed;
  if (step.tp > 1) needed = {Hw::kLinkBandwidth, Hw::kLinkReduceLatency, Hw::kLinkReduceFraction};
  if (step.ep > 1) {
    needed.insert(needed.end(), {Hw::kLinkBandwidth, Hw::kLinkExchangeLatency, Hw::kLinkExchangeFraction});
  }
  for (const Hw id : needed) {
    if (!hardware.has(id)) return Infeasible{fmt::format("no {} in the file of {}", hw_entry(id).path, hardware.name)};
  }
  return std::nullopt;
}

void add_all_reduce(StepChain& chain) {
  add_reduction(chain, "all_reduce", 2 * kBytes16 * token_values(chain, chain.step().model.hidden));
}

void add_logits_gather(StepChain& chain) {
  const DecodeStep& step = chain.step();
  add_reduction(chain, "gather_logits",
                kBytes16 * static_cast<double>(step.sampled()) * static_cast<double>(step.model.vocabulary));
}

void add_dispatch(StepChain& chain) {
  const bool narrow = payload_bits(chain.step().activations) < 16;
  add_exchange(chain, "dispatch", narrow ? kScaledFp8Bytes : kBytes16);
}

void add_exchange_back(StepChain& chain) { add_exchange(chain, "exchange_back", kBytes16); }

}  // namespace moesim
