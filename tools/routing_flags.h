// The flags that say how tokens are routed, of `run` and `route`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/moe_model.h"
#include "workloads/routing/match.h"

namespace moesim {

class FlagSet;
class MatchMemo;

struct ChosenRouting {
  Routing law;
  RoutingOptions options;
  std::vector<Match> matches;  // by --match: `law` is the first; the others for comparison
};

struct RoutingFlags {
  std::optional<std::string> routing, match;
  std::string groups = "none";
  std::optional<std::string> score;
  std::string bias = "0";
  std::string domains = "1", domain_purity = "1";
  bool same_domain = false;
  std::string sticky = "0";
  std::optional<std::string> sticky_prefill;
  std::string tokens_per_request = "1";
  std::string drift = "0";
  bool layers_alike = false;
  // Of studies, no flags: no progress on standard error, and matches that other points have found.
  bool quiet = false;
  std::shared_ptr<MatchMemo> memo;

  void add(FlagSet& flags);
  // --drift, --layers-alike: what only a trace of several steps and layers has.
  void add_of_traces(FlagSet& flags);
  // `model` for what --groups model and the default of --score take from it; may be nullptr. With --match its laws, or
  // only the first of them, are solved over `scope`. Throws InputError.
  [[nodiscard]] ChosenRouting choose(const MoeModel* model, const MatchScope& scope, bool all_laws) const;

 private:
  [[nodiscard]] RoutingOptions parse_options(const MoeModel* model) const;
  [[nodiscard]] MatchTarget parse_target(const std::string& text) const;
};

}  // namespace moesim
