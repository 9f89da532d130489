#include "tools/import_routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/common_flags.h"
#include "tools/output_file.h"
#include "tools/trace_reading.h"
#include "traces/routing_formats/limits.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostTokens = 10'000'000;

// A flag of its own wins over the model.
TraceHints hints_from(const RoutingImportFlags& flags) {
  TraceHints hints;
  if (flags.model) hints = hints_of(load_model(*flags.model));
  if (flags.experts) hints.experts = parse_whole("--experts", *flags.experts, 1, kMostExperts);
  if (flags.topk) hints.topk = parse_whole("--topk", *flags.topk, 1, kMostExperts);
  if (flags.layers) hints.layers = parse_whole("--layers", *flags.layers, 1, kMostLayers);
  if (flags.tokens) hints.tokens = parse_whole("--tokens", *flags.tokens, 1, kMostTokens);
  return hints;
}

std::string report(const std::string& in, const std::vector<TraceFile>& files, const RoutedTrace& trace) {
  std::int64_t fewest = trace.steps.front().layers.front().tokens, most = fewest;
  for (const TraceStep& step : trace.steps) {
    fewest = std::min(fewest, step.layers.front().tokens);
    most = std::max(most, step.layers.front().tokens);
  }
  std::vector<std::string> paths;
  for (const TraceFile& file : files) paths.push_back(file.path);
  const std::string tokens = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return fmt::format(
      "from     {}\nto       {}\nrouting  steps {}, tokens of a step {}, layers {}, experts {} of {}{}\n", in,
      fmt::join(paths, ", "), trace.steps.size(), tokens, trace.layers.size(), trace.topk, trace.experts,
      trace.from_counts ? ", dealt from counts" : "");
}

}  // namespace

void RoutingImportFlags::add(FlagSet& set) {
  set.value("--model", "NAME|PATH", model, "Of a routing: the model, for what the file leaves out");
  set.value("--experts", "N", experts, "Of a routing: experts of a layer, where neither file nor model says");
  set.value("--topk", "N", topk, "Of a routing: experts of a token, where neither file nor model says");
  set.value("--layers", "N", layers, "Of a routing: layers of the model, where neither file nor model says");
  set.value("--layer", "N", layer, "Of a routing: only this layer");
  set.value("--tokens", "N", tokens, "Of a routing that is counts: tokens of a step made from them");
}

CommandResult import_routing(const std::string& in, const std::string& out, const RoutingImportFlags& flags) {
  std::optional<std::int64_t> layer;
  if (flags.layer) layer = parse_whole("--layer", *flags.layer, 0, kMostId);
  RoutedTrace trace = load_layers(in, hints_from(flags), layer, "--layer");
  if (flags.model && trace.model.empty()) trace.model = load_model(*flags.model).name;
  const std::vector<TraceFile> files = routed_trace_files(trace, out);
  std::vector<OutputFile> outputs;
  for (const TraceFile& file : files) outputs.emplace_back(file.path, "--out");
  for (std::size_t i = 0; i < files.size(); ++i) outputs[i].write(files[i].bytes);
  print_notes(in, trace);
  return {.output = report(in, files, trace), .complaint = ""};
}

}  // namespace moesim
