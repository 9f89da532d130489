#include "workloads/routing/routing_options.h"

#include <fmt/format.h>

#include "sim/io/input_error.h"
#include "workloads/routing/popularity.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostDomains = 64;
constexpr std::int64_t kMostTokensPerRequest = 1'000'000;

[[noreturn]] void fail(const std::string& flag, const std::string& found, const std::string& expected) {
  throw InputError({flag, "", found, expected, ""});
}

void check_share(const char* flag, double value, double most = 1) {
  if (value >= 0 && value <= most) return;
  fail(flag, fmt::format("{}", value), fmt::format("a number from 0 to {}", most));
}

void check_whole(const char* flag, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  fail(flag, fmt::format("{}", value), fmt::format("a whole number from 1 to {}", most));
}

void check_groups(const RoutingOptions& options, RouterShape shape) {
  const std::string found = fmt::format("{}/{}", options.groups, options.topk_groups);
  if (options.groups < 1 || options.topk_groups < 1 || options.topk_groups > options.groups) {
    fail("--groups", found, "N/M: M of N groups, 1 <= M <= N");
  }
  if (shape.experts % options.groups != 0) {
    fail("--groups", found, fmt::format("groups that divide {} experts", shape.experts));
  }
  if (shape.experts / options.groups * options.topk_groups < shape.topk) {
    fail("--groups", found, fmt::format("groups that hold the {} experts of a token", shape.topk));
  }
}

}  // namespace

const char* scoring_name(Scoring scoring) {
  switch (scoring) {
    case Scoring::kSoftmax:
      return "softmax";
    case Scoring::kSigmoid:
      return "sigmoid";
    case Scoring::kSqrtSoftplus:
      return "sqrt_softplus";
  }
  return "";
}

void check_routing_options(const Routing& law, const RoutingOptions& options, RouterShape shape) {
  constexpr double kMostDrift = 0.999;  // an AR(1) that forgets all in 1,000 steps has no time constant
  check_groups(options, shape);
  check_share("--bias", options.bias);
  check_whole("--domains", options.domains, kMostDomains);
  check_share("--domain-purity", options.domain_purity);
  check_share("--sticky", options.sticky);
  check_share("--sticky-prefill", options.sticky_prefill);
  check_whole("--tokens-per-request", options.tokens_per_request, kMostTokensPerRequest);
  check_share("--drift", options.drift, kMostDrift);
  if (!is_popularity_law(law.kind) && options != RoutingOptions{}) {
    fail("--routing", routing_name(law),
         "uniform, zipf:S, lognormal:SIGMA or dirichlet:C where groups, a bias, domains, stickiness, drift or alike "
         "layers are asked for");
  }
  const bool skewed = law.kind != RoutingKind::kUniform;
  if (options.domains > 1 && !skewed) fail("--domains", "uniform", "a routing with popularities, as in zipf:0.6");
  if (options.drift > 0 && !skewed) fail("--drift", "uniform", "a routing with popularities, as in zipf:0.6");
  if (options.same_domain && options.domains == 1) fail("--same-domain", "one domain", "--domains of at least 2");
  if (options.sticky_prefill > 0 && options.tokens_per_request == 1) {
    fail("--sticky-prefill", "one token per request", "--tokens-per-request of at least 2");
  }
}

RoutingOptions of_single_step(RoutingOptions options) {
  options.sticky = 0;
  options.drift = 0;
  options.layers_alike = false;
  return options;
}

std::string routing_name(const Routing& law, const RoutingOptions& options) {
  std::string name = routing_name(law);
  if (options.groups > 1) {
    name += fmt::format(", groups {}/{} by {}", options.groups, options.topk_groups, scoring_name(options.scoring));
  }
  if (options.bias > 0) name += fmt::format(", bias {} on {}", options.bias, scoring_name(options.scoring));
  if (options.domains > 1) {
    name += fmt::format(", {} domains of purity {}{}", options.domains, options.domain_purity,
                        options.same_domain ? ", one per batch" : "");
  }
  if (options.tokens_per_request > 1) name += fmt::format(", {} tokens per request", options.tokens_per_request);
  if (options.sticky > 0) name += fmt::format(", sticky {}", options.sticky);
  if (options.sticky_prefill > 0) name += fmt::format(", sticky {} within a step", options.sticky_prefill);
  if (options.drift > 0) name += fmt::format(", drift {} per 1000 steps", options.drift);
  if (options.layers_alike) name += ", layers alike";
  return name;
}

}  // namespace moesim
