// Stages of a MoE layer, by the names that predictions and measurements use, and sets of them for kernels that fuse some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moesim {

// In the order of a layer.
enum class MoeStage : std::uint8_t {
  kRouter,    // product of tokens and router matrix
  kTopk,      // scores, top-k
  kAlign,     // grouping picks by expert
  kDispatch,  // expert parallel: tokens to the devices of their experts
  kPrepare,   // padding, casts and fills of a stack
  kExtra,     // small kernels of a stack that do nothing of the layer's own
  kLatent,    // to the width of the routed experts, and back
  kPermute,   // copies of rows in expert order
  kQuantise,  // activations to what the products take
  kGather1,   // copies of weights
  kGemm1,
  kAct,
  kGather2,
  kGemm2,
  kCombine,  // weighted sum of a token's picks
  kCollect,  // results back to the tokens' devices, or their sum over the devices
  kShared,   // shared experts
};
inline constexpr std::size_t kMoeStageCount = 17;

std::string_view stage_name(MoeStage stage);  // "gemm1"
std::optional<MoeStage> find_stage(std::string_view name);

class StageSet {
 public:
  constexpr StageSet() = default;
  constexpr StageSet(MoeStage stage)
      : bits_(1U << static_cast<unsigned>(stage)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool has(MoeStage stage) const { return (bits_ & StageSet(stage).bits_) != 0; }
  [[nodiscard]] constexpr bool meets(StageSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr StageSet operator|(StageSet other) const { return StageSet(bits_ | other.bits_); }
  constexpr auto operator<=>(const StageSet&) const = default;
  [[nodiscard]] std::string name() const;  // "gemm1+act"; "" when empty

 private:
  constexpr explicit StageSet(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

// "gemm1+act". nullopt: a piece is no stage, or stands there twice.
std::optional<StageSet> parse_stages(std::string_view text);

}  // namespace moesim
