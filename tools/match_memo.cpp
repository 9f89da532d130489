#include "tools/match_memo.h"

#include <fmt/format.h>

namespace moesim {

Match MatchMemo::find(RoutingKind law, const RoutingOptions& options, const MatchTarget& target,
                      const MatchScope& scope) {
  const std::string key =
      fmt::format("{}; {}@{}; {}/{} over {} layers of {} seeds from {}",
                  routing_name(Routing{.kind = law, .parameter = 0, .trace_file = ""}, options), target.duplicates,
                  target.tokens, scope.router.topk, scope.router.experts, scope.layers, scope.seeds, scope.seed);
  const std::lock_guard lock(mutex_);  // whoever asks for the same meanwhile waits for it
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  constexpr std::size_t kMost = 1000;  // models change slowly along a grid
  if (found_.size() >= kMost) found_.clear();
  return found_.emplace(key, match_duplicates(law, options, target, scope)).first->second;
}

}  // namespace moesim
