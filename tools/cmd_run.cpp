// moesim run: one MoE layer at several concurrencies under several strategies.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <sstream>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/progress.h"
#include "tools/routing_flags.h"
#include "tools/trace_reading.h"
#include "traces/routing_formats/limits.h"
#include "traces/views/catalogue.h"
#include "workloads/studies/concurrency.h"

namespace moesim {
namespace {

constexpr const char* kDefaultConcurrency = "1,2,3,4,8,16,32,64";
constexpr std::int64_t kDefaultSamples = 8;
constexpr std::int64_t kDefaultStepSamples = 1;  // each MoE layer has a routing of its own
constexpr std::int64_t kMostContext = 100'000'000;
constexpr std::int64_t kMostSamples = 100'000;
constexpr std::int64_t kMostDevices = 65'536;

struct RunFlags {
  std::string model = "qwen3.5-397b-a17b-fp8";
  std::string device = "h200";
  std::optional<std::string> concurrency, samples;
  std::vector<std::string> strategies;
  std::string scope = "moe_layer";
  std::string launch = "graph";
  RoutingFlags routing;
  std::optional<std::string> trace_layer;
  std::string seed = "1";
  std::string tp = "1", ep = "1";
  std::optional<std::string> weights, other_weights, activations, clock;
  std::optional<std::string> context, kv_dtype, layers;  // of a step
  ModelFlags model_flags;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  bool explain = false;
  std::string format = "table";
};

WeightFormat parse_cache_format(const std::string& text) {
  const std::vector<std::string> names = {"bf16", "fp16", "fp8"};
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    throw InputError({"--kv-dtype", "", fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(names, ", ")),
                      nearest_name(text, names)});
  }
  return parse_format(text, "--kv-dtype");
}

