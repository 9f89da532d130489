// moesim tune: the best tile configuration of a strategy at each number of tokens, for a serving stack to read.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "sim/io/input_error.h"
#include "sim/units/integer.h"
#include "tools/command_line.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_request.h"
#include "traces/tile_configs.h"
#include "traces/views/tune_views.h"
#include "workloads/strategies/stack_profiles.h"
#include "workloads/studies/tune.h"

namespace moesim {
namespace {

// What vLLM's benchmark_moe.py tunes for.
constexpr const char* kDefaultTokens = "1,2,4,8,16,24,32,48,64,96,128,256,512,1024,1536,2048,3072,4096";
constexpr std::int64_t kDefaultSamples = 2;
constexpr std::size_t kMostConfigurations = 100'000;
constexpr std::size_t kMostValues = 64;

struct TuneFlags {
  RequestFlags request;
  std::string strategy = "vllm-triton";
  std::vector<std::string> space;
  std::string min_gain = fmt::format("{:g}", kUsualGain * 100);
  std::optional<std::string> out;
  FormatFlag format;
};

// "block_m=16,32".
ParameterRange parse_range(const std::string& text, const Strategy& strategy) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError({"--space", "", fmt::format("'{}'", text), "PARAMETER=VALUE,VALUE,…", ""});
  }
  ParameterRange range{text.substr(0, equals), {}};
  for (const std::string& piece : split_list("--space", text.substr(equals + 1))) {
    range.values.push_back(parse_whole("--space", piece, 0, std::int64_t{1} << 20));
    check_parameters(strategy, {{range.name, range.values.back()}}, "--space");
  }
  std::ranges::sort(range.values);
  const auto repeated = std::ranges::unique(range.values);
  range.values.erase(repeated.begin(), repeated.end());
  if (range.values.size() > kMostValues) {
    throw InputError({"--space", range.name, fmt::format("{} values", range.values.size()),
                      fmt::format("at most {}", kMostValues), ""});
  }
  return range;
}

// The usual space with what --space says; parameters given with the strategy stay as they are.
std::vector<ParameterRange> space_of(const TuneFlags& flags, const ConcurrencyRequest& request) {
  const StrategyChoice& choice = request.strategies.front();
  std::vector<ParameterRange> space = tile_space(*choice.strategy, request.model.expert_weights);
  std::vector<std::string> named;
  for (const std::string& text : flags.space) {
    ParameterRange range = parse_range(text, *choice.strategy);
    if (std::ranges::find(named, range.name) != named.end()) {
      throw InputError({"--space", "", fmt::format("'{}' twice", range.name), "it once", ""});
    }
    if (choice.parameters.contains(range.name)) {
      throw InputError({"--space", "", fmt::format("{} beside --strategy {}", range.name, choice.text),
                        "either a range or one value", ""});
    }
    named.push_back(range.name);
    const auto known = std::ranges::find(space, range.name, &ParameterRange::name);
    if (known == space.end()) {
      space.push_back(std::move(range));
    } else {
      *known = std::move(range);
    }
  }
  std::erase_if(space, [&](const ParameterRange& range) { return choice.parameters.contains(range.name); });
  if (space.empty()) {
    throw InputError(
        {"--strategy", "", fmt::format("'{}'", choice.text),
         "a strategy with a space of tiles (grouped_gemm, grouped_gemm_persistent, stream_gemv, vllm-triton, "
         "sglang-triton), or --space",
         ""});
  }
  if (size_of(space) > kMostConfigurations) {
    throw InputError({"--space", "", fmt::format("{} configurations", size_of(space)),
                      fmt::format("at most {}", kMostConfigurations), ""});
  }
  return space;
}

TuneRequest tune_request(const TuneFlags& flags) {
  RequestFlags of_layer = flags.request;
  of_layer.strategies = {flags.strategy};
  const bool own_tokens = of_layer.routing.routing && of_layer.routing.routing->starts_with("trace:");
  if (!of_layer.samples && !own_tokens) of_layer.samples = fmt::format("{}", kDefaultSamples);
  TuneRequest request;
  request.base = request_of(of_layer);
  if (request.base.strategies.size() != 1 || request.base.strategies.front().strategy == nullptr) {
    throw InputError({"--strategy", "", fmt::format("'{}'", flags.strategy), "one strategy or stack profile", ""});
  }
  if (request.base.options.scope == Scope::kStep) {
    throw InputError({"--scope", "", "step", "moe_layer or expert_ffn", ""});
  }
  request.space = space_of(flags, request.base);
  request.min_gain = parse_number("--min-gain", flags.min_gain, 0, 100) / 100;
  return request;
}

