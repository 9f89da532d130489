// moesim run: one MoE layer at several concurrencies under several strategies.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <sstream>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/progress.h"
#include "tools/trace_reading.h"
#include "traces/routing_formats/limits.h"
#include "traces/views/catalogue.h"
#include "workloads/model_config.h"
#include "workloads/studies/concurrency.h"

namespace moesim {
namespace {

constexpr const char* kDefaultConcurrency = "1,2,3,4,8,16,32,64";
constexpr std::int64_t kDefaultSamples = 8;
constexpr std::int64_t kMostSamples = 100'000;
constexpr std::int64_t kMostDevices = 65'536;

struct RunFlags {
  std::string model = "qwen3.5-397b-a17b-fp8";
  std::string device = "h200";
  std::optional<std::string> concurrency, samples;
  std::vector<std::string> strategies;
  std::string scope = "moe_layer";
  std::string launch = "graph";
  std::string routing = "uniform";
  std::optional<std::string> trace_layer;
  std::string seed = "1";
  std::string tp = "1", ep = "1";
  std::optional<std::string> weights, activations, clock;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  bool explain = false;
  std::string format = "table";
};

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
  const auto count = static_cast<std::int64_t>(request.trace.size());
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

ConcurrencyRequest request_of(const RunFlags& flags) {
  ConcurrencyRequest request;
  request.tool_version = kVersion;
  request.concurrencies = parse_concurrencies(flags.concurrency.value_or(kDefaultConcurrency));
  request.strategies = parse_strategies(flags.strategies.empty() ? std::vector<std::string>{"all"} : flags.strategies);
  request.options.scope = parse_scope(flags.scope);
  request.options.launch = parse_launch(flags.launch);
  request.samples = flags.samples ? parse_whole("--samples", *flags.samples, 1, kMostSamples) : kDefaultSamples;
  request.seed =
      static_cast<std::uint64_t>(parse_whole("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  request.tp = parse_whole("--tp", flags.tp, 1, kMostDevices);
  request.ep = parse_whole("--ep", flags.ep, 1, kMostDevices);
  request.explain = flags.explain;

  request.model = load_model(flags.model);
  if (flags.weights) request.model.expert_weights = parse_format(*flags.weights, "--weights");
  request.activations = flags.activations ? parse_format(*flags.activations, "--activations")
                                          : default_activations(request.model.expert_weights);
  request.hardware = flags.hardware.load(flags.device);
  if (flags.clock) request.options.clock_hz = parse_clock(*flags.clock, request.hardware);
  request.overrides = flags.hardware.overrides;
  request.calibration = flags.calibration.load(request.hardware);
  check_implementations(request);
  request.routing = parse_routing(flags.routing);
  if (request.routing.kind == RoutingKind::kTrace) read_trace(flags, request);
  if (flags.trace_layer && request.routing.kind != RoutingKind::kTrace) {
    throw InputError({"--trace-layer", "", fmt::format("--routing {}", flags.routing), "--routing trace:FILE", ""});
  }
  return request;
}

// Each strategy with its reason, once.
std::string reasons(const ConcurrencyStudy& study) {
  std::string text;
  for (const StrategyRow& row : study.points.front().rows) {
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
  set.value("--scope", "moe_layer|expert_ffn", flags->scope,
            "The whole layer, or routed experts with given routing alone");
  set.value("--launch", "graph|stream|programmatic", flags->launch, "How one kernel follows another");
  set.value(
      "--routing", "ROUTING", flags->routing,
      "uniform, zipf:S, lognormal:SIGMA, balanced, same, disjoint, power_law:ALPHA or trace:FILE (.npy, .npz, JSON "
      "Lines, or what an engine recorded; trace:FORMAT=FILE says which)");
  set.value("--trace-layer", "N", flags->trace_layer, "Only this layer of the trace [default: all, as samples]");
  set.value("--samples", "N", flags->samples,
            fmt::format("Routings drawn per concurrency [default: {}]", kDefaultSamples));
  set.value("--seed", "N", flags->seed, "Of the routings; the same seed gives the same bytes out");
  set.value("--tp", "N", flags->tp, "Tensor parallel: one device of N is simulated");
  set.value("--ep", "N", flags->ep, "Expert parallel: the most loaded device of N is simulated");
  set.value("--weights", "FORMAT", flags->weights, "Of the routed experts, in place of the model's (bf16, mxfp4, ...)");
  set.value("--activations", "FORMAT", flags->activations, "Inputs of the projections [default: as is usual]");
  set.value("--clock", "FREQUENCY", flags->clock,
            "Of the units: boost, sustained (under a power cap) or as in 1.7GHz [default: boost]");
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
    "run", "Simulate one MoE layer: the fastest strategy per concurrency",
    "  moesim run --model qwen3.5-397b-a17b-fp8 --device h200 --concurrency 1,2,4,8\n"
    "  moesim run --model gpt-oss-120b --device b200 --strategy grouped_gemm:block_m=32,stream_gemv --explain\n"
    "  moesim run --model mixtral-8x7b --set hbm.bandwidth=6TB/s --routing zipf:0.8 --format csv",
    define};

}  // namespace moesim
