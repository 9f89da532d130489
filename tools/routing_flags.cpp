#include "tools/routing_flags.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/match_memo.h"
#include "tools/progress.h"

namespace moesim {
namespace {

constexpr const char* kLawsOfMatch = "zipf, lognormal, dirichlet or power_law";

std::int64_t whole(const std::string& flag, const std::string& text) {
  return parse_whole(flag, text, 1, std::numeric_limits<std::int32_t>::max());
}

void read_groups(const std::string& text, const MoeModel* model, RoutingOptions& options) {
  const std::string flag = "--groups";
  if (text == "none") return;
  if (text == "model") {
    if (model == nullptr) throw InputError({flag, "", "'model' without --model", "none or N/M", ""});
    options.groups = model->groups;
    options.topk_groups = model->topk_groups;
    return;
  }
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    throw InputError({flag, "", fmt::format("'{}'", text), "model, none or N/M (M of N groups)",
                      nearest_name(text, {"model", "none"})});
  }
  options.groups = whole(flag, text.substr(0, slash));
  options.topk_groups = whole(flag, text.substr(slash + 1));
}

Scoring parse_scoring(const std::string& text) {
  std::vector<std::string> names;
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
    names.emplace_back(scoring_name(scoring));
    if (text == names.back()) return scoring;
  }
  throw InputError({"--score", "", fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(text, names)});
}

}  // namespace

void RoutingFlags::add(FlagSet& flags) {
  flags.value(
      "--routing", "ROUTING", routing,
      "uniform, zipf:S, lognormal:SIGMA, dirichlet:C, balanced, same, disjoint, power_law:ALPHA or trace:FILE (.npy, "
      ".npz, JSON Lines, or what an engine recorded; trace:FORMAT=FILE says which) [default: uniform]");
  flags.value(
      "--match", "TARGET", match,
      fmt::format("duplicates=5%@3[,LAW]: in place of a number in --routing, the one that gives 5 % duplicate picks "
                  "at 3 tokens; LAW is {}, or named by --routing",
                  kLawsOfMatch));
  flags.value("--groups", "model|none|N/M", groups, "Group-limited top-k: a token's experts come from M of N groups");
  flags.value("--score", "softmax|sigmoid|sqrt_softplus", score,
              "Of the router, where groups or a bias make it matter [default: the model's]");
  flags.value("--bias", "SHARE", bias, "Bias on the scores: 1 evens out the experts' loads over all domains");
  flags.value("--domains", "N", domains, "Requests come from N domains, each with a popularity of its own");
  flags.value("--domain-purity", "SHARE", domain_purity, "Of a domain's own popularity; the rest is common to all");
  flags.on("--same-domain", same_domain, "All requests of a batch come from one domain");
  flags.value("--sticky", "P", sticky,
              "Share of its previous token's experts that a request keeps; changes no single step with a token each");
  flags.value("--tokens-per-request", "N", tokens_per_request,
              "Tokens of one request in a step, as in a prefill chunk");
  flags.value("--sticky-prefill", "P", sticky_prefill, "The same share within a step [default: that of --sticky]");
}

void RoutingFlags::add_of_traces(FlagSet& flags) {
  flags.value("--drift", "SHARE", drift, "Of the experts' popularity that is renewed per 1,000 steps");
  flags.on("--layers-alike", layers_alike, "Every layer has the same popularity [default: its own]");
}

RoutingOptions RoutingFlags::parse_options(const MoeModel* model) const {
  RoutingOptions options;
  read_groups(groups, model, options);
  if (score) {
    options.scoring = parse_scoring(*score);
  } else if (model != nullptr) {
    options.scoring = model->scoring;
  }
  options.bias = parse_number("--bias", bias, 0, 1);
  // Where it changes nothing it is not part of the routing.
  if (options.groups == 1 && options.bias == 0) options.scoring = Scoring::kSoftmax;
  options.domains = whole("--domains", domains);
  options.domain_purity = parse_number("--domain-purity", domain_purity, 0, 1);
  options.same_domain = same_domain;
  options.sticky = parse_number("--sticky", sticky, 0, 1);
  options.tokens_per_request = whole("--tokens-per-request", tokens_per_request);
  if (sticky_prefill) {
    options.sticky_prefill = parse_number("--sticky-prefill", *sticky_prefill, 0, 1);
  } else if (options.tokens_per_request > 1) {
    options.sticky_prefill = options.sticky;
  }
  options.drift = parse_number("--drift", drift, 0, 1);
  options.layers_alike = layers_alike;
  return options;
}

MatchTarget RoutingFlags::parse_target(const std::string& text) const {
  if (!routing) return parse_match(text);
  if (routing->find(':') != std::string::npos || text.find(',') != std::string::npos) {
    throw InputError({"--match", "", fmt::format("'{}' with --routing {}", text, *routing),
                      fmt::format("the law once and without a number: --routing {}", kLawsOfMatch), ""});
  }
  return parse_match(text + "," + *routing);
}

ChosenRouting RoutingFlags::choose(const MoeModel* model, const MatchScope& scope, bool all_laws) const {
  ChosenRouting chosen;
  chosen.options = parse_options(model);
  if (!match) {
    chosen.law = parse_routing(routing.value_or("uniform"));
    check_routing_options(chosen.law, chosen.options, scope.router);
    return chosen;
  }
  const MatchTarget target = parse_target(*match);
  Progress progress(!quiet);
  std::size_t done = 0;
  for (const RoutingKind law : target.laws) {
    const auto step = [&] { progress.show(++done, 0, "matching"); };
    chosen.matches.push_back(memo ? memo->find(law, chosen.options, target, scope)
                                  : match_duplicates(law, chosen.options, target, scope, step));
    if (!all_laws) break;
  }
  const Match& first = chosen.matches.front();
  if (!first.solved) {
    throw InputError(
        {"--match", "", fmt::format("'{}'", *match),
         fmt::format("a share that the law reaches; {} gives {}", routing_name(first.law), match_text(first)), ""});
  }
  chosen.law = first.law;
  return chosen;
}

}  // namespace moesim
