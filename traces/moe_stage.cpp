#include "traces/moe_stage.h"

#include <algorithm>
#include <array>

namespace moesim {
namespace {

constexpr std::array<std::string_view, kMoeStageCount> kNames = {
    "router",  "topk",  "align", "dispatch", "prepare", "extra",   "latent",  "permute", "quantise",
    "gather1", "gemm1", "act",   "gather2",  "gemm2",   "combine", "collect", "shared"};

}  // namespace

std::string_view stage_name(MoeStage stage) { return kNames.at(static_cast<std::size_t>(stage)); }

std::optional<MoeStage> find_stage(std::string_view name) {
  const auto it = std::find(kNames.begin(), kNames.end(), name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<MoeStage>(it - kNames.begin());
}

std::string StageSet::name() const {
  std::string text;
  for (std::size_t s = 0; s < kMoeStageCount; ++s) {
    if (!has(static_cast<MoeStage>(s))) continue;
    if (!text.empty()) text += '+';
    text += kNames.at(s);
  }
  return text;
}

std::optional<StageSet> parse_stages(std::string_view text) {
  StageSet stages;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::optional<MoeStage> stage = find_stage(text.substr(begin, end - begin));
    if (!stage || stages.has(*stage)) return std::nullopt;
    stages = stages | *stage;
    begin = end + 1;
  }
  return stages;
}

}  // namespace moesim
