// What a routing may have beside its law: how experts are selected, and what the tokens of a batch have in common.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/moe_model.h"
#include "workloads/router.h"

namespace moesim {

struct RoutingOptions {
  // Selection. Experts in `groups`, of which a token may use `topk_groups`; the scores rank groups, and experts once a
  // bias is added to them.
  std::int64_t groups = 1, topk_groups = 1;
  Scoring scoring = Scoring::kSoftmax;
  double bias = 0;  // 0: none, 1: that which evens out the experts' loads over all domains

  // Requests. Each belongs to one domain; each domain has its own popularity beside the common one.
  std::int64_t domains = 1;
  double domain_purity = 1;  // weight of the domain's own popularity, the rest is the common one's
  bool same_domain = false;  // all requests of a batch belong to one domain

  // Time. Share of its previous token's experts that a request keeps: over steps, and within a step that holds several
  // tokens of a request (a chunk of its prompt).
  double sticky = 0, sticky_prefill = 0;
  std::int64_t tokens_per_request = 1;
  double drift = 0;  // 1 - correlation of the experts' popularity levels over 1,000 steps

  bool layers_alike = false;  // every layer has the popularity of the first

  bool operator==(const RoutingOptions&) const = default;
};

struct RouterShape {
  std::int64_t experts = 0, topk = 0;
};

// "softmax", "sigmoid" or "sqrt_softplus".
const char* scoring_name(Scoring scoring);

// Without what matters between steps and layers only.
RoutingOptions of_single_step(RoutingOptions options);

// Throws InputError that names the flag: out of range, groups that do not divide the experts or hold too few of them,
// options of popularity laws with a pattern.
void check_routing_options(const Routing& law, const RoutingOptions& options, RouterShape shape);

// "zipf:0.6, groups 8/4 by sigmoid, sticky 0.3": the law and each option that is set.
std::string routing_name(const Routing& law, const RoutingOptions& options);

}  // namespace moesim
