// .npy and .npz: arrays of ids, or, where the sidecar says so, of rows per expert.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "sim/io/input_error.h"
#include "traces/npy.h"
#include "traces/routing_formats/archive.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/load_arrays.h"
#include "traces/routing_formats/trace_builder.h"

namespace moesim {
namespace {

// The four dimensions of an array; of fewer, the steps are independent draws of one layer.
struct Extent {
  std::int64_t steps = 1, layers = 1, tokens = 0, topk = 0;
};

Extent extent_of(const IntegerArray& array) {
  Extent extent{.steps = 1, .layers = 1, .tokens = array.shape.end()[-2], .topk = array.shape.back()};
  if (array.shape.size() > 2) extent.steps = array.shape.front();
  if (array.shape.size() > 3) extent.layers = array.shape[1];
  return extent;
}

void expect_size(const RoutingFile& file, const char* pointer, std::size_t found, std::int64_t expected,
                 const char* what) {
  if (found == 0 || std::cmp_equal(found, expected)) return;
  throw InputError({trace_sidecar_path(file.path()), pointer, fmt::format("{} of them", found),
                    fmt::format("{}, the {} of the array", expected, what), ""});
}

// Tokens of each step: all alike, or as the sidecar divides the tokens of the array's one step.
std::vector<std::int64_t> tokens_of_steps(const RoutingFile& file, const Extent& extent) {
  if (!file.sidecar() || file.sidecar()->step_tokens.empty()) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(extent.steps), extent.tokens);
  }
  const std::vector<std::int64_t>& tokens = file.sidecar()->step_tokens;
  std::int64_t left = extent.tokens;
  for (const std::int64_t step : tokens) left = step > left ? -1 : left - step;
  if (extent.steps != 1 || left != 0) {
    throw InputError({trace_sidecar_path(file.path()), "/step_tokens", "tokens that do not sum to the array's",
                      fmt::format("{}, of an array with one step", extent.tokens), ""});
  }
  return tokens;
}

RoutedTrace ids_of(const RoutingFile& file, const IntegerArray& array) {
  TraceBuilder builder(file);
  const Extent extent = extent_of(array);
  const std::vector<std::int64_t> tokens = tokens_of_steps(file, extent);
  const std::vector<std::int64_t> none;
  const std::vector<std::int64_t>& layers = file.sidecar() ? file.sidecar()->layers : none;
  const std::vector<std::int64_t>& steps = file.sidecar() ? file.sidecar()->steps : none;
  expect_size(file, "/layers", layers.size(), extent.layers, "layers");
  expect_size(file, "/steps", steps.size(), static_cast<std::int64_t>(tokens.size()), "steps");

  const std::int64_t layer_picks = extent.tokens * extent.topk;
  std::int64_t step_begin = 0;  // flat index of the step's first layer
  for (std::size_t step = 0; step < tokens.size(); ++step) {
    builder.begin_step(steps.empty() ? static_cast<std::int64_t>(step) : steps[step]);
    for (std::int64_t layer = 0; layer < extent.layers; ++layer) {
      const auto begin = static_cast<std::size_t>(step_begin + layer * layer_picks);
      const auto size = static_cast<std::size_t>(tokens[step] * extent.topk);
      builder.add_rows(layers.empty() ? layer : layers[static_cast<std::size_t>(layer)],
                       std::span(array.values).subspan(begin, size), extent.topk, Padding::kNone, [&](std::size_t i) {
                         return Place{file.path(), index_text(begin + i, array.shape)};
                       });
    }
    const bool divided = std::cmp_not_equal(tokens.size(), extent.steps);
    step_begin += divided ? tokens[step] * extent.topk : layer_picks * extent.layers;
  }
  return builder.finish();
}

RoutedTrace trace_of(const RoutingFile& file, const IntegerArray& array) {
  if (file.sidecar() && !file.sidecar()->shape.empty() && file.sidecar()->shape != array.shape) {
    throw InputError({trace_sidecar_path(file.path()), "/shape",
                      fmt::format("[{}]", fmt::join(file.sidecar()->shape, ", ")),
                      fmt::format("[{}], the array's", fmt::join(array.shape, ", ")), ""});
  }
  RoutedTrace trace = file.sidecar() && file.sidecar()->counts ? trace_of_loads(file, array) : ids_of(file, array);
  if (file.sidecar()) {
    trace.warm_up = file.sidecar()->warm_up;
    trace.from_counts = trace.from_counts || file.sidecar()->from_counts;
  }
  return trace;
}

}  // namespace

bool is_npy(const RoutingFile& file) { return file.path().ends_with(".npy") || file.starts_with("\x93NUMPY"); }
RoutedTrace read_npy_trace(const RoutingFile& file) { return trace_of(file, parse_npy(file.bytes(), file.path())); }

bool is_npz(const RoutingFile& file) { return file.path().ends_with(".npz") || file.starts_with("PK"); }
RoutedTrace read_npz_trace(const RoutingFile& file) { return trace_of(file, read_npz(file.path())); }

}  // namespace moesim
