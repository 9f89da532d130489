// What a kernel's name says: an ordered table of rules, the first that matches counts. Ours come with the binary
// (kernel_classes/*.json, in the order of their names); a user's file goes before them.
//
// File: {"schema": "moesim.kernel_classes/1", "rules": [{"match", "class", "stack", "strategy"}]}; the last two may be absent.
//   match: pieces of the name, in this order, with anything where a '*' stands: "bmm_*swiGlu". Before and after the
//     pieces may be anything too, except with '^' at the front (the name begins so) or '$' at the end. Case counts.
//   class: stages of a MoE layer, "gemm1", or "gemm1+act" where a kernel fuses them; or one of class_name().
//   stack: whose kernel it is, for people.
//   strategy: what `--strategy` would be for a layer of these kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/moe_stage.h"
#include "traces/profiler_trace.h"

namespace moesim {

enum class KernelClass : std::uint8_t {
  kMoe,         // one of a MoE layer, its stages known
  kMoeGemm,     // a grouped product: gemm1 or gemm2, as the order in its layer says
  kMoeSetup,    // prepares the grouped product after it
  kGemm,        // a dense product: of a step, but in a layer router, gemm1, gemm2 or shared expert
  kGemmPart,    // split-K reduction of the product before it
  kActivation,  // of an FFN: in a layer act
  kSelect,      // softmax, top-k, sort of a framework: in a layer topk, at the end of a step sampling
  kIndexing,    // rows by index: embeddings; in a layer permute, gather1 or gather2
  kQuantise,    // to fewer bits: in a layer quantise
  kReduce,      // sums of a framework: after gemm2 combine
  kAttention,
  kCollective,
  kNorm,
  kRopeCache,  // rotary embedding, key-value cache
  kElementwise,
  kCopy,
  kFill,
  kSampling,
  kUnknown,
};
inline constexpr std::size_t kKernelClassCount = 19;

std::string_view class_name(KernelClass kernel_class);  // "attention"

struct KernelRule {
  std::string match;
  KernelClass kernel_class = KernelClass::kUnknown;
  StageSet stages;       // of kMoe
  std::string stack;     // "": not stated
  std::string strategy;  // "": does not tell
};

// Linear in the length of the name.
bool pattern_matches(std::string_view pattern, std::string_view name);

class KernelClassifier {
 public:
  // Only our rules; with a user's file before them. Throws InputError.
  KernelClassifier();
  explicit KernelClassifier(const std::string& file);

  // nullptr: no rule matches.
  [[nodiscard]] const KernelRule* find(std::string_view name) const;
  [[nodiscard]] const std::vector<KernelRule>& rules() const { return rules_; }

 private:
  std::vector<KernelRule> rules_;
};

std::vector<KernelRule> parse_kernel_rules(const std::string& text, const std::string& file_name);

}  // namespace moesim
