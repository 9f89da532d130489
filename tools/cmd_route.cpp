// moesim route: which experts tokens are sent to, how evenly, and a trace of it.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/progress.h"
#include "tools/route_views.h"
#include "tools/routing_flags.h"
#include "traces/routed_trace.h"
#include "traces/routed_trace_writer.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

constexpr const char* kDefaultModel = "qwen3.5-397b-a17b-fp8";
constexpr std::int64_t kDefaultSteps = 16, kDefaultSamples = 8;
constexpr std::int64_t kMostExperts = 1'000'000;
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostSteps = 100'000'000;
constexpr std::int64_t kMostSamples = 100'000;

struct RouteFlags {
  std::optional<std::string> model, experts, topk, layers, concurrency, steps, samples;
  std::string seed = "1";
  RoutingFlags routing;
  std::optional<std::string> out;
  FormatFlag format;
};

std::int64_t whole_or(const char* flag, const std::optional<std::string>& text, std::int64_t otherwise,
                      std::int64_t most) {
  return text ? parse_whole(flag, *text, 1, most) : otherwise;
}

// Sizes of the model, or as stated; stated ones go before the model's.
std::optional<MoeModel> read_sizes(const RouteFlags& flags, RouteReport& report) {
  std::optional<MoeModel> model;
  if (flags.model || !flags.experts) model = load_model(flags.model.value_or(kDefaultModel));
  if (!model && !flags.topk) throw InputError({"--topk", "", "nothing", "experts per token, beside --experts", ""});
  if (model) {
    report.model = model->name;
    report.model_file = model->file;
  }
  report.router.experts = whole_or("--experts", flags.experts, model ? model->experts : 0, kMostExperts);
  report.router.topk = whole_or("--topk", flags.topk, model ? model->topk : 0, report.router.experts);
  if (report.router.topk > report.router.experts) {
    throw InputError({"--experts", "", fmt::format("{}", report.router.experts),
                      fmt::format("at least {}, the top-k of {}", report.router.topk, report.model), ""});
  }
  report.layers = whole_or("--layers", flags.layers, model ? model->moe_layers : 1, kMostLayers);
  return model;
}

void read_recorded(const RouteFlags& flags, RouteReport& report, RoutingStudyRequest& request) {
  for (const auto& [flag, value] : {std::pair{"--concurrency", &flags.concurrency},
                                    {"--layers", &flags.layers},
                                    {"--steps", &flags.steps},
                                    {"--samples", &flags.samples},
                                    {"--out", &flags.out}}) {
    if (*value) throw InputError({flag, "", **value, "nothing beside a recorded trace, which has its own", ""});
  }
  report.recorded = true;
  const std::string& path = report.chosen.law.trace_file;
  request.trace = read_routed_trace(path, report.router.experts);
  const std::int64_t topk = request.trace.front().topk;
  if (topk == report.router.topk) return;
  throw InputError({path, "", fmt::format("{} experts a token", topk),
                    fmt::format("{}, as in --model or --topk", report.router.topk), ""});
}

// A trace has one concurrency and one seed.
std::unique_ptr<RoutedTraceWriter> open_trace(const RouteFlags& flags, const RoutingStudyRequest& request) {
  if (!flags.out) return nullptr;
  if (request.concurrencies.size() > 1) {
    throw InputError({"--out", "", fmt::format("{} concurrencies", request.concurrencies.size()),
                      "one, as in --concurrency 64", ""});
  }
  if (request.samples > 1) throw InputError({"--out", "", fmt::format("{} samples", request.samples), "one", ""});
  const RoutedTraceShape shape{.steps = request.steps,
                               .layers = request.layers,
                               .tokens = request.concurrencies.front(),
                               .topk = request.router.topk,
                               .experts = request.router.experts};
  return std::make_unique<RoutedTraceWriter>(*flags.out, shape, "--out");
}

CommandResult route(const RouteFlags& flags) {
  const OutputFormat format = flags.format.parse();
  RouteReport report;
  const std::optional<MoeModel> model = read_sizes(flags, report);
  report.seed =
      static_cast<std::uint64_t>(parse_whole("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  report.steps = whole_or("--steps", flags.steps, kDefaultSteps, kMostSteps);
  report.samples = whole_or("--samples", flags.samples, flags.out ? 1 : kDefaultSamples, kMostSamples);

  RoutingStudyRequest request;
  request.router = report.router;
  request.layers = report.layers;
  request.steps = report.steps;
  request.samples = report.samples;
  request.seed = report.seed;
  request.concurrencies = parse_concurrencies(flags.concurrency.value_or(kDefaultConcurrency));
  const std::unique_ptr<RoutedTraceWriter> writer = open_trace(flags, request);

  const MatchScope scope{
      .router = report.router, .layers = report.layers, .seeds = report.samples, .seed = report.seed};
  report.chosen = flags.routing.choose(model ? &*model : nullptr, scope, true);
  report.routing = routing_name(report.chosen.law, report.chosen.options);
  request.law = report.chosen.law;
  request.options = report.chosen.options;
  if (request.law.kind == RoutingKind::kTrace) read_recorded(flags, report, request);

  Progress progress;
  request.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all, "routing"); };
  if (writer) request.sink = [&](const RoutedBatch& batch) { writer->add(batch); };
  report.study = run_routing_study(request);
  if (writer) {
    report.out_file = flags.out.value_or("");
    writer->finish({.model = report.model,
                    .source = fmt::format("moesim {} route", kVersion),
                    .routing = report.routing,
                    .seed = report.seed});
  }
  return {.output = render(report, format), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<RouteFlags>();
  set.value("--model", "NAME|PATH", flags->model,
            fmt::format("A name from `moesim models`, or a Hugging Face config.json [default: {}]", kDefaultModel));
  set.value("--experts", "N", flags->experts, "Routed experts, in place of the model's");
  set.value("--topk", "N", flags->topk, "Experts per token, in place of the model's");
  set.value("--layers", "N", flags->layers, "MoE layers, each with its popularity [default: the model's]");
  set.value("--concurrency", "LIST", flags->concurrency,
            fmt::format("Tokens of a step, as in 1,2,8-16 [default: {}]", kDefaultConcurrency));
  set.value("--steps", "N", flags->steps, fmt::format("Steps of the same requests [default: {}]", kDefaultSteps));
  set.value(
      "--samples", "N", flags->samples,
      fmt::format("Traces, of seeds from --seed on, each with popularities and requests of its own [default: {}, with "
                  "--out 1]",
                  kDefaultSamples));
  set.value("--seed", "N", flags->seed, "The same seed gives the same bytes out");
  flags->routing.add(set);
  flags->routing.add_of_traces(set);
  set.value("--out", "FILE.npy", flags->out,
            "Write the trace, [steps, layers, tokens, k], and FILE.json that says where it comes from");
  flags->format.add(set);
  return [flags] { return route(*flags); };
}

}  // namespace

constinit const Command kRouteCommand = {
    "route", "Draw which experts tokens go to: loads by concurrency, a skew to match, a trace",
    "  moesim route --model qwen3.5-397b-a17b-fp8 --routing zipf:0.63 --concurrency 1,3,64\n"
    "  moesim route --match duplicates=5%@3,lognormal --samples 2\n"
    "  moesim route --model deepseek-v3 --groups model --domains 4 --same-domain --routing lognormal:0.8 --steps 2 "
    "--samples 2 --concurrency 64\n"
    "  moesim route --experts 64 --topk 6 --routing zipf:0.8 --sticky 0.4 --concurrency 16 --steps 100 --out trace.npy",
    define};

}  // namespace moesim
