#include "traces/importers/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/units/check.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"
#include "workloads/strategies/stack_profiles.h"

namespace moesim {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kDraws = 5;  // of a routing that is drawn by chance, as the collectors of such tables take

constexpr Importer kImporters[] = {
    {"aiconfigurator", "ai-dynamo/aiconfigurator MoE tables: whole layers of vLLM, SGLang, TensorRT-LLM",
     import_aiconfigurator},
    {"aiter", "ROCm/aiter tuned fused MoE", import_aiter},
    {"infersim", "alibaba/InferSim grouped GEMM: DeepGEMM masked", import_infersim},
    {"llmservingsim", "casys-kaist/LLMServingSim MoE: tokens x distinct experts", import_llmservingsim},
};

}  // namespace

std::span<const Importer> importers() { return kImporters; }

ImportBuilder::ImportBuilder(const ImportSource& source)
    : source_(source), file_(source.path.substr(source.path.rfind('/') + 1)) {
  for (const std::string& name : model_names()) models_.push_back(load_model(name));
  std::stable_sort(models_.begin(), models_.end(), [](const MoeModel& a, const MoeModel& b) {
    return a.name.size() < b.name.size();  // "x" before "x-fp8"
  });
}

std::string ImportBuilder::name_of(const MoeMeasurement& row) const {
  for (const MoeModel& model : models_) {
    if (model.hidden == row.hidden && model.expert_intermediate == row.intermediate && model.experts == row.experts &&
        model.topk == row.topk && model.gated == row.gated) {
      return model.name;
    }
  }
  return fmt::format("moe-{}x{}-{}of{}", row.hidden, row.intermediate, row.topk, row.experts);
}

std::string ImportBuilder::drawn_trace(const Routing& routing, std::int64_t experts, std::int64_t topk,
                                       std::int64_t tokens) {
  std::string name = routing_name(routing);
  std::replace(name.begin(), name.end(), ':', '_');
  const std::string path = fmt::format("routes/{}-{}of{}-T{}.npy", name, topk, experts, tokens);
  std::vector<RoutedBatch>& batches = result_.traces[path];
  if (!batches.empty()) return path;
  const bool chance = routing.kind != RoutingKind::kBalanced && routing.kind != RoutingKind::kSame;
  for (std::uint64_t draw = 0; draw < (chance ? kDraws : 1); ++draw) {
    batches.push_back(draw_batch(routing, experts, topk, tokens, kSeed, draw));
  }
  return path;
}

std::string ImportBuilder::trace(const std::string& name, std::vector<RoutedBatch> batches) {
  std::string path = fmt::format("routes/{}.npy", name);
  result_.traces.emplace(path, std::move(batches));
  return path;
}

void ImportBuilder::add(MoeMeasurement row, const std::string& where) {
  const StackProfile* const stack = find_stack(row.implementation);
  MOESIM_CHECK(stack != nullptr);
  row.device = source_.hardware.name;
  row.model_name = name_of(row);
  row.strategy = stack->strategy;
  row.launch = launch_name(stack->launch);
  if (stack->tuned_files) source_.tile_configs.apply(row);
  row.source = fmt::format("{} {}", file_, where);

  const std::vector<RoutedBatch>& batches = result_.traces.at(row.routed_trace);
  const MoeModel model = model_of(row);
  const WeightFormat activations = parse_format(row.activations, "activations");
  for (const RoutedBatch& batch : batches) {
    const MoeLayer layer = shard_layer(model, batch, activations, row.tp, row.ep);
    row.mean_active_experts += static_cast<double>(layer.active) / static_cast<double>(batches.size());
  }
  const bool cached = source_.hardware.has(Hw::kLlcCapacity);
  row.warm = row.warm && cached && active_weight_bytes(row) < source_.hardware[Hw::kLlcCapacity];
  result_.warm += row.warm ? 1 : 0;
  result_.rows.push_back(std::move(row));
}

}  // namespace moesim
