#include "sim/engine/lanes.h"

#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"

namespace moesim {
namespace {

// Ends of items whose slots have long lost their step lie all over an item's time: sqrt(1 / 12) of it.
constexpr double kMostSpread = 0.2887;

}  // namespace

bool Lane::begin_pass(std::int64_t remaining) {
  if (started < whole) return false;
  whole += slots;
  refilled_in_part = started > 0 && remaining < slots;
  if (refilled_in_part) levels = RefillLevels(units, slots / units, remaining);
  return refilled_in_part;
}

Lanes lanes_of(const Machine& machine, std::int64_t slots, bool ports_matter) {
  Lanes lanes;
  const std::int64_t units = ports_matter ? machine.ports.short_units : 0, each = slots / machine.units;
  lanes[kShort].units = units;
  lanes[kShort].slots = units * each;
  lanes[kUsual].units = machine.units - units;
  lanes[kUsual].slots = slots - units * each;
  return lanes;
}

std::size_t next_lane(const Lanes& lanes) {
  const Lane &usual = lanes[kUsual], &behind_short = lanes[kShort];
  const bool emptier = behind_short.resident * usual.units < usual.resident * behind_short.units;
  const bool short_port = behind_short.resident < behind_short.slots && (usual.resident == usual.slots || emptier);
  return short_port ? kShort : kUsual;
}

double port_spread(const Machine& machine, double in_flight, std::int64_t items, std::int64_t slots) {
  const double waits = 1 - machine.ports.queue.as_double() / in_flight;
  if (waits <= 0) return 0;
  const auto behind = static_cast<double>(machine.ports.units);
  const double mean = static_cast<double>(items) / static_cast<double>(machine.units);  // of a unit
  const double taken = mean / static_cast<double>(slots), share = taken - std::floor(taken);
  return waits * std::sqrt(static_cast<double>(slots) * share * (1 - share) / behind) / mean;
}

BytesPerSecond rate_in_group(const Machine& machine, std::int64_t items) {
  const Groups& groups = machine.groups;
  if (groups.rate.value() == 0 || items >= machine.units) return {};
  const std::int64_t around = divide_up(std::max<std::int64_t>(0, items - groups.first), groups.count);
  const std::int64_t fullest = std::min(groups.most, std::min(items, groups.first) + around);
  return BytesPerSecond(groups.rate.value() / static_cast<double>(fullest));
}

double Spread::all() const { return std::min(std::hypot(rounds, ports), kMostSpread); }

double Spread::ports_share() const { return ports == 0 ? 0 : ports * ports / (rounds * rounds + ports * ports); }

}  // namespace moesim
