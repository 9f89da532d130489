// moesim models: the models that come with moesim, or one of them (or of any config.json) in full.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/listing.h"
#include "workloads/model_config.h"
#include "workloads/parameter_count.h"
#include "workloads/routing/routing_options.h"

namespace moesim {
namespace {

struct ModelsFlags {
  std::optional<std::string> name;
  ModelFlags model;
  FormatFlag format;
};

// The first words of where a model was read.
std::string shortened(const std::string& source) {
  constexpr std::size_t kLongest = 60;
  if (source.size() <= kLongest) return source;
  return source.substr(0, source.rfind(' ', kLongest)) + " ...";
}

constexpr double kBillion = 1e9;

double billions(std::int64_t parameters) { return static_cast<double>(parameters) / kBillion; }

std::int64_t layers_with(const MoeModel& model, std::size_t mixer) {
  return std::count_if(model.decoder_layers.begin(), model.decoder_layers.end(),
                       [&](const DecoderLayer& layer) { return layer.mixer == mixer; });
}

// "gated_delta_net x45"; with one kind in all layers its name alone.
std::vector<std::string> mixer_names(const MoeModel& model) {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < model.mixers.size(); ++m) {
    const std::int64_t layers = layers_with(model, m);
    const std::string& name = model.mixers[m].name;
    names.push_back(layers == model.layers ? name : fmt::format("{} x{}", name, layers));
  }
  return names;
}

// Of the routed experts, and further ones of other parts.
std::vector<std::string> weight_formats(const MoeModel& model) {
  std::vector<std::string> names = {format_name(model.expert_weights)};
  const auto add = [&](WeightFormat format) {
    const std::string name = format_name(format);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  if (model.shared_experts > 0) add(model.other_weights);
  for (const Mixer& mixer : model.mixers) {
    for (const WeightMatrix& matrix : mixer.before) add(matrix.format);
    for (const WeightMatrix& matrix : mixer.after) add(matrix.format);
  }
  add(model.head_weights);
  return names;
}

std::vector<std::string> mixer_formats(const MoeModel& model) {
  std::vector<std::string> names;
  for (const Mixer& mixer : model.mixers) {
    for (const std::vector<WeightMatrix>* side : {&mixer.before, &mixer.after}) {
      for (const WeightMatrix& matrix : *side) {
        const std::string name = format_name(matrix.format);
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  }
  return names;
}

Listing list_models() {
  Listing listing;
  listing.rows_key = "models";
  listing.columns = {{"name", "name"},
                     {"hidden", "hidden"},
                     {"expert_intermediate", "width"},
                     {"experts", "experts"},
                     {"topk", "top-k"},
                     {"shared_experts", "shared"},
                     {"moe_layers", "MoE layers"},
                     {"total_parameters_billion", "total, 10^9"},
                     {"active_parameters_billion", "active"},
                     {"attention", "attention"},
                     {"weights", "weights"},
                     {"source", "source"}};
  for (const std::string& name : model_names()) {
    const MoeModel model = load_model(name);
    listing.rows.push_back({model.name, model.hidden, model.expert_intermediate, model.experts, model.topk,
                            model.shared_experts, model.moe_layers, billions(total_parameters(model).total()),
                            billions(active_parameters(model).total()), mixer_names(model), weight_formats(model),
                            shortened(model.source)});
  }
  return listing;
}

std::vector<std::string> origin_lines(const MoeModel& model) {
  std::vector<std::string> lines;
  for (const auto& [name, origin] : model.origins) lines.push_back(fmt::format("{}: {}", name, origin));
  return lines;
}

Listing show_model(const MoeModel& model) {
  const ParameterCount total = total_parameters(model);
  const ParameterCount active = active_parameters(model);
  std::int64_t dense_layers = 0, hash_layers = 0;
  for (const DecoderLayer& layer : model.decoder_layers) {
    dense_layers += layer.dense_intermediate > 0 ? 1 : 0;
    hash_layers += layer.hash_routed ? 1 : 0;
  }
  Listing listing;
  listing.facts = {
      {{"name", "name"}, model.name},
      {{"family", "family"}, model.family},
      {{"file", "file"}, model.file},
      {{"source", "source"}, model.source},
      {{"hidden", "hidden width"}, model.hidden},
      {{"expert_intermediate", "expert width"}, model.expert_intermediate},
      {{"experts", "routed experts"}, model.experts},
      {{"topk", "top-k"}, model.topk},
      {{"gated", "gated (three matrices)"}, model.gated},
      {{"shared_experts", "shared experts"}, model.shared_experts},
      {{"shared_intermediate", "shared width, in all"}, model.shared_intermediate},
      {{"shared_gate", "gate on shared expert"}, model.shared_gate},
      {{"latent", "latent width"}, model.latent},
      {{"zero_experts", "zero experts"}, model.zero_experts},
      {{"layers", "layers"}, model.layers},
      {{"moe_layers", "MoE layers"}, model.moe_layers},
      {{"hash_layers", "of these, hash-routed"}, hash_layers},
      {{"dense_layers", "layers with a dense FFN"}, dense_layers},
      {{"scoring", "router scores"}, scoring_name(model.scoring)},
      {{"norm_topk", "weights renormalised"}, model.norm_topk},
      {{"routed_scale", "routed scale"}, model.routed_scale},
      {{"groups", "expert groups"}, model.groups},
      {{"topk_groups", "groups a token may use"}, model.topk_groups},
      {{"attention", "attention"}, mixer_names(model)},
      {{"vocabulary", "vocabulary"}, model.vocabulary},
      {{"tied_embeddings", "tied embeddings"}, model.tied_embeddings},
      {{"expert_weights", "routed experts' weights"}, format_name(model.expert_weights)},
      {{"other_weights", "shared experts' weights"}, format_name(model.other_weights)},
      {{"dense_weights", "dense FFNs' weights"}, format_name(model.dense_weights)},
      {{"attention_weights", "attention's weights"}, mixer_formats(model)},
      {{"head_weights", "embeddings and head"}, format_name(model.head_weights)},
      {{"total_parameters_billion", "parameters, 10^9"}, billions(total.total())},
      {{"active_parameters_billion", "of these, of one token"}, billions(active.total())},
      {{"routed_parameters_billion", "routed weights, 10^9"}, billions(total.routed_experts)},
      {{"routed_active_parameters_billion", "of these, of one token"}, billions(active.routed_experts)},
      {{"mixer_parameters_billion", "attention, 10^9"}, billions(total.mixers)},
      {{"shared_parameters_billion", "shared experts, 10^9"}, billions(total.shared_experts)},
      {{"dense_parameters_billion", "dense FFNs, 10^9"}, billions(total.dense)},
      {{"embedding_parameters_billion", "embeddings, head, 10^9"}, billions(total.embeddings + total.head)},
      {{"origins", "origin of each value"}, origin_lines(model)},
  };
  return listing;
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ModelsFlags>();
  set.positional("NAME|PATH", flags->name, "Show this model in full: a name, or a Hugging Face config.json");
  flags->model.add(set);
  flags->format.add(set);
  return [flags]() -> CommandResult {
    const OutputFormat format = flags->format.parse();
    if (!flags->name && !flags->model.overrides.empty()) {
      throw InputError(
          {"--model-override", "", "no model that it is for", "moesim models NAME --model-override ...", ""});
    }
    const Listing listing = flags->name ? show_model(flags->model.load(*flags->name)) : list_models();
    return {.output = render(listing, format), .complaint = ""};
  };
}

}  // namespace

constinit const Command kModelsCommand = {"models", "List the models that come with moesim, or show one in full",
                                          "  moesim models\n  moesim models qwen3.5-397b-a17b-fp8 --format json",
                                          define};

}  // namespace moesim
