// moesim compare: a profiler trace beside the simulation of the same MoE layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/routing_flags.h"
#include "tools/timeline_file.h"
#include "tools/trace_reading.h"
#include "traces/comparison.h"
#include "traces/views/comparison_timeline.h"
#include "traces/views/comparison_views.h"
#include "workloads/model_config.h"
#include "workloads/routing/draw_sample.h"

namespace moesim {
namespace {

constexpr const char* kDefaultSamples = "8";
constexpr std::int64_t kMostSamples = 100'000;
constexpr std::int64_t kMostDevices = 65'536;
constexpr std::int64_t kMostTokens = 1'000'000;
constexpr double kMemoryTolerance = 0.1;  // memory as a driver reports it beside the datasheet's
constexpr std::int64_t kHiddenPad = 256;  // engines pad the hidden size to at most a multiple of so many

struct CompareFlags {
  std::optional<std::string> measured, kernels, model, device, concurrency, strategy, scope, launch, tp, ep;
  std::optional<std::string> weights, activations, clock, timeline;
  std::string samples = kDefaultSamples, seed = "1";
  RoutingFlags routing;
  ModelFlags model_flags;
  HardwareFlags hardware;
  CalibrationFlags calibration;
  FormatFlag format;
};

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 6;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), names.size() > kMostNamed ? ", ..." : "");
}

// The device that the trace ran on: by its name, or, where a driver leaves that empty, by units and memory.
std::string device_of(const ProfilerTrace& trace, std::vector<std::string>& taken) {
  const auto fail = [](const std::string& found) -> std::string {
    throw InputError({"--device", "", "not given, and " + found, "a name from `moesim devices`, or a device file", ""});
  };
  if (trace.devices.empty()) return fail("the trace has no deviceProperties");
  const ProfiledDevice& device = trace.devices.front();
  std::vector<std::string> fitting;
  for (const std::string& name : device_names()) {
    const HardwareModel hardware = load_hardware(name);
    const auto& aliases = hardware.aliases;
    if (!device.name.empty() && std::find(aliases.begin(), aliases.end(), device.name) != aliases.end()) {
      taken.push_back(fmt::format("device {}, by its name '{}'", name, device.name));
      return name;
    }
    const double capacity = hardware[Hw::kHbmCapacity];
    const bool fits = hardware[Hw::kUnitCount] == static_cast<double>(device.units) &&
                      std::abs(static_cast<double>(device.memory) - capacity) <= kMemoryTolerance * capacity;
    if (fits) fitting.push_back(name);
  }
  const std::string seen =
      fmt::format("{} units and {:.0f} GB", device.units, static_cast<double>(device.memory) / 1e9);
  if (!device.name.empty()) return fail(fmt::format("'{}' is no device that is known", device.name));
  if (fitting.size() != 1) {
    return fail(fmt::format("the trace names none: {} fit {}", seen, fitting.empty() ? "no device" : listed(fitting)));
  }
  taken.push_back(fmt::format("device {}, the only one with {} (the trace names none)", fitting.front(), seen));
  return fitting.front();
}

// The only model with the sizes of the MoE operator's inputs.
std::string model_of_operators(const TraceLayers& layers, std::vector<std::string>& taken) {
  const auto fail = [](const std::string& found) -> std::string {
    throw InputError({"--model", "", "not given, and " + found, "a name from `moesim models`, or a config.json", ""});
  };
  const auto told = std::find_if(layers.sections.begin(), layers.sections.end(),
                                 [](const TraceSection& section) { return section.experts > 0; });
  if (told == layers.sections.end()) return fail("the trace does not tell it");
  std::vector<std::string> fitting;
  for (const std::string& name : model_names()) {
    const MoeModel model = load_model(name);
    const bool hidden = model.hidden <= told->hidden && told->hidden < model.hidden + kHiddenPad;
    if (hidden && model.experts == told->experts) fitting.push_back(name);
  }
  const std::string seen = fmt::format("{} experts and a hidden size of {}", told->experts, told->hidden);
  if (fitting.size() != 1) {
    return fail(fmt::format("{} fit {}", seen, fitting.empty() ? "no model that is known" : listed(fitting)));
  }
  taken.push_back(
      fmt::format("model {}, the only one of {} (padded by at most {})", fitting.front(), seen, kHiddenPad));
  return fitting.front();
}

