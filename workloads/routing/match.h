// Solves for the skew that gives a stated share of duplicate picks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "workloads/routing/routing_options.h"

namespace moesim {

struct MatchTarget {
  double duplicates = 0;    // share of picks
  std::int64_t tokens = 0;  // at this concurrency
  std::vector<RoutingKind> laws;
};

// "duplicates=5%@3", "duplicates=0.05@3,lognormal"; without a law: zipf, lognormal and dirichlet. Throws InputError
// (flag --match).
MatchTarget parse_match(const std::string& text);

// The popularities that the mean is over: those of `layers` layers of each of `seeds` seeds from `seed` on.
struct MatchScope {
  RouterShape router;
  std::int64_t layers = 1, seeds = 1;
  std::uint64_t seed = 1;
};

struct Match {
  double target = 0;          // share of duplicates that was asked for
  std::int64_t tokens = 0;    // at this concurrency
  Routing law;                // with the parameter found, rounded to four digits
  double reached = 0;         // share of duplicates with that parameter, by draws that the search did not see
  double standard_error = 0;  // of `reached`
  bool solved = false;        // else the law does not reach the target; `law` is where the search ended
};

// Bisection over the law's parameter; every step draws from the same streams. Throws InputError where options do not go
// with the law.
Match match_duplicates(RoutingKind kind, const RoutingOptions& options, const MatchTarget& target,
                       const MatchScope& scope, const std::function<void()>& step = {});

// "duplicates 5.01 +- 0.02 % at 3 tokens".
std::string match_text(const Match& match);

}  // namespace moesim
