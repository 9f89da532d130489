#include "tools/run_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/trace_reading.h"
#include "traces/routing_formats/limits.h"
#include "workloads/studies/request_limits.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

constexpr std::int64_t kDefaultSamples = 8;
constexpr std::int64_t kDefaultStepSamples = 1;  // each MoE layer has a routing of its own

// A trace has its own tokens and samples: what is asked for beside it must agree.
void read_trace(const RequestFlags& flags, ConcurrencyRequest& request) {
  const std::string& path = request.routing.trace_file;
  std::optional<std::int64_t> layer, tokens;
  if (flags.trace_layer) layer = parse_whole("--trace-layer", *flags.trace_layer, 0, kMostId);
  if (flags.concurrency && request.concurrencies.size() == 1) tokens = request.concurrencies.front();
  RoutedTrace trace = load_layers(path, hints_of(request.model), layer, "--trace-layer");
  if (!flags.routing.quiet) print_notes(path, trace);
  request.trace = batches_of(std::move(trace), tokens);
  const RoutedBatch& first = request.trace.front();
  if (first.topk != request.model.topk) {
    throw InputError({path, "", fmt::format("{} experts a token", first.topk),
                      fmt::format("{}, the top-k of {}", request.model.topk, request.model.name), ""});
  }
  const std::int64_t count = sample_count(request);
  if (flags.samples && request.samples != count) {
    throw InputError({"--samples", "", fmt::format("{}", request.samples),
                      fmt::format("{}, the batches of {} (or leave it out)", count, path), ""});
  }
  if (!flags.concurrency) request.concurrencies = {first.tokens};
  for (const std::int64_t concurrency : request.concurrencies) {
    if (concurrency == first.tokens) continue;
    throw InputError({"--concurrency", "", fmt::format("{}", concurrency),
                      fmt::format("{}, the tokens of {} (or leave it out)", first.tokens, path), ""});
  }
}

// An implementation that nobody fitted is no error (its strategy has the device's constants); one of another strategy is.
void check_implementations(const ConcurrencyRequest& request) {
  for (const StrategyChoice& choice : request.strategies) {
    if (choice.implementation.empty() || !request.calibration) continue;
    for (const Implementation& known : request.calibration->implementations) {
      if (known.name != choice.implementation || known.strategy == choice.strategy->name) continue;
      throw InputError(
          {"--strategy", choice.strategy->name, fmt::format("implementation={}", choice.implementation),
           fmt::format("an implementation of {}; that one is of {}", choice.strategy->name, known.strategy), ""});
    }
  }
}

// A strategy for the other kind of grid is not there to have parameters.
void set_parameters(const std::vector<std::string>& assignments, ConcurrencyRequest& request) {
  for (const std::string& assignment : assignments) {
    const std::size_t dot = assignment.find('.'), equals = assignment.find('=');
    const std::string name = assignment.substr(0, dot);
    const std::string parameter = assignment.substr(dot + 1, equals - dot - 1);
    const std::int64_t value = parse_whole(assignment.substr(0, equals), assignment.substr(equals + 1), 0,
                                           std::numeric_limits<std::int64_t>::max());
    const StrategyChoice of_that_strategy = parse_strategy(name);
    bool there = of_that_strategy.strategy->grid != request.hardware.grid;
    for (StrategyChoice& choice : request.strategies) {
      if (choice.stack != nullptr || choice.strategy != of_that_strategy.strategy) continue;
      choice = with_parameter(choice, parameter, value);
      there = true;
    }
    if (there) continue;
    throw InputError({"--strategy", "", "no " + name, fmt::format("{}, whose {} is varied", name, parameter), ""});
  }
}

void set_other_weights(MoeModel& model, WeightFormat format) {
  model.other_weights = model.dense_weights = model.head_weights = format;
  for (Mixer& mixer : model.mixers) {
    for (std::vector<WeightMatrix>* matrices : {&mixer.before, &mixer.after}) {
      for (WeightMatrix& matrix : *matrices) matrix.format = format;
    }
  }
}

