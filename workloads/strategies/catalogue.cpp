#include "workloads/strategies/catalogue.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "hwmodels/schema.h"
#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

constexpr const char* kImplementation = "implementation";

[[noreturn]] void fail_twice(const std::string& flag, const Strategy& strategy, const std::string& name) {
  throw InputError({flag, strategy.name, fmt::format("'{}' twice", name), "it once", ""});
}

}  // namespace

// In a function, so that it is there whenever it is asked for, from static initialisers too.
std::span<const Strategy> strategy_catalogue() {
  static const Strategy kAll[] = {kExpertLoop, kGroupedGemm, kGroupedGemmPersistent,
                                  kGatherGemv, kStreamGemv,  kFusedStreamGemv,
                                  kTpuGmm,     kTpuStream};
  return kAll;
}

std::optional<Infeasible> wrong_grid(const Strategy& strategy, const HardwareModel& hardware) {
  if (strategy.grid == hardware.grid) return std::nullopt;
  return Infeasible{fmt::format("made for a {} grid; {} has a {} one", grid_name(strategy.grid), hardware.name,
                                grid_name(hardware.grid))};
}

void check_parameters(const Strategy& strategy, const Parameters& parameters, const std::string& flag) {
  for (const auto& [name, value] : parameters) {
    const ParameterInfo* info = nullptr;
    std::vector<std::string> names;
    for (const ParameterInfo& p : strategy.parameters) {
      names.emplace_back(p.name);
      if (name == p.name) info = &p;
    }
    if (info == nullptr) {
      throw InputError({flag, strategy.name, fmt::format("parameter '{}'", name),
                        fmt::format("one of {}", fmt::join(names, ", ")), nearest_name(name, names)});
    }
    if (value < info->min || value > info->max) {
      throw InputError({flag, fmt::format("{}:{}", strategy.name, name), fmt::format("{}", value),
                        fmt::format("{} to {}", info->min, info->max), ""});
    }
  }
}

StrategyChoice parse_strategy(const std::string& text, const std::string& flag) {
  StrategyChoice choice;
  choice.text = text;
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> names = {"auto"};
  for (const Strategy& strategy : strategy_catalogue()) {
    names.emplace_back(strategy.name);
    if (name == strategy.name) choice.strategy = &strategy;
  }
  for (const StackProfile& stack : stack_profiles()) names.emplace_back(stack.name);
  choice.stack = find_stack(name);
  for (const Strategy& strategy : strategy_catalogue()) {
    if (choice.stack != nullptr && strategy.name == std::string_view(choice.stack->strategy))
      choice.strategy = &strategy;
  }
  if (choice.strategy == nullptr && name != "auto") {
    throw InputError({flag, "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                      nearest_name(name, names)});
  }
  if (colon == std::string::npos) return choice;
  if (choice.strategy == nullptr) {
    throw InputError({flag, "auto", fmt::format("'{}'", text.substr(colon)), "no parameters", ""});
  }
  std::size_t begin = colon + 1;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    begin = end + 1;
    if (equals != std::string::npos && part.substr(0, equals) == kImplementation) {
      if (!choice.implementation.empty()) fail_twice(flag, *choice.strategy, kImplementation);
      choice.implementation = part.substr(equals + 1);
      if (!choice.implementation.empty()) continue;
      throw InputError({flag, choice.strategy->name, fmt::format("'{}'", part), "implementation=NAME", ""});
    }
    std::int64_t value = 0;
    const char* first = part.data() + (equals == std::string::npos ? part.size() : equals + 1);
    const char* last = part.data() + part.size();
    const auto [stop, error] = std::from_chars(first, last, value);
    if (first == last || error != std::errc() || stop != last) {
      throw InputError(
          {flag, choice.strategy->name, fmt::format("'{}'", part), "NAME=WHOLE NUMBER or implementation=NAME", ""});
    }
    if (!choice.parameters.emplace(part.substr(0, equals), value).second) {
      fail_twice(flag, *choice.strategy, part.substr(0, equals));
    }
  }
  check_parameters(*choice.strategy, choice.parameters, flag);
  return choice;
}

StrategyChoice with_parameter(const StrategyChoice& choice, const std::string& parameter, std::int64_t value,
                              const std::string& flag) {
  MOESIM_CHECK(choice.strategy != nullptr);
  StrategyChoice changed = choice;
  changed.parameters[parameter] = value;
  check_parameters(*changed.strategy, changed.parameters, flag);
  std::vector<std::string> parts;
  for (const auto& [name, number] : changed.parameters) parts.push_back(fmt::format("{}={}", name, number));
  if (!changed.implementation.empty()) parts.push_back(fmt::format("{}={}", kImplementation, changed.implementation));
  changed.text = fmt::format("{}:{}", choice.text.substr(0, choice.text.find(':')), fmt::join(parts, ","));
  return changed;
}

std::string kernel_variant(const Parameters& parameters) {
  const auto persistent = parameters.find("persistent");
  return persistent != parameters.end() && persistent->second == 1 ? "persistent=1" : "";
}

}  // namespace moesim
