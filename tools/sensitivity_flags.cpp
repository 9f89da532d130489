#include "tools/sensitivity_flags.h"

#include <fmt/format.h>

#include "sim/io/input_error.h"

namespace moesim {

void SensitivityFlags::add(FlagSet& set) {
  set.value("--result", "lead|time:S|ratio:S,S", result,
            "What the effects are on: the next best's time over the winner's, a strategy's time, or a ratio of two "
            "[default: lead]");
  set.repeated("--range", "NAME=RANGE", ranges,
               "p5 and p95 of a constant so far from its value, as in hbm.latency=20% or tokens=0, or just these, as "
               "in hbm.latency=200ns..1us "
               "[default: as the device file states it, else as is usual for its kind]");
}

void SensitivityFlags::refuse_without(const std::string& flag) const {
  const char* const given = result ? "--result" : !ranges.empty() ? "--range" : nullptr;
  if (given != nullptr)
    throw InputError({given, "", fmt::format("no {}", flag), fmt::format("{} beside it", flag), ""});
}

SensitivityRequest SensitivityFlags::request(const ConcurrencyRequest& base,
                                             const std::function<void(std::size_t, std::size_t)>& progress) const {
  SensitivityRequest request{.base = base, .result = result.value_or("lead"), .ranges = {}, .progress = progress};
  for (const std::string& range : ranges) request.ranges.push_back(parse_factor_range(range));
  return request;
}

}  // namespace moesim
