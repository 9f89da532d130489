// Matches found before: the points of a study often ask for the same one, and a search takes longer than a point.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "workloads/routing/match.h"

namespace moesim {

class MatchMemo {
 public:
  // What match_duplicates() finds for these; any thread.
  Match find(RoutingKind law, const RoutingOptions& options, const MatchTarget& target, const MatchScope& scope);

 private:
  std::mutex mutex_;
  std::map<std::string, Match> found_;
};

}  // namespace moesim
