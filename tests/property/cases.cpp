#include "tests/property/cases.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "hwmodels/loader.h"
#include "workloads/model_config.h"
#include "workloads/router.h"

namespace moesim::property {

const MoeModel& model_of(const std::string& name) {
  static std::map<std::string, MoeModel> models;
  const auto found = models.find(name);
  if (found != models.end()) return found->second;
  const auto read = [&] {
    if (name == "tiny") return testkit::tiny_model();
    if (name == "tiny-latent") return testkit::tiny_latent_model();
    if (name == "tiny-zero") return testkit::tiny_zero_model();
    return load_model(name);
  };
  return models.emplace(name, read()).first->second;
}

std::string Case::text() const {
  return fmt::format("{} {} x {} tp {} ep {} tokens {} {} seed {} {} {}", model, format, activations, tp, ep, tokens,
                     routing, seed, scope_name(scope), launch_name(launch));
}

RoutedBatch Case::batch() const {
  const MoeModel& m = model_of(model);
  return draw_batch(parse_routing(routing), m.experts + m.zero_experts, m.topk, tokens, seed, 0);
}

MoeLayer Case::layer() const { return layer_of(batch()); }

MoeLayer Case::layer_of(const RoutedBatch& batch) const {
  MoeModel m = model_of(model);
  m.expert_weights = parse_format(format, "test");
  return shard_layer(m, batch, parse_format(activations, "test"), tp, ep);
}

PredictOptions Case::options() const {
  PredictOptions options;
  options.scope = scope;
  options.launch = launch;
  return options;
}

Case random_case(testkit::Random& random) {
  const auto pick = [&](const auto& values) {
    return values[static_cast<std::size_t>(random.whole(0, static_cast<std::int64_t>(std::size(values)) - 1))];
  };
  static constexpr const char* kModels[] = {
      "tiny",        "tiny-latent",  "tiny-zero",   "olmoe-1b-7b",       "qwen3-30b-a3b",
      "gpt-oss-20b", "mixtral-8x7b", "deepseek-v3", "qwen3.5-397b-a17b", "nemotron-3-super-120b-a12b-fp8"};
  static constexpr const char* kRoutings[] = {"uniform", "zipf:0.8", "lognormal:1", "balanced", "same", "disjoint"};
  static constexpr std::int64_t kTp[] = {1, 1, 2, 8};
  static constexpr std::int64_t kEp[] = {1, 1, 2, 8};
  static constexpr LaunchMode kLaunch[] = {LaunchMode::kGraph, LaunchMode::kStream, LaunchMode::kProgrammatic};
  Case c;
  c.model = pick(kModels);
  c.routing = pick(kRoutings);
  c.format = pick(format_names());
  c.activations = format_name(default_activations(parse_format(c.format, "test")));
  if (random.chance(0.2)) c.activations = "bf16";
  c.tokens = static_cast<std::int64_t>(random.spread(1, 65));
  c.tp = pick(kTp);
  c.ep = pick(kEp);
  c.seed = random.next();
  c.scope = random.chance(0.5) ? Scope::kMoeLayer : Scope::kExpertFfn;
  c.launch = pick(kLaunch);
  return c;
}

const StrategyChoice& strategy_choice(const std::string& text) {
  static std::map<std::string, StrategyChoice> choices;
  const auto found = choices.find(text);
  return found != choices.end() ? found->second : choices.emplace(text, parse_strategy(text)).first->second;
}

std::optional<Prediction> feasible(const MoeLayer& layer, const HardwareModel& hardware, const std::string& strategy,
                                   const PredictOptions& options) {
  PredictionOrInfeasible result = predict(layer, hardware, strategy_choice(strategy), options);
  if (auto* prediction = std::get_if<Prediction>(&result)) return std::move(*prediction);
  return std::nullopt;
}

const HardwareModel& device(const std::string& name) {
  static std::map<std::string, HardwareModel> devices;
  const auto found = devices.find(name);
  return found != devices.end() ? found->second : devices.emplace(name, load_hardware(name)).first->second;
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const Strategy& strategy : strategy_catalogue()) {
    for (const std::string& name : device_names()) {
      if (device(name).grid == strategy.grid) pairs.push_back({strategy.name, name});
    }
  }
  return pairs;
}

std::string pair_name(const Pair& pair) {
  std::string name = pair.strategy + "_on_" + pair.device;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace moesim::property