// Flags that only a step has.
void read_step(const RequestFlags& flags, ConcurrencyRequest& request) {
  if (request.options.scope != Scope::kStep) {
    const std::pair<const char*, bool> of_step[] = {{"--context", flags.context.has_value()},
                                                    {"--kv-dtype", flags.kv_dtype.has_value()},
                                                    {"--layers", flags.layers.has_value()}};
    for (const auto& [flag, given] : of_step) {
      if (given) throw InputError({flag, "", fmt::format("--scope {}", flags.scope), "--scope step", ""});
    }
    return;
  }
  if (flags.context) request.step.context = parse_whole("--context", *flags.context, 1, kMostContext);
  if (flags.kv_dtype) request.step.cache = parse_cache_format(*flags.kv_dtype, "--kv-dtype");
  if (flags.layers && *flags.layers != "all") {
    request.step.layers = parse_whole("--layers", *flags.layers, 1, request.model.layers);
  }
}

// A match is over all layers, since it is only there that a law's popularities are typical; so samples then go through
// the layers too.
void choose_routing(const RequestFlags& flags, ConcurrencyRequest& request) {
  const MatchScope scope{.router = {request.model.experts + request.model.zero_experts, request.model.topk},
                         .layers = request.model.moe_layers,
                         .seed = request.seed};
  const ChosenRouting chosen = flags.routing.choose(&request.model, scope, false);
  request.routing = chosen.law;
  request.routing_options = chosen.options;
  if (chosen.matches.empty()) return;
  request.routing_layers = request.model.moe_layers;
  request.routing_match = fmt::format("{} over {} layers", match_text(chosen.matches.front()), request.routing_layers);
}

// What infeasible_result() says.
std::string reasons_of(const ConcurrencyStudy& study) {
  std::string text;
  const std::vector<StrategyRow>& rows = study.points.front().rows;
  const auto reason_of = [](const StrategyRow& row) { return std::get<Infeasible>(row.result).reason; };
  const auto as_first = [&](const StrategyRow& row) { return reason_of(row) == reason_of(rows.front()); };
  if (rows.size() > 1 && std::all_of(rows.begin(), rows.end(), as_first)) return reason_of(rows.front());
  for (const StrategyRow& row : rows) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", row.strategy, std::get<Infeasible>(row.result).reason);
  }
  return text;
}

}  // namespace

void RequestFlags::add(FlagSet& set) {
  add_what(set);
  add_concurrency(set);
  add_strategies(set);
  set.value("--scope", "moe_layer|expert_ffn|step", scope,
            "One MoE layer; its routed experts with given routing alone; or a decode step of all layers");
  set.value("--context", "N", context,
            fmt::format("Step: tokens of context of each sequence [default: {}]", StepOptions().context));
  add_layers(set);
  add_how(set);
  add_samples(set, fmt::format("Routings drawn per concurrency, {} of a step [default: {}]", kDefaultStepSamples,
                               kDefaultSamples));
  ladder.add(set);
}

void RequestFlags::add_of_layer(FlagSet& set, std::int64_t default_samples) {
  add_what(set);
  add_concurrency(set);
  set.value("--scope", "moe_layer|expert_ffn", scope, "One MoE layer; or its routed experts with given routing alone");
  add_how(set);
  add_samples(set, fmt::format("Routings drawn per concurrency [default: {}]", default_samples));
}

void RequestFlags::add_of_steps(FlagSet& set) {
  add_what(set);
  add_strategies(set);
  add_layers(set);
  add_how(set);
}

void RequestFlags::add_what(FlagSet& set) {
  set.value("--model", "NAME|PATH", model, "A name from `moesim models`, or a Hugging Face config.json");
  set.value("--device", "NAME|PATH", device, "A name from `moesim devices`, or a device file");
}

void RequestFlags::add_concurrency(FlagSet& set) {
  set.value("--concurrency", "LIST", concurrency,
            fmt::format("Tokens of a decode step, as in 1,2,8-16 [default: {}]", usual_concurrency));
}

void RequestFlags::add_strategies(FlagSet& set) {
  set.repeated("--strategy", "LIST", strategies,
               "Names with parameters, as in grouped_gemm:block_m=32,stream_gemv:implementation=NAME (of the overlay); "
               "all; auto [default: all]");
}