bool has_stage(const TraceLayers& layers, StageSet stages) {
  for (const TraceSection& section : layers.sections) {
    const auto meets = [stages](const ClassifiedEvent& event) { return event.stages.meets(stages); };
    if (std::any_of(section.events.begin(), section.events.end(), meets)) return true;
  }
  return false;
}

// Engines pad the hidden size: what ran had the padded one.
void pad_hidden(const TraceLayers& layers, ComparisonRequest& request) {
  std::int64_t& hidden = request.model.hidden;
  for (const TraceSection& section : layers.sections) {
    if (section.hidden <= hidden || section.hidden >= hidden + kHiddenPad) continue;
    request.taken.push_back(
        fmt::format("hidden size {}, as the MoE operator has it (the model's {}, padded)", section.hidden, hidden));
    hidden = section.hidden;
  }
}

void read_shards(const CompareFlags& flags, const ProfilerTrace& trace, const TraceLayers& layers,
                 ComparisonRequest& request) {
  if (flags.tp) request.tp = parse_whole("--tp", *flags.tp, 1, kMostDevices);
  if (flags.ep) request.ep = parse_whole("--ep", *flags.ep, 1, kMostDevices);
  if (flags.tp || flags.ep || trace.world_size == 1) return;
  const bool exchanges = has_stage(layers, StageSet(MoeStage::kDispatch) | MoeStage::kCollect);
  const bool reduces = layers.by_class.contains(std::string(class_name(KernelClass::kCollective)));
  if (!exchanges && !reduces) return;  // devices that each hold all of it
  (exchanges ? request.ep : request.tp) = trace.world_size;
  request.taken.push_back(fmt::format("{} {}, the world size of distributedInfo with {} in the trace",
                                      exchanges ? "ep" : "tp", trace.world_size,
                                      exchanges ? "dispatch and collect" : "collectives"));
}

// Nothing to compare: says what there is instead.
[[noreturn]] void fail_without_layers(const ProfilerTrace& trace, const TraceLayers& layers) {
  std::vector<std::pair<Duration, std::string>> classes;
  for (const auto& [name, time] : layers.by_class) classes.emplace_back(time, name);
  std::sort(classes.rbegin(), classes.rend());
  std::string found = fmt::format("no MoE kernels among {} device events", trace.events.size());
  const double whole = std::max(layers.device_time.as_double(), 1.0);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    found += fmt::format("{}{} {:.1f} %", c == 0 ? ": " : ", ", classes[c].second,
                         100 * classes[c].first.as_double() / whole);
  }
  throw InputError({trace.file, "", found, "a trace with kernels of MoE layers (new names: --kernels FILE)", ""});
}

// Routings of so many tokens, as the flags say.
class Routings {
 public:
  Routings(const CompareFlags& flags, const MoeModel& model, std::uint64_t seed) : model_(model), seed_(seed) {
    const RouterShape shape{model.experts + model.zero_experts, model.topk};
    const ChosenRouting chosen =
        flags.routing.choose(&model, MatchScope{.router = shape, .layers = model.moe_layers, .seed = seed}, false);
    law_ = chosen.law;
    options_ = chosen.options;
    if (!chosen.matches.empty()) match_ = ", matched: " + match_text(chosen.matches.front());
    samples_ = parse_whole("--samples", flags.samples, 1, kMostSamples);
    if (law_.kind != RoutingKind::kTrace) return;
    trace_ = load_layers(law_.trace_file, hints_of(model), std::nullopt, "--routing");
    print_notes(law_.trace_file, *trace_);
    if (trace_->topk != model.topk) {
      throw InputError({law_.trace_file, "", fmt::format("{} experts a token", trace_->topk),
                        fmt::format("{}, the top-k of {}", model.topk, model.name), ""});
    }
  }

