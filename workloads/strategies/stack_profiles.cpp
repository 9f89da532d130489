// What it models: tile configurations by the rules that the stacks apply when no tuned file is given, and which kernels
// stand around the projections.
// What it leaves out: tuned configuration files (a measurement that states its tiles overrides the rule), autotuned
// tactics, several versions of one stack.
// Compared: public tables of H100, H200 and B200 (validation/README.md).
#include "workloads/strategies/stack_profiles.h"

#include <algorithm>
#include <bit>

#include "sim/units/integer.h"

namespace moesim {
namespace {

struct TritonTile {
  std::int64_t block_m, block_n, block_k, warps, stages, group_m;
};

Parameters triton_parameters(const TritonTile& tile) {
  return {{"block_m", tile.block_m},   {"block_n", tile.block_n}, {"block_k", tile.block_k}, {"num_warps", tile.warps},
          {"num_stages", tile.stages}, {"group_m", tile.group_m}, {"worst_case_grid", 1},    {"weighted_down", 1}};
}

bool blocked(const StackInput& input) { return input.weights.dtype == Dtype::kFp8Block128; }
bool eight_bits(const StackInput& input) { return payload_bits(input.weights) == 8; }

Parameters vllm_triton(const StackInput& input) {
  const std::int64_t m = input.tokens;
  if (blocked(input)) return triton_parameters({m <= 64 ? 16 : 64, 128, 128, 4, 3, m <= 16 ? 1 : 32});
  return triton_parameters({.block_m = m <= 32    ? 16
                                       : m <= 96  ? 32
                                       : m <= 512 ? 64
                                                  : 128,
                            .block_n = m <= 64 ? 64 : 128,
                            .block_k = m <= 64 || eight_bits(input) ? 128 : 64,
                            .warps = m <= 128 ? 4 : 8,
                            .stages = m <= 32 ? 4 : 3,
                            .group_m = m / std::max<std::int64_t>(1, input.experts) > 128 ? 16 : 1});
}

Parameters sglang_triton(const StackInput& input) {
  const bool small = input.tokens <= input.experts;
  if (blocked(input)) return triton_parameters({64, 128, 128, 4, 3, 32});
  if (eight_bits(input)) {
    return triton_parameters(small ? TritonTile{64, 128, 128, 4, 4, 1} : TritonTile{128, 256, 128, 8, 4, 32});
  }
  return triton_parameters(small ? TritonTile{16, 32, 64, 4, 3, 1} : TritonTile{64, 64, 32, 4, 3, 8});
}

std::int64_t rows_per_expert_up(const StackInput& input) {
  return std::max<std::int64_t>(1, divide_up(input.tokens * input.topk, input.experts));
}

std::int64_t power_of_two_up(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

Parameters triton_kernels(const StackInput& input) {
  const std::int64_t rows = rows_per_expert_up(input);
  const std::int64_t block_m = rows <= 64 ? std::clamp<std::int64_t>(power_of_two_up(2 * rows), 16, 64) : 128;
  return {{"block_m", block_m}, {"block_n", 128}, {"block_k", 128},  {"num_warps", 8},
          {"num_stages", 4},    {"fused_act", 1}, {"bulk_copies", 1}};
}

// The token tile is the smaller neighbour of the power of two at or above the mean rows of an expert: the first of the
// set that the launcher offers to an autotuner, and what it takes without one. Nobody publishes the ring: four stages (two
// CTAs on a unit) agreed best with public B200 tables among three, four and six.
Parameters trtllm_gen(const StackInput& input) {
  constexpr std::int64_t kLeastTile = 8, kMostTile = 128;
  constexpr std::int64_t kStepBits = 256 * 8;  // of a weight row in one K-step
  const std::int64_t mean = std::clamp(power_of_two_up(rows_per_expert_up(input)), kLeastTile, kMostTile);
  return {{"block_m", std::max(kLeastTile, mean / 2)},
          {"block_n", 128},
          {"block_k", kStepBits / static_cast<std::int64_t>(payload_bits(input.weights))},
          {"num_warps", 8},
          {"num_stages", 4},
          {"swap_ab", 1},
          {"width_multiple", 128},

          {"grouping_kernels", 0},
          {"fused_act", 1},
          {"bulk_copies", 1},
          {"worst_case_grid", 1}};
}

Parameters trtllm_cutlass(const StackInput& /*input*/) {
  return {{"block_m", 128}, {"block_n", 128}, {"block_k", 64}, {"cluster_m", 1}};
}

// One descriptor serves all groups of the masked layout; rows of activations come in buffers of their expert.
Parameters deepgemm_masked(const StackInput& input) {
  return {{"block_m", 64},
          {"block_n", 128},
          {"cluster_m", 1},
          {"block_k", 1024 / static_cast<std::int64_t>(payload_bits(input.weights))},

          {"descriptors", 0}};
}

Parameters aiter(const StackInput& input) {
  const std::int64_t rows = rows_per_expert_up(input);
  return {
      {"block_m", rows <= 16   ? 16
                  : rows <= 32 ? 32
                  : rows <= 64 ? 64
                               : 128},
      {"block_n", 64},
      {"block_k", 128},
      {"num_warps", 4},
      {"num_stages", 3},
  };
}

constexpr StackProfile kProfiles[] = {
    {"vllm-triton", "vLLM, fused MoE in Triton", "grouped_gemm", LaunchMode::kGraph, true,
     "vLLM get_default_config since pull request 34846 (2026-02-18), without a tuned file", vllm_triton},
    {"sglang-triton", "SGLang, fused MoE in Triton", "grouped_gemm", LaunchMode::kGraph, true,
     "SGLang fused_moe_triton_config get_default_config (2026-08), without a tuned file; Triton's 4 warps, 3 stages",
     sglang_triton},
    {"triton-kernels", "vLLM, triton_kernels (mxfp4)", "grouped_gemm", LaunchMode::kGraph, false,
     "triton_kernels opt_flags.py: block_m twice the mean rows of an expert, activation fused", triton_kernels},
    {"trtllm-gen", "TensorRT-LLM generated kernels (FlashInfer; vLLM, SGLang on Blackwell)", "grouped_gemm",
     LaunchMode::kProgrammatic, false,
     "FlashInfer trtllm_fused_moe_kernel_launcher.cu: computeSelectedTileN, its first tile", trtllm_gen},
    {"trtllm-cutlass", "TensorRT-LLM CUTLASS grouped GEMM", "grouped_gemm_persistent", LaunchMode::kProgrammatic, false,
     "TensorRT-LLM cutlass_kernels moe: permuted rows, set-up, 128 x 128 tiles (autotuned there)", trtllm_cutlass},
    {"deepgemm-masked", "DeepGEMM, masked grouped GEMM", "grouped_gemm_persistent", LaunchMode::kGraph, false,
     "DeepGEMM m_grouped_gemm_fp8_fp8_bf16_nt_masked: 64 rows, K-steps of 128 bytes", deepgemm_masked},
    {"aiter", "AITER two-stage fused MoE (AMD)", "grouped_gemm", LaunchMode::kGraph, false,
     "AITER fused_moe.py: block_m by rows of an expert; 64 x 128 tiles as its CK kernels' names say", aiter},
};

}  // namespace

std::span<const StackProfile> stack_profiles() { return kProfiles; }

Parameters stack_parameters(const StackProfile& stack, const MoeLayer& layer) {
  return stack.parameters({.experts = static_cast<std::int64_t>(layer.rows.size()),
                           .topk = layer.topk,
                           .tokens = layer.tokens,
                           .weights = layer.weights});
}

const StackProfile* find_stack(const std::string& name) {
  const auto* const it = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                                      [&](const StackProfile& profile) { return name == profile.name; });
  return it == std::end(kProfiles) ? nullptr : it;
}

}  // namespace moesim
