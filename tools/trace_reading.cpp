#include "tools/trace_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr std::size_t kMostNamed = 12;  // layers or token counts in an error

std::string some_of(const std::vector<std::string>& texts) {
  const std::size_t shown = std::min(texts.size(), kMostNamed);
  return fmt::format("{}{}", fmt::join(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < texts.size() ? ", ..." : "");
}

}  // namespace

RoutedTrace load_layers(const std::string& file, const TraceHints& hints, const std::optional<std::int64_t>& layer,
                        const std::string& flag) {
  RoutedTrace trace = load_routed_trace(file, hints);
  if (!layer) return trace;
  if (std::find(trace.layers.begin(), trace.layers.end(), *layer) != trace.layers.end()) {
    return only_layer(std::move(trace), *layer);
  }
  std::vector<std::string> names;
  for (const std::int64_t id : trace.layers) names.push_back(fmt::format("{}", id));
  throw InputError({flag, "", fmt::format("{}", *layer), fmt::format("a layer of {}: {}", file, some_of(names)), ""});
}

std::vector<RoutedBatch> batches_of(RoutedTrace trace, const std::optional<std::int64_t>& tokens) {
  std::map<std::int64_t, std::int64_t> steps;  // by tokens
  for (const TraceStep& step : trace.steps) ++steps[step.layers.front().tokens];
  if (steps.size() == 1) return all_batches(std::move(trace));
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::int64_t wanted = tokens.value_or(std::max_element(steps.begin(), steps.end(), fewer)->first);
  if (!steps.contains(wanted)) {
    std::vector<std::string> names;
    for (const auto& [size, count] : steps) names.push_back(fmt::format("{}", size));
    throw InputError({"--concurrency", "", fmt::format("{}", wanted),
                      fmt::format("tokens of a step of the trace: {} (or leave it out)", some_of(names)), ""});
  }
  std::erase_if(trace.steps, [&](const TraceStep& step) { return step.layers.front().tokens != wanted; });
  return all_batches(std::move(trace));
}

TraceHints hints_of(const MoeModel& model) {
  return {.experts = model.experts + model.zero_experts, .topk = model.topk, .layers = model.layers, .tokens = {}};
}

void print_notes(const std::string& file, const RoutedTrace& trace) {
  for (const std::string& note : trace.notes) {
    std::fputs(fmt::format("moesim: note: {}: {}\n", file, note).c_str(), stderr);
  }
}

}  // namespace moesim