  [[nodiscard]] std::string name() const { return routing_name(law_, options_) + match_; }

  [[nodiscard]] std::vector<RoutedBatch> of(std::int64_t tokens) const {
    std::vector<RoutedBatch> batches;
    if (trace_) {
      batches = batches_of(*trace_, tokens);
      if (batches.front().tokens == tokens) return batches;
      throw InputError({law_.trace_file, "", fmt::format("{} tokens a step", batches.front().tokens),
                        fmt::format("{}, the tokens of the profiled step", tokens), ""});
    }
    for (std::int64_t sample = 0; sample < samples_; ++sample) {
      batches.push_back(draw_sample(law_, options_, {model_.experts + model_.zero_experts, model_.topk},
                                    match_.empty() ? 1 : model_.moe_layers, tokens, seed_,
                                    static_cast<std::uint64_t>(sample)));
    }
    return batches;
  }

 private:
  MoeModel model_;
  std::uint64_t seed_ = 0;
  Routing law_;
  RoutingOptions options_;
  std::string match_;
  std::int64_t samples_ = 0;
  std::optional<RoutedTrace> trace_;
};

StrategyChoice single_strategy(const std::string& text, Grid grid) {
  const std::vector<StrategyChoice> choices = parse_strategies({text}, grid);
  if (choices.size() == 1) return choices.front();
  throw InputError({"--strategy", "", fmt::format("{} strategies", choices.size()), "one", ""});
}

