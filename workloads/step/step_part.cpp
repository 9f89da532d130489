#include "workloads/step/step_part.h"

#include "sim/units/check.h"

namespace moesim {
namespace {

struct Names {
  std::string_view name, key;
};

Names names_of(StepPart part) {
  switch (part) {
    case StepPart::kAttention:
      return {"attention weights", "attention_weights"};
    case StepPart::kContext:
      return {"KV cache, state", "context"};
    case StepPart::kRouting:
      return {"routing", "routing"};
    case StepPart::kExperts:
      return {"experts", "experts"};
    case StepPart::kSharedExperts:
      return {"shared experts", "shared_experts"};
    case StepPart::kDense:
      return {"dense FFN", "dense_ffn"};
    case StepPart::kHead:
      return {"LM head", "lm_head"};
    case StepPart::kCollectives:
      return {"collectives", "collectives"};
    case StepPart::kOther:
      return {"other", "other"};
    case StepPart::kCount:
      break;
  }
  MOESIM_CHECK(false);
  return {};
}

}  // namespace

std::string_view step_part_name(StepPart part) { return names_of(part).name; }
std::string_view step_part_key(StepPart part) { return names_of(part).key; }

Duration moe_time(const PartTimes& parts) {
  Duration sum;
  for (const StepPart part : {StepPart::kRouting, StepPart::kExperts, StepPart::kSharedExperts}) {
    sum += parts[static_cast<std::size_t>(part)];
  }
  return sum;
}

}  // namespace moesim
