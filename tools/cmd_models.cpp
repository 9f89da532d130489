// moesim models: the models that come with moesim, or one of them (or of any config.json) in full.
#include <fmt/format.h>

#include <memory>

#include "tools/command_line.h"
#include "tools/listing.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

struct ModelsFlags {
  std::optional<std::string> name;
  FormatFlag format;
};

const char* scoring_name(Scoring scoring) {
  switch (scoring) {
    case Scoring::kSoftmax:
      return "softmax";
    case Scoring::kSigmoid:
      return "sigmoid";
    case Scoring::kSqrtSoftplus:
      return "sqrt_softplus";
  }
  return "";
}

// The first words of where a model was read.
std::string shortened(const std::string& source) {
  constexpr std::size_t kLongest = 60;
  if (source.size() <= kLongest) return source;
  return source.substr(0, source.rfind(' ', kLongest)) + " ...";
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
                     {"expert_weights", "weights"},
                     {"source", "source"}};
  for (const std::string& name : model_names()) {
    const MoeModel model = load_model(name);
    listing.rows.push_back({model.name, model.hidden, model.expert_intermediate, model.experts, model.topk,
                            model.shared_experts, model.moe_layers, format_name(model.expert_weights),
                            shortened(model.source)});
  }
  return listing;
}

Listing show_model(const MoeModel& model) {
  const auto matrices = static_cast<double>(model.gated ? 3 : 2);
  const double expert_parameters =
      matrices * static_cast<double>(model.hidden) * static_cast<double>(model.expert_intermediate);
  constexpr double kBillion = 1e9;
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
      {{"layers", "layers"}, model.layers},
      {{"moe_layers", "MoE layers"}, model.moe_layers},
      {{"scoring", "router scores"}, scoring_name(model.scoring)},
      {{"norm_topk", "weights renormalised"}, model.norm_topk},
      {{"routed_scale", "routed scale"}, model.routed_scale},
      {{"groups", "expert groups"}, model.groups},
      {{"topk_groups", "groups a token may use"}, model.topk_groups},
      {{"expert_weights", "routed experts' weights"}, format_name(model.expert_weights)},
      {{"other_weights", "other weights"}, format_name(model.other_weights)},
      {{"routed_parameters_billion", "routed weights, 10^9"},
       expert_parameters * static_cast<double>(model.experts) * static_cast<double>(model.moe_layers) / kBillion},
      {{"routed_active_parameters_billion", "of these, of one token"},
       expert_parameters * static_cast<double>(model.topk) * static_cast<double>(model.moe_layers) / kBillion},
  };
  return listing;
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ModelsFlags>();
  set.positional("NAME|PATH", flags->name, "Show this model in full: a name, or a Hugging Face config.json");
  flags->format.add(set);
  return [flags]() -> CommandResult {
    const OutputFormat format = flags->format.parse();
    const Listing listing = flags->name ? show_model(load_model(*flags->name)) : list_models();
    return {.output = render(listing, format), .complaint = ""};
  };
}

}  // namespace

constinit const Command kModelsCommand = {"models", "List the models that come with moesim, or show one in full",
                                          "  moesim models\n  moesim models qwen3.5-397b-a17b-fp8 --format json",
                                          define};

}  // namespace moesim
