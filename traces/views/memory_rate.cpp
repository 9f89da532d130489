#include "traces/views/memory_rate.h"

#include <algorithm>

namespace moesim {
namespace {

constexpr Duration kFirstStep{10'000};  // 10 ns

}  // namespace

void MemoryRateMeter::on_start(const ExecutionPlan& /*plan*/, const Machine& machine) {
  channel_ = machine.channels.size() - 1;
  peak_ = machine.channels[channel_].peak;
  step_ = kFirstStep;
  end_ = TimePoint();
  bytes_.clear();
}

void MemoryRateMeter::on_span(const Span& /*span*/) {}
void MemoryRateMeter::on_end(const SimulationResult& /*result*/) {}

void MemoryRateMeter::on_load(const MachineLoad& load) {
  end_ = load.to;
  while (load.to.value() > static_cast<std::int64_t>(kMostSteps) * step_.value()) {
    step_ += step_;
    for (std::size_t i = 0; i < bytes_.size(); i += 2) {
      bytes_[i / 2] = bytes_[i] + (i + 1 < bytes_.size() ? bytes_[i + 1] : 0);
    }
    bytes_.resize((bytes_.size() + 1) / 2);
  }
  for (std::int64_t at = load.from.value(); at < load.to.value();) {
    const auto index = static_cast<std::size_t>(at / step_.value());
    const std::int64_t until = std::min(load.to.value(), static_cast<std::int64_t>(index + 1) * step_.value());
    if (index >= bytes_.size()) bytes_.resize(index + 1);
    bytes_[index] += load.rate[channel_] * to_seconds(Duration(until - at));
    at = until;
  }
}

MemoryRate MemoryRateMeter::rate() const {
  MemoryRate rate{.step = step_, .bytes_per_second = bytes_, .peak = peak_};
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * step_.value();
    rate.bytes_per_second[i] /= to_seconds(Duration(std::min(step_.value(), end_.value() - begin)));
  }
  return rate;
}

}  // namespace moesim
