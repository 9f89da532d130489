// moesim strategies: all execution strategies, or one with its parameters.
#include <fmt/format.h>

#include <memory>

#include "tools/command_line.h"
#include "tools/listing.h"
#include "workloads/predict.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

struct StrategiesFlags {
  std::optional<std::string> name;
  FormatFlag format;
};

constexpr const char* kAutoSummary = "simulates all others with default parameters and takes the fastest per routing";
constexpr const char* kAutoCounterpart = "adaptive dispatch";

Listing list_strategies() {
  Listing listing;
  listing.rows_key = "strategies";
  listing.columns = {
      {"name", "name"}, {"summary", "what it is"}, {"counterpart", "real counterpart"}, {"parameters", "parameters"}};
  for (const Strategy& strategy : strategy_catalogue()) {
    std::vector<std::string> parameters;
    for (const ParameterInfo& parameter : strategy.parameters) parameters.emplace_back(parameter.name);
    listing.rows.push_back({strategy.name, strategy.summary, strategy.counterpart, parameters});
  }
  listing.rows.push_back({"auto", kAutoSummary, kAutoCounterpart, std::vector<std::string>()});
  for (const StackProfile& stack : stack_profiles()) {
    listing.rows.push_back(
        {stack.name, fmt::format("stack profile of {}", stack.strategy), stack.summary, std::vector<std::string>()});
  }
  return listing;
}

Listing show_stack(const StackProfile& stack) {
  Listing listing;
  listing.facts = {{{"stack", "stack"}, stack.name},
                   {{"summary", "what it is"}, stack.summary},
                   {{"strategy", "strategy"}, stack.strategy},
                   {{"launch", "launch"}, launch_name(stack.launch)},
                   {{"source", "source"}, stack.source}};
  listing.csv_facts = 1;
  listing.rows_key = "parameters";
  listing.columns = {
      {"tokens", "tokens"}, {"experts", "experts"}, {"topk", "top-k"}, {"parameters", "bf16 parameters"}};
  constexpr std::int64_t kExperts = 128, kTopk = 8;  // Qwen3-30B-A3B's, as an example
  for (const std::int64_t tokens : {1, 16, 64, 256, 1024}) {
    const Parameters parameters =
        stack.parameters({.experts = kExperts, .topk = kTopk, .tokens = tokens, .weights = {Dtype::kBf16, 0}});
    std::vector<std::string> texts;
    for (const auto& [name, value] : parameters) texts.push_back(fmt::format("{}={}", name, value));
    listing.rows.push_back({tokens, kExperts, kTopk, texts});
  }
  return listing;
}

Listing show_strategy(const std::string& name) {
  const Strategy* strategy = parse_strategy(name).strategy;
  Listing listing;
  listing.facts = {
      {{"strategy", "strategy"}, strategy == nullptr ? "auto" : strategy->name},
      {{"summary", "what it is"}, strategy == nullptr ? kAutoSummary : strategy->summary},
      {{"counterpart", "real counterpart"}, strategy == nullptr ? kAutoCounterpart : strategy->counterpart}};
  listing.csv_facts = 1;
  listing.rows_key = "parameters";
  listing.columns = {
      {"name", "parameter"}, {"default", "default"}, {"min", "least"}, {"max", "most"}, {"meaning", "meaning"}};
  if (strategy == nullptr) return listing;
  for (const ParameterInfo& parameter : strategy->parameters) {
    listing.rows.push_back({parameter.name, parameter.default_rule, parameter.min, parameter.max, parameter.meaning});
  }
  return listing;
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<StrategiesFlags>();
  set.positional("NAME", flags->name, "Show this strategy or stack profile and its parameters");
  flags->format.add(set);
  return [flags]() -> CommandResult {
    const OutputFormat format = flags->format.parse();
    const StackProfile* const stack = flags->name ? find_stack(*flags->name) : nullptr;
    const Listing listing = stack != nullptr ? show_stack(*stack)
                            : flags->name    ? show_strategy(*flags->name)
                                             : list_strategies();
    return {.output = render(listing, format), .complaint = ""};
  };
}

}  // namespace

constinit const Command kStrategiesCommand = {"strategies", "List the execution strategies, or show one in full",
                                              "  moesim strategies\n  moesim strategies grouped_gemm", define};

}  // namespace moesim
