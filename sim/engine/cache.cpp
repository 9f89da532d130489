#include "sim/engine/cache.h"

#include <algorithm>
#include <cmath>

namespace moesim {

int CacheState::miss_steps(std::size_t region, double fraction) const {
  const Mark& mark = marks_[region];
  if (!mark.known) return kShareSteps;
  const auto since = [&](double Position::*counter) {
    return position_.*counter - std::lerp(mark.begin.*counter, mark.end.*counter, fraction);
  };
  double distance = since(&Position::booked);
  if (mark.last_read) distance = std::min(distance, since(&Position::delivered));
  const double ramp = kRampShare * capacity_;
  const double miss = std::clamp((distance - (capacity_ - ramp)) / (2 * ramp), 0.0, 1.0);
  return static_cast<int>(std::lround(miss * kShareSteps));
}

CacheHierarchy::CacheHierarchy(const Machine& machine, std::size_t regions) {
  for (const CacheLevel& level : machine.caches) levels_.emplace_back(level.useful_capacity, regions);
}

CacheHierarchy::Read CacheHierarchy::read(std::size_t region, double fraction, double may_miss, EffectSet without) {
  Read read;
  read.from_memory = may_miss;
  for (std::size_t j = 0; j < levels_.size(); ++j) {
    CacheState& level = levels_[j];
    read.reread = read.reread || level.was_read(region);
    const bool kept = (without.has(Effect::kRereads) && level.was_read(region)) ||
                      (without.has(Effect::kCopies) && level.was_written(region));
    const int misses = kept ? 0 : level.miss_steps(region, fraction);
    read.misses[j] = static_cast<std::int8_t>(misses);
    read.from_memory *= static_cast<double>(misses) / CacheState::kShareSteps;
    level.insert(read.from_memory);
  }
  return read;
}

void CacheHierarchy::write(double bytes) {
  for (CacheState& level : levels_) level.insert(bytes);
}

void CacheHierarchy::deliver(const ChannelArray& bytes) {
  for (std::size_t j = 0; j < levels_.size(); ++j) levels_[j].deliver(bytes[j]);
}

CacheHierarchy::Positions CacheHierarchy::positions() const {
  Positions now{};
  for (std::size_t j = 0; j < levels_.size(); ++j) now[j] = levels_[j].position();
  return now;
}

void CacheHierarchy::mark(std::size_t region, const Positions& begin, bool read) {
  for (std::size_t j = 0; j < levels_.size(); ++j) levels_[j].mark(region, begin[j], levels_[j].position(), read);
}

}  // namespace moesim