ComparisonRequest request_of(const CompareFlags& flags, const ProfilerTrace& trace, const TraceLayers& layers) {
  ComparisonRequest request;
  request.tool_version = kVersion;
  request.seed =
      static_cast<std::uint64_t>(parse_whole("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  const std::string device = flags.device ? *flags.device : device_of(trace, request.taken);
  request.hardware = flags.hardware.load(device);
  request.overrides = flags.hardware.overrides;
  if (flags.clock) request.clock_hz = parse_clock(*flags.clock, request.hardware);
  request.calibration = flags.calibration.load(request.hardware);
  const std::string model = flags.model ? *flags.model : model_of_operators(layers, request.taken);
  request.model = flags.model_flags.load(model);
  request.model_overrides = flags.model_flags.overrides;
  pad_hidden(layers, request);
  if (flags.weights) request.model.expert_weights = parse_format(*flags.weights, "--weights");
  request.activations = flags.activations ? parse_format(*flags.activations, "--activations")
                                          : default_activations(request.model.expert_weights);
  read_shards(flags, trace, layers, request);
  if (flags.concurrency) request.tokens = parse_whole("--concurrency", *flags.concurrency, 1, kMostTokens);
  if (flags.strategy) request.strategy = single_strategy(*flags.strategy, request.hardware.grid);
  if (flags.scope) {
    request.scope = parse_scope(*flags.scope);
    if (*request.scope == Scope::kStep) {
      throw InputError({"--scope", "", "'step'", "moe_layer or expert_ffn", ""});
    }
  }
  if (flags.launch) request.launch = parse_launch(*flags.launch);
  const auto routings = std::make_shared<Routings>(flags, request.model, request.seed);
  request.routing = routings->name();
  request.batches = [routings](std::int64_t tokens) { return routings->of(tokens); };
  return request;
}

CommandResult run(const CompareFlags& flags) {
  const OutputFormat format = flags.format.parse();
  if (!flags.measured)
    throw InputError({"--measured", "", "no value", "a profiler trace (trace.json or .json.gz)", ""});
  std::optional<TimelineFile> timeline;
  if (flags.timeline) timeline.emplace(*flags.timeline);
  const KernelClassifier classifier = flags.kernels ? KernelClassifier(*flags.kernels) : KernelClassifier();
  const ProfilerTrace trace = read_profiler_trace(*flags.measured);
  const TraceLayers layers = find_layers(trace, classifier);
  if (!layers.has_layers()) fail_without_layers(trace, layers);
  const Comparison comparison = compare(trace, layers, request_of(flags, trace, layers));
  std::ostringstream out;
  switch (format) {
    case OutputFormat::kTable:
      write_comparison_table(comparison, out);
      break;
    case OutputFormat::kJson:
      write_comparison_json(comparison, out);
      break;
    case OutputFormat::kCsv:
      write_comparison_csv(comparison, out);
      break;
  }
  const bool any = std::any_of(comparison.sections.begin(), comparison.sections.end(),
                               [](const SectionComparison& section) { return section.layer() != nullptr; });
  if (any) {
    std::string note;
    if (timeline) {
      note = timeline->write([&](TrackWriter& w) { write_comparison_timeline(trace, layers, comparison, w); });
    }
    return {.output = out.str(), .complaint = std::move(note)};
  }
  return {
      .output = out.str(),
      .complaint = "nothing could be simulated: " + std::get<Infeasible>(comparison.sections.front().simulated).reason,
      .exit_code = ExitCode::kInfeasible};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<CompareFlags>();
  set.value("--measured", "FILE", flags->measured,
            "A trace of the PyTorch profiler, CUDA or ROCm; plain or packed by gzip");
  set.value("--kernels", "FILE", flags->kernels,
            "Rules for kernel names, tried before ours (schema moesim.kernel_classes/1)");
  set.value("--model", "NAME|PATH", flags->model,
            "A name from `moesim models`, or a config.json [default: by the sizes in the trace]");
  set.value("--device", "NAME|PATH", flags->device,
            "A name from `moesim devices`, or a device file [default: as the trace says]");
  set.value("--concurrency", "N", flags->concurrency, "Tokens of the step [default: as the trace says]");
  set.value("--strategy", "NAME", flags->strategy,
            "As in `moesim run`; or a stack, as vllm-triton [default: by the kernels of each section]");
  set.value("--scope", "moe_layer|expert_ffn", flags->scope,
            "With or without routing [default: moe_layer where the trace has its kernels]");
  set.value("--launch", "graph|stream|programmatic", flags->launch, "How kernels are launched [default: as seen]");
  set.value("--tp", "N", flags->tp, "Tensor parallel devices [default: distributedInfo, where there are collectives]");
  set.value("--ep", "N", flags->ep, "Expert parallel devices [default: distributedInfo, where tokens are dispatched]");
  set.value("--weights", "FORMAT", flags->weights,
            "Of the routed experts, as in bf16, fp8_block128, mxfp4 [default: the model's]");
  set.value("--activations", "FORMAT", flags->activations, "Inputs of the projections [default: by the weights]");
  set.value("--clock", "CLOCK", flags->clock, "boost, sustained or a frequency as in 1.7GHz [default: boost]");
  set.value("--samples", "N", flags->samples, "Routings drawn");
  set.value("--seed", "N", flags->seed, "Of the routings");
  flags->routing.add(set);
  flags->model_flags.add(set);
  flags->hardware.add(set);
  flags->calibration.add(set);
  set.value("--timeline", "FILE", flags->timeline,
            fmt::format("Also write both sides as one timeline, aligned layer by layer, for ui.perfetto.dev: {}",
                        TimelineFile::kFormats));
  flags->format.add(set);
  return [flags] { return run(*flags); };
}

}  // namespace

constinit const Command kCompareCommand = {
    "compare", "A PyTorch-profiler trace beside the simulation of its MoE layers, stage by stage",
    "  moesim compare --measured trace.json.gz --model qwen3-30b-a3b\n"
    "  moesim compare --measured trace.json.gz --model qwen3-30b-a3b --device h200 --concurrency 4 --format json\n"
    "  moesim compare --measured trace.json.gz --model qwen3-30b-a3b --kernels my_kernels.json --timeline both.pftrace",
    define};

}  // namespace moesim