// The file for the stack, but for its tiles.
struct Target {
  TileFile file;
  std::string name;
};

Target target_of(const TuneRequest& request) {
  const ConcurrencyRequest& base = request.base;
  const StrategyChoice& choice = base.strategies.front();
  if (std::string_view(choice.strategy->name) != "grouped_gemm") {
    throw InputError({"--out", "", fmt::format("--strategy {}", choice.text),
                      "vllm-triton, sglang-triton or grouped_gemm: only these read such files", ""});
  }
  Target target;
  target.file = {.experts = divide_up(base.model.experts, base.ep),
                 .width = divide_up(base.model.expert_intermediate, base.tp),
                 .weights = base.model.expert_weights,
                 .tiles = {}};
  const bool sglang = choice.stack != nullptr && std::string_view(choice.stack->name) == "sglang-triton";
  target.name = tile_file_name(target.file, base.hardware, sglang ? TileStack::kSglang : TileStack::kVllm);
  return target;
}

CommandResult tune(const TuneFlags& flags) {
  const OutputFormat format = flags.format.parse();
  TuneRequest request = tune_request(flags);
  std::optional<Target> target;
  std::optional<OutputFile> file;
  std::string path;
  if (flags.out) {
    target = target_of(request);
    path = (std::filesystem::path(*flags.out) / target->name).string();
    file.emplace(path, "--out");
  }
  Progress progress;
  request.base.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all, "configurations"); };
  const TuneStudy study = run_tune_study(request);
  if (!study.feasible()) {
    return {.output = "",
            .complaint = fmt::format("no configuration of {} is feasible", study.strategy),
            .exit_code = ExitCode::kInfeasible};
  }
  std::string complaint;
  if (target) {
    const StrategyChoice& choice = request.base.strategies.front();
    for (const TunePoint& point : study.points) {
      if (!point.chosen) continue;
      Parameters tile = point.chosen->tile;
      tile.merge(Parameters(choice.parameters));
      target->file.tiles[point.tokens] = tile;
    }
    file->write(tile_file_text(target->file));
    complaint = fmt::format("{}, {} configurations", path, target->file.tiles.size());
  }
  std::ostringstream out;
  switch (format) {
    case OutputFormat::kTable:
      write_tune_table(study, out);
      break;
    case OutputFormat::kJson:
      write_tune_json(study, out);
      break;
    case OutputFormat::kCsv:
      write_tune_csv(study, out);
      break;
  }
  return {.output = out.str(), .complaint = complaint};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<TuneFlags>();
  set.value("--strategy", "NAME", flags->strategy,
            "What is tuned, compared with its own default: a stack profile or strategy; parameters given with it stay");
  set.repeated("--space", "PARAMETER=LIST", flags->space,
               "Values to search, in place of the usual ones, as in block_m=16,32");
  set.value("--min-gain", "PERCENT", flags->min_gain,
            "Deviate from the default only where that saves so much of its time: a search over-fits a model's errors");
  set.value("--out", "FOLDER", flags->out, "Also write the file that vLLM or SGLang reads, named as they name it");
  flags->request.usual_concurrency = kDefaultTokens;
  flags->request.add_of_layer(set, kDefaultSamples);
  flags->format.add(set);
  return [flags] { return tune(*flags); };
}

}  // namespace

constinit const Command kTuneCommand = {
    "tune", "Search a kernel's tile configurations, and write what vLLM and SGLang read",
    "  moesim tune --model qwen3-30b-a3b --concurrency 1,64 --samples 1 --space block_k=64,128 --space num_stages=3,4\n"
    "  moesim tune --model mixtral-8x7b --tp 8 --strategy sglang-triton --concurrency 16 --space group_m=1 --out .\n"
    "  moesim tune --strategy stream_gemv --model gpt-oss-20b --concurrency 1 --samples 1 --format csv",
    define};

}  // namespace moesim
