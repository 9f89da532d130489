#include "traces/routed_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "traces/npy.h"
#include "traces/routing_formats/archive.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/sidecar.h"
#include "traces/routing_formats/warm_up.h"

namespace moesim {
namespace {

constexpr const char* kArrayName = "ids";  // of the array in a .npz

bool wide(std::int64_t experts) { return experts > std::numeric_limits<std::int16_t>::max(); }

// 0, 1, 2, ... go without saying.
std::vector<std::int64_t> unless_counted(std::vector<std::int64_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (std::cmp_not_equal(ids[i], i)) return ids;
  }
  return {};
}

Sidecar sidecar_of(const RoutedTrace& trace) {
  Sidecar sidecar;
  sidecar.model = trace.model;
  sidecar.source = trace.source;
  sidecar.experts = trace.experts;
  sidecar.topk = trace.topk;
  sidecar.layers = unless_counted(trace.layers);
  for (const TraceStep& step : trace.steps) sidecar.steps.push_back(step.id);
  sidecar.steps = unless_counted(std::move(sidecar.steps));
  sidecar.from_counts = trace.from_counts;
  sidecar.warm_up = trace.warm_up;
  return sidecar;
}

std::vector<std::int64_t> tokens_of_steps(const RoutedTrace& trace) {
  std::vector<std::int64_t> tokens;
  for (const TraceStep& step : trace.steps) tokens.push_back(step.layers.front().tokens);
  return tokens;
}

// `tokens` are alike, or the steps' tokens follow one another in one step.
std::string array_bytes(const RoutedTrace& trace, const std::vector<std::int64_t>& tokens, bool alike) {
  std::vector<std::int32_t> ids;
  const auto append = [&](const RoutedBatch& batch) { ids.insert(ids.end(), batch.ids.begin(), batch.ids.end()); };
  if (alike) {
    for (const TraceStep& step : trace.steps) std::for_each(step.layers.begin(), step.layers.end(), append);
  } else {
    for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
      for (const TraceStep& step : trace.steps) append(step.layers[layer]);
    }
  }
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  const std::vector<std::size_t> shape = {alike ? trace.steps.size() : 1, trace.layers.size(),
                                          static_cast<std::size_t>(alike ? tokens.front() : all),
                                          static_cast<std::size_t>(trace.topk)};
  return npy_bytes(ids, shape, wide(trace.experts));
}

std::string json_lines(const RoutedTrace& trace) {
  Sidecar meta = sidecar_of(trace);
  meta.layers.clear();  // each line says its own
  meta.steps.clear();
  std::string text = sidecar_text(meta) + "\n";
  for (const TraceStep& step : trace.steps) {
    for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
      const RoutedBatch& batch = step.layers[layer];
      text += fmt::format(R"({{"step":{},"layer":{},"ids":[)", step.id, trace.layers[layer]);
      for (std::int64_t token = 0; token < batch.tokens; ++token) {
        const auto row = batch.ids.begin() + token * batch.topk;
        text += fmt::format("{}[{}]", token == 0 ? "" : ",", fmt::join(row, row + batch.topk, ","));
      }
      text += "]}\n";
    }
  }
  return text;
}

}  // namespace

RoutedTrace load_routed_trace(const std::string& file, const TraceHints& hints) {
  const std::size_t equals = file.find('=');
  const RoutingFormat* stated =
      equals == std::string::npos ? nullptr : find_routing_format(std::string_view(file).substr(0, equals));
  const RoutingFile source(stated == nullptr ? file : file.substr(equals + 1), hints);
  const RoutingFormat& format = stated == nullptr ? format_of(source) : *stated;
  RoutedTrace trace = format.read(source);
  // An array with layers and without a sidecar is some engine's, too; independent draws of one layer are not.
  const bool bare_array = source.binary() && !source.sidecar() && trace.layers.size() > 1;
  if ((format.recorded || bare_array) && !trace.from_counts) drop_warm_up(trace);
  if (trace.source.empty()) {
    const std::string& path = source.path();
    trace.source = fmt::format("{} ({})", path.substr(path.rfind('/') + 1), format.name);
  }
  return trace;
}

std::vector<RoutedBatch> read_routed_trace(const std::string& file, std::int64_t experts) {
  MOESIM_CHECK(experts >= 1 && experts <= std::numeric_limits<std::int32_t>::max());
  return all_batches(load_routed_trace(file, {.experts = experts, .topk = {}, .layers = {}, .tokens = {}}));
}

std::string routed_trace_bytes(const std::vector<RoutedBatch>& batches) {
  MOESIM_CHECK(!batches.empty());
  const RoutedBatch& first = batches.front();
  std::vector<std::int32_t> ids;
  for (const RoutedBatch& batch : batches) {
    MOESIM_CHECK(batch.tokens == first.tokens && batch.topk == first.topk);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  }
  return npy_bytes(ids, {batches.size(), static_cast<std::size_t>(first.tokens), static_cast<std::size_t>(first.topk)},
                   wide(first.experts));
}

std::vector<TraceFile> routed_trace_files(const RoutedTrace& trace, const std::string& path) {
  MOESIM_CHECK(!trace.steps.empty());
  if (path.ends_with(".jsonl")) return {{path, json_lines(trace)}};
  const bool npz = path.ends_with(".npz");
  if (!npz && !path.ends_with(".npy")) {
    throw InputError({"--out", "", fmt::format("'{}'", path), "a file that ends in .npy, .npz or .jsonl", ""});
  }
  const std::vector<std::int64_t> tokens = tokens_of_steps(trace);
  const bool alike = std::all_of(tokens.begin(), tokens.end(), [&](std::int64_t n) { return n == tokens.front(); });
  Sidecar sidecar = sidecar_of(trace);
  if (!alike) sidecar.step_tokens = tokens;
  const std::string array = array_bytes(trace, tokens, alike);
  return {{path, npz ? npz_bytes(kArrayName, array) : array}, {trace_sidecar_path(path), sidecar_text(sidecar) + "\n"}};
}

}  // namespace moesim
