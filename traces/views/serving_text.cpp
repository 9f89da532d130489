// Words of serving studies.
#include <fmt/format.h>

#include <algorithm>

#include "sim/io/input_error.h"
#include "sim/units/parse_quantity.h"
#include "traces/views/serving_views.h"

namespace moesim {
namespace {

constexpr ServingView kViews[] = {
    {"table", write_serving_table},
    {"json", write_serving_json},
    {"csv", write_serving_csv},
    {"svg", write_serving_svg},
};

constexpr double kPercent = 100, kGiga = 1e9;

std::string time_text(Duration d) { return format_quantity(to_seconds(d), Dimension::kTime); }

std::string giga(Bytes bytes) { return fmt::format("{:.1f} GB", bytes.as_double() / kGiga); }

std::string chunk_text(const StreamShape& stream) {
  std::string text = fmt::format("a chunk every {} of {} tokens in, {} out", time_text(stream.period),
                                 length_law_name(stream.tokens_in), length_law_name(stream.tokens_out));
  if (stream.jitter > Duration(0)) text += fmt::format(", up to {} late", time_text(stream.jitter));
  return text + fmt::format(", {} tokens of context at first", stream.context);
}

}  // namespace

std::span<const ServingView> serving_views() { return kViews; }

const ServingView& find_serving_view(const std::string& name) {
  std::vector<std::string> names;
  for (const ServingView& view : kViews) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

const char* turn_noun(ServingKind kind) {
  switch (kind) {
    case ServingKind::kClosedStreams:
    case ServingKind::kOpenStreams:
      return "chunk";
    case ServingKind::kRequests:
    case ServingKind::kTrace:
      return "request";
  }
  return "";
}

std::string load_noun(ServingKind kind) {
  switch (kind) {
    case ServingKind::kClosedStreams:
      return "sessions";
    case ServingKind::kOpenStreams:
      return "mean sessions";
    case ServingKind::kRequests:
      return "requests/s";
    case ServingKind::kTrace:
      return "trace";
  }
  return "";
}

std::string arrivals_text(const ServingSetup& setup) {
  switch (setup.kind) {
    case ServingKind::kClosedStreams:
      return fmt::format("streams for ever, {}", chunk_text(setup.stream));
    case ServingKind::kOpenStreams:
      return fmt::format("streams that come (Poisson) and stay {} in the mean (exponential), {}",
                         time_text(setup.holding), chunk_text(setup.stream));
    case ServingKind::kRequests:
      return fmt::format("requests (Poisson) of {} tokens in, {} out", length_law_name(setup.prompt),
                         length_law_name(setup.output));
    case ServingKind::kTrace:
      return fmt::format("as recorded in {}", setup.trace_file);
  }
  return "";
}

std::string goals_text(const ServingSetup& setup) {
  const ServingGoals& goals = setup.goals;
  std::vector<std::string> each;
  if (goals.first_token) each.push_back(fmt::format("first token within {}", time_text(*goals.first_token)));
  if (goals.per_token) each.push_back(fmt::format("{} a token", time_text(*goals.per_token)));
  if (goals.latency) each.push_back(fmt::format("done within {}", time_text(*goals.latency)));
  if (each.empty()) return "none";
  return fmt::format("a {}'s: {}; at most {:g} % miss", turn_noun(setup.kind), fmt::join(each, ", "),
                     goals.most_missed * kPercent);
}

std::string server_text(const ServingStudy& study) {
  const ServingSetup& s = study.setup;
  std::string text = fmt::format("at most {} tokens and {} sequences a step, {} tokens of context", s.batch.tokens,
                                 s.batch.sequences, s.context_limit);
  if (s.most_sessions) text += fmt::format(", {} sessions", *s.most_sessions);
  if (s.host > Duration(0)) text += fmt::format(", {} of the host a step", time_text(s.host));
  return text + fmt::format("; {:g} % of memory: weights {}, caches {}", s.memory_share * kPercent, giga(study.weights),
                            giga(study.cache));
}

std::string steps_text(const ServingStudy& study) {
  const StepRounding& rounding = study.setup.rounding;
  std::string text;
  if (!rounding.context) {
    text = "contexts exact";
  } else {
    text = fmt::format("contexts levelled within a step, rounded up to {}", *rounding.context);
    text += fmt::format(", sequences to {} binary digits", rounding.count_digits);
    if (rounding.chunk > 1) text += fmt::format(", tokens of prompts to {}", rounding.chunk);
  }
  return text +
         fmt::format("; {} compositions x routings, {} runs of the engine", study.compositions, study.engine_runs);
}

std::string result_text(const ServingStudy& study, const StrategyServing& strategy) {
  if (strategy.infeasible) return fmt::format("{}: infeasible: {}", strategy.strategy, strategy.infeasible->reason);
  const std::string noun = load_noun(study.setup.kind);
  if (strategy.sustainable) {
    return fmt::format("{}: {:g} {}{}{}", strategy.strategy, *strategy.sustainable, noun,
                       strategy.memory_limited ? ", as many as memory holds" : "",
                       strategy.monotone ? "" : " (misses do not grow with every load: the least is meant)");
  }
  const ServingFigures& last = strategy.points.back();
  return fmt::format("{}: at {:g} {} {:.2f} % miss", strategy.strategy, last.load, noun, last.miss_share() * kPercent);
}

std::string headline(const ServingStudy& study) {
  const StrategyServing* best = nullptr;
  for (const StrategyServing& s : study.strategies) {
    if (s.infeasible) continue;
    if (best == nullptr) {
      best = &s;
    } else if (s.sustainable ? *s.sustainable > *best->sustainable
                             : s.points.back().latency.p99 < best->points.back().latency.p99) {
      best = &s;
    }
  }
  if (best == nullptr) return "No strategy is feasible";
  if (best->sustainable) {
    return fmt::format("{} sustains most: {:g} {}", best->strategy, *best->sustainable, load_noun(study.setup.kind));
  }
  const ServingFigures& last = best->points.back();
  constexpr double kMilli = 1e3;
  return fmt::format("{} has the shortest tail: at {:g} {}, 99 % of {}s within {:.1f} ms", best->strategy, last.load,
                     load_noun(study.setup.kind), turn_noun(study.setup.kind), to_seconds(last.latency.p99) * kMilli);
}

}  // namespace moesim
