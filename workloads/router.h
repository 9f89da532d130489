// Draws routed batches. Same routing, sizes and seed: same ids, on every machine (own sampling over std::mt19937_64).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/routed_batch.h"

namespace moesim {

enum class RoutingKind { kUniform, kZipf, kLognormal, kDirichlet, kBalanced, kSame, kDisjoint, kPowerLaw, kTrace };

struct Routing {
  RoutingKind kind = RoutingKind::kUniform;
  double parameter = 0;    // zipf's exponent, lognormal's sigma, dirichlet's concentration, power law's alpha; > 0
  std::string trace_file;  // kTrace
};

// "uniform", "zipf:0.6", "lognormal:1.0", "dirichlet:0.5", "balanced", "same", "disjoint", "power_law:1.2", "trace:FILE". Throws
// InputError (flag --routing).
Routing parse_routing(const std::string& text);
std::string routing_name(const Routing& routing);

// One batch. uniform, zipf, lognormal, dirichlet: each token draws k distinct experts without replacement, with probability in
// proportion to the experts' popularity (Gumbel top-k); the popularity's order over experts is shuffled by the seed.
// balanced: the stride pattern; same: every token the same k; disjoint: deals a shuffled pack until it is used up.
// power_law: rows per expert from a truncated power law, then dealt to the tokens: skewed loads without co-activation.
// Not for kTrace (traces are read by traces/routed_trace.h). Sample i of a point uses its own stream: draws do not
// depend on how many samples were asked for.
RoutedBatch draw_batch(const Routing& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens,
                       std::uint64_t seed, std::uint64_t sample);

}  // namespace moesim
