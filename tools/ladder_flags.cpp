#include "tools/ladder_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/engine/effects.h"
#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"

namespace moesim {
namespace {

constexpr const char* kWithoutFlag = "--without";
constexpr const char* kLadderFlag = "--ladder";

}  // namespace

void LadderFlags::add(FlagSet& flags) {
  std::vector<std::string_view> names;
  for (const Effect effect : all_effects()) names.push_back(effect_name(effect));
  flags.repeated(kWithoutFlag, "LIST", without,
                 fmt::format("Effects left out, to see what they cost: of {}", fmt::join(names, ", ")));
  flags.value(kLadderFlag, "FROM,TO", ladder,
              "Why the one strategy is faster than the other, effect by effect, at the first concurrency [default: of "
              "--explain, the two fastest]");
}

void LadderFlags::apply(ConcurrencyRequest& request) const {
  for (const std::string& list : without) {
    for (const std::string& name : split_list(kWithoutFlag, list)) {
      request.options.simulate.without.add(parse_effect(kWithoutFlag, name));
    }
  }
  if (!ladder) return;
  const std::vector<StrategyChoice> ends = parse_strategies({*ladder}, request.hardware.grid, kLadderFlag);
  const bool has_auto = std::any_of(ends.begin(), ends.end(), [](const auto& end) { return end.strategy == nullptr; });
  if (ends.size() != 2 || has_auto) {
    throw InputError({kLadderFlag, "", fmt::format("'{}'", *ladder),
                      "two strategies, neither of them auto, as in grouped_gemm_persistent,stream_gemv", ""});
  }
  request.ladder = {ends[0], ends[1]};
  for (const StrategyChoice& end : ends) {
    const auto same = [&](const StrategyChoice& choice) { return choice.text == end.text; };
    if (std::none_of(request.strategies.begin(), request.strategies.end(), same)) request.strategies.push_back(end);
  }
}

}  // namespace moesim
