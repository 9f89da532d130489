// What a run leaves out, and between which strategies it climbs a ladder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workloads/studies/concurrency.h"

namespace moesim {

class FlagSet;

// --without, --ladder.
struct LadderFlags {
  std::vector<std::string> without;
  std::optional<std::string> ladder;

  void add(FlagSet& flags);
  // Into the request, whose strategies are known; those of the ladder are added to them. Throws InputError.
  void apply(ConcurrencyRequest& request) const;
};

}  // namespace moesim