// A trace has its own tokens and samples: what is asked for beside it must agree.
void read_trace(const RunFlags& flags, ConcurrencyRequest& request) {
  const std::string& path = request.routing.trace_file;
  std::optional<std::int64_t> layer, tokens;
  if (flags.trace_layer) layer = parse_whole("--trace-layer", *flags.trace_layer, 0, kMostId);
  if (flags.concurrency && request.concurrencies.size() == 1) tokens = request.concurrencies.front();
  RoutedTrace trace = load_layers(path, hints_of(request.model), layer, "--trace-layer");
  print_notes(path, trace);
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

void set_other_weights(MoeModel& model, WeightFormat format) {
  model.other_weights = model.dense_weights = model.head_weights = format;
  for (Mixer& mixer : model.mixers) {
    for (std::vector<WeightMatrix>* matrices : {&mixer.before, &mixer.after}) {
      for (WeightMatrix& matrix : *matrices) matrix.format = format;
    }
  }
}

// Flags that only a step has.
void read_step(const RunFlags& flags, ConcurrencyRequest& request) {
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
  if (flags.kv_dtype) request.step.cache = parse_cache_format(*flags.kv_dtype);
  if (flags.layers && *flags.layers != "all") {
    request.step.layers = parse_whole("--layers", *flags.layers, 1, request.model.layers);
  }
}

// A match is over all layers, since it is only there that a law's popularities are typical; so samples then go through
// the layers too.
void choose_routing(const RunFlags& flags, ConcurrencyRequest& request) {
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

ConcurrencyRequest request_of(const RunFlags& flags) {
  ConcurrencyRequest request;
  request.tool_version = kVersion;
  request.concurrencies = parse_concurrencies(flags.concurrency.value_or(kDefaultConcurrency));
  request.options.scope = parse_scope(flags.scope);
  request.options.launch = parse_launch(flags.launch);
  request.samples = flags.samples                           ? parse_whole("--samples", *flags.samples, 1, kMostSamples)
                    : request.options.scope == Scope::kStep ? kDefaultStepSamples
                                                            : kDefaultSamples;
  request.seed =
      static_cast<std::uint64_t>(parse_whole("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  request.tp = parse_whole("--tp", flags.tp, 1, kMostDevices);
  request.ep = parse_whole("--ep", flags.ep, 1, kMostDevices);
  request.explain = flags.explain;

  request.model = flags.model_flags.load(flags.model);
  request.model_overrides = flags.model_flags.overrides;
  read_step(flags, request);
  if (flags.weights) request.model.expert_weights = parse_format(*flags.weights, "--weights");
  if (flags.other_weights) set_other_weights(request.model, parse_format(*flags.other_weights, "--other-weights"));
  request.activations = flags.activations ? parse_format(*flags.activations, "--activations")
                                          : default_activations(request.model.expert_weights);
  request.hardware = flags.hardware.load(flags.device);
  request.strategies = parse_strategies(flags.strategies.empty() ? std::vector<std::string>{"all"} : flags.strategies,
                                        request.hardware.grid);
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

// Each strategy with its reason, once; what holds for all of them alone.
std::string reasons(const ConcurrencyStudy& study) {
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

CommandResult run(const RunFlags& flags) {
  const ConcurrencyView& view = find_concurrency_view(flags.format);
  if (flags.explain && !view.shows_kernels) {
    throw InputError({"--explain", "", fmt::format("--format {}", view.name), "--format table or json", ""});
  }
  ConcurrencyRequest request = request_of(flags);
  Progress progress;
  request.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  const ConcurrencyStudy study = run_concurrency_study(request);
  if (!study.feasible()) {
    return {.output = "",
            .complaint = fmt::format("no strategy is feasible: {}", reasons(study)),
            .exit_code = ExitCode::kInfeasible};
  }
  std::ostringstream out;
  view.write(study, out);
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<RunFlags>();
  set.value("--model", "NAME|PATH", flags->model, "A name from `moesim models`, or a Hugging Face config.json");
  set.value("--device", "NAME|PATH", flags->device, "A name from `moesim devices`, or a device file");
  set.value("--concurrency", "LIST", flags->concurrency,
            fmt::format("Tokens of a decode step, as in 1,2,8-16 [default: {}]", kDefaultConcurrency));
  set.repeated("--strategy", "LIST", flags->strategies,
               "Names with parameters, as in grouped_gemm:block_m=32,stream_gemv:implementation=NAME (of the overlay); "
               "all; auto [default: all]");
  set.value("--scope", "moe_layer|expert_ffn|step", flags->scope,
            "One MoE layer; its routed experts with given routing alone; or a decode step of all layers");
  set.value("--context", "N", flags->context,
            fmt::format("Step: tokens of context of each sequence [default: {}]", StepOptions().context));
  set.value("--kv-dtype", "bf16|fp16|fp8", flags->kv_dtype, "Step: format of the KV cache [default: bf16]");
  set.value("--layers", "all|N", flags->layers, "Step: decoder layers, from the first on [default: all]");
  set.value("--launch", "graph|stream|programmatic", flags->launch, "How one kernel follows another");
  flags->routing.add(set);
  set.value("--trace-layer", "N", flags->trace_layer, "Only this layer of the trace [default: all, as samples]");
  set.value(
      "--samples", "N", flags->samples,
      fmt::format("Routings drawn per concurrency, {} of a step [default: {}]", kDefaultStepSamples, kDefaultSamples));
  set.value("--seed", "N", flags->seed, "Of the routings; the same seed gives the same bytes out");
  set.value("--tp", "N", flags->tp, "Tensor parallel: one device of N is simulated");
  set.value("--ep", "N", flags->ep, "Expert parallel: the most loaded device of N is simulated");
  set.value("--weights", "FORMAT", flags->weights, "Of the routed experts, in place of the model's (bf16, mxfp4, ...)");
  set.value("--other-weights", "FORMAT", flags->other_weights,
            "Of shared experts and, in a step, of all other matrices but the router");
  set.value("--activations", "FORMAT", flags->activations, "Inputs of the projections [default: as is usual]");
  set.value("--clock", "FREQUENCY", flags->clock,
            "Of the units: boost, sustained (under a power cap) or as in 1.7GHz [default: boost]");
  flags->model_flags.add(set);
  flags->hardware.add(set);
  flags->calibration.add(set);
  set.on("--explain", flags->explain, "Also where the time goes, and the kernels at the first concurrency");
  std::vector<std::string> formats;
  for (const ConcurrencyView& view : concurrency_views()) formats.emplace_back(view.name);
  set.value("--format", fmt::format("{}", fmt::join(formats, "|")), flags->format, "How to print");
  return [flags] { return run(*flags); };
}

}  // namespace

constinit const Command kRunCommand = {
    "run", "Simulate one MoE layer or a decode step: the fastest strategy per concurrency",
    "  moesim run --model qwen3.5-397b-a17b-fp8 --device h200 --concurrency 1,2,4,8\n"
    "  moesim run --model gpt-oss-120b --device b200 --strategy grouped_gemm:block_m=32,stream_gemv --explain\n"
    "  moesim run --model mixtral-8x7b --set hbm.bandwidth=6TB/s --routing zipf:0.8 --format csv\n"
    "  moesim run --model deepseek-v3 --device h200 --tp 8 --scope step --context 8192 --concurrency 1,16",
    define};

}  // namespace moesim
