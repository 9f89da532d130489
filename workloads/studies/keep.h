// Studies of a model's shape at equal size: what else changes when experts, top-k or their width do.
//
// Routed experts of one MoE layer hold experts x width x (2 or 3) x hidden parameters in all and top-k x width x ... active
// ones (shared experts, router and all other layers stay as they are). Of the three sizes those that are not varied are
// rescaled so that the kept products stay what they were:
//
//   keep      varied        rescaled
//   active    topk          intermediate        k x I stays
//             intermediate  topk
//   total     experts       intermediate        E x I stays
//             intermediate  experts
//   both      experts       intermediate, topk  both stay
//             topk          intermediate, experts
//             intermediate  topk, experts
//
// `active` with experts alone and `total` with topk alone rescale nothing; experts may be varied beside either of the two
// others under `active`, topk under `total`. A rescaled width is rounded to a multiple of 128 (what tiles and block scales
// are made for), top-k and experts to a whole number; where this moves a kept product by more than 5 %, or top-k beyond the
// experts, there is no such model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace moesim {

enum class Keep { kNothing, kActive, kTotal, kBoth };

// "active", "total" or "both". Throws InputError (of `flag`).
Keep parse_keep(const std::string& text, const std::string& flag = "--keep");
const char* keep_name(Keep keep);  // "nothing" too

struct ExpertShape {
  std::int64_t experts = 0, topk = 0, intermediate = 0;

  bool operator==(const ExpertShape&) const = default;
};

// What a point states.
struct VariedShape {
  std::optional<std::int64_t> experts, topk, intermediate;
};

// Nullopt where the axes leave nothing to rescale that could keep what is asked for.
std::optional<std::string> cannot_keep(bool experts, bool topk, bool intermediate, Keep keep);

// `base` with what is varied and what follows from it; or why there is none. CHECKs cannot_keep().
std::variant<ExpertShape, std::string> rescale(const ExpertShape& base, const VariedShape& varied, Keep keep);

}  // namespace moesim
