#include "workloads/moe_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

void check_divisor(const char* flag, std::int64_t n, std::int64_t limit, const char* of_what) {
  if (n >= 1 && n <= limit) return;
  throw InputError({flag, "", fmt::format("{}", n), fmt::format("1 to {} ({})", limit, of_what), ""});
}

}  // namespace

MoeLayer shard_layer(const MoeModel& model, const RoutedBatch& batch, WeightFormat activations, std::int64_t tp,
                     std::int64_t ep) {
  check_divisor("--tp", tp, model.expert_intermediate, "the experts' width");
  check_divisor("--ep", ep, model.experts, "routed experts");
  MoeLayer layer;
  layer.hidden = model.hidden;
  layer.latent = model.latent;
  layer.intermediate = divide_up(model.expert_intermediate, tp);
  layer.router_experts = model.experts + model.zero_experts;
  layer.topk = model.topk;
  layer.tokens = batch.tokens;
  layer.gated = model.gated;
  layer.shared_intermediate = divide_up(model.shared_intermediate, tp);
  layer.shared_gate = model.shared_gate;
  layer.weights = model.expert_weights;
  layer.other_weights = model.other_weights;
  layer.activations = activations;
  layer.devices = tp * ep;

  MOESIM_CHECK(batch.experts >= model.experts);
  const std::vector<std::int64_t> rows = rows_per_expert(batch);
  const std::int64_t block = divide_up(model.experts, ep);
  std::int64_t first = 0, most_active = -1, most_rows = -1;
  for (std::int64_t begin = 0; begin < model.experts; begin += block) {
    const std::int64_t end = std::min(begin + block, model.experts);
    std::int64_t active = 0, sum = 0;
    for (std::int64_t e = begin; e < end; ++e) {
      active += rows[static_cast<std::size_t>(e)] > 0 ? 1 : 0;
      sum += rows[static_cast<std::size_t>(e)];
    }
    if (active > most_active || (active == most_active && sum > most_rows)) {
      first = begin;
      most_active = active;
      most_rows = sum;
    }
  }
  const std::int64_t last = std::min(first + block, model.experts);
  layer.rows.assign(rows.begin() + first, rows.begin() + last);
  layer.active = most_active;
  layer.picks = most_rows;
  layer.token_picks.assign(static_cast<std::size_t>(batch.tokens), 0);
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const bool local = batch.ids[i] >= first && batch.ids[i] < last;
    layer.token_picks[i / static_cast<std::size_t>(batch.topk)] += local ? 1 : 0;
  }
  return layer;
}

WeightFormat default_activations(WeightFormat weights) {
  switch (weights.dtype) {
    case Dtype::kFp8:
    case Dtype::kFp8Block128:
    case Dtype::kInt8:
    case Dtype::kNvfp4:
      return weights;
    case Dtype::kFp16:
      return {Dtype::kFp16, 0};
    case Dtype::kFp32:
      return {Dtype::kFp32, 0};
    case Dtype::kBf16:
    case Dtype::kInt4:
    case Dtype::kMxfp4:
      return {Dtype::kBf16, 0};
  }
  return {Dtype::kBf16, 0};
}

}  // namespace moesim