void RequestFlags::add_layers(FlagSet& set) {
  set.value("--kv-dtype", "bf16|fp16|fp8", kv_dtype, "Step: format of the KV cache [default: bf16]");
  set.value("--layers", "all|N", layers, "Step: decoder layers, from the first on [default: all]");
}

void RequestFlags::add_samples(FlagSet& set, const std::string& help) {
  set.value("--trace-layer", "N", trace_layer, "Only this layer of the trace [default: all, as samples]");
  set.value("--samples", "N", samples, help);
}

void RequestFlags::add_how(FlagSet& set) {
  set.value("--launch", "graph|stream|programmatic", launch, "How one kernel follows another");
  routing.add(set);
  set.value("--seed", "N", seed, "Of the routings; the same seed gives the same bytes out");
  set.value("--tp", "N", tp, "Tensor parallel: one device of N is simulated");
  set.value("--ep", "N", ep, "Expert parallel: the most loaded device of N is simulated");
  set.value("--weights", "FORMAT", weights, "Of the routed experts, in place of the model's (bf16, mxfp4, ...)");
  set.value("--other-weights", "FORMAT", other_weights,
            "Of shared experts and, in a step, of all other matrices but the router");
  set.value("--activations", "FORMAT", activations, "Inputs of the projections [default: as is usual]");
  set.value("--clock", "FREQUENCY", clock,
            "Of the units: boost, sustained (under a power cap) or as in 1.7GHz [default: boost]");
  model_flags.add(set);
  hardware.add(set);
  calibration.add(set);
}

ConcurrencyRequest request_of(const RequestFlags& flags) {
  ConcurrencyRequest request;
  request.tool_version = kVersion;
  request.concurrencies = parse_concurrencies(flags.concurrency.value_or(flags.usual_concurrency));
  request.hardware = flags.hardware.load(flags.device);
  request.strategies = parse_strategies(flags.strategies.empty() ? std::vector<std::string>{"all"} : flags.strategies,
                                        request.hardware.grid);
  set_parameters(flags.parameters, request);
  request.options.scope = parse_scope(flags.scope);
  request.options.launch = parse_launch(flags.launch);
  request.samples = flags.samples                           ? parse_whole("--samples", *flags.samples, 1, kMostSamples)
                    : request.options.scope == Scope::kStep ? kDefaultStepSamples
                                                            : kDefaultSamples;
  request.seed =
      static_cast<std::uint64_t>(parse_whole("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  request.tp = parse_whole("--tp", flags.tp, 1, kMostDevices);
  request.ep = parse_whole("--ep", flags.ep, 1, kMostDevices);
  flags.ladder.apply(request);

  request.model = flags.model_flags.load(flags.model);
  request.model_overrides = flags.model_flags.overrides;
  read_step(flags, request);
  if (flags.weights) request.model.expert_weights = parse_format(*flags.weights, "--weights");
  if (flags.other_weights) set_other_weights(request.model, parse_format(*flags.other_weights, "--other-weights"));
  request.activations = flags.activations ? parse_format(*flags.activations, "--activations")
                                          : default_activations(request.model.expert_weights);
  if (flags.clock) request.options.clock_hz = parse_clock(*flags.clock, request.hardware);
  request.overrides = flags.hardware.overrides;
  request.calibration = flags.calibration.load(request.hardware);
  check_implementations(request);
  choose_routing(flags, request);
  if (request.routing.kind == RoutingKind::kTrace) read_trace(flags, request);
  if (flags.trace_layer && request.routing.kind != RoutingKind::kTrace) {
    throw InputError(
        {"--trace-layer", "", fmt::format("--routing {}", routing_name(request.routing)), "--routing trace:FILE", ""});
  }
  return request;
}

CommandResult infeasible_result(const ConcurrencyStudy& study) {
  return {.output = "",
          .complaint = fmt::format("no strategy is feasible: {}", reasons_of(study)),
          .exit_code = ExitCode::kInfeasible};
}

}  // namespace moesim
