// Routed traces: what tokens, steps, layers and domains have in common.
#include "workloads/routing/routing_generator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/io/input_error.h"
#include "workloads/routing/expert_loads.h"

namespace moesim {
namespace {

using testing::HasSubstr;

RoutingGenerator generator(const char* law, const RoutingOptions& options, TraceShape shape, std::uint64_t seed = 1) {
  const Routing routing = parse_routing(law);
  check_routing_options(routing, options, shape.router);
  return {routing, options, shape, seed};
}

// FNV-1a over the ids of so many batches.
std::uint64_t checksum(RoutingGenerator source, int batches) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (int i = 0; i < batches; ++i) {
    for (const std::int32_t id : source.next().ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3U;
  }
  return hash;
}

std::vector<std::int64_t> rows_over(RoutingGenerator source, int batches, std::int64_t experts) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), 0);
  for (int i = 0; i < batches; ++i) {
    for (const std::int32_t id : source.next().ids) ++rows[static_cast<std::size_t>(id)];
  }
  return rows;
}

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::set<std::int32_t> held(a.begin(), a.end());
  return std::count_if(b.begin(), b.end(), [&](std::int32_t id) { return held.contains(id); });
}

double mean_distinct(const char* law, const RoutingOptions& options, int seeds) {
  double sum = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    RoutingGenerator source = generator(law, options, {1, 32, {128, 8}}, static_cast<std::uint64_t>(seed));
    sum += routing_statistics(source.next()).distinct_experts / seeds;
  }
  return sum;
}

RoutingOptions everything() {
  RoutingOptions options;
  options.groups = 8;
  options.topk_groups = 4;
  options.scoring = Scoring::kSigmoid;
  options.bias = 0.5;
  options.domains = 3;
  options.domain_purity = 0.7;
  options.sticky = 0.3;
  options.sticky_prefill = 0.6;
  options.tokens_per_request = 4;
  options.drift = 0.5;
  return options;
}

TEST(RoutingGenerator, RowsHoldDistinctExpertsInRange) {
  for (const char* law : {"uniform", "zipf:1", "zipf:10", "lognormal:3", "dirichlet:0.001", "power_law:1.2", "same"}) {
    for (const bool all : {false, true}) {
      const bool popularity = is_popularity_law(parse_routing(law).kind) && std::string(law) != "uniform";
      if (all && !popularity) continue;
      RoutingGenerator source = generator(law, all ? everything() : RoutingOptions{}, {2, 9, {32, 8}});
      for (int i = 0; i < 80; ++i) {
        const RoutedBatch& batch = source.next();
        ASSERT_EQ(batch.tokens, 9);
        for (std::size_t first = 0; first < batch.ids.size(); first += 8) {
          const std::set<std::int32_t> row(batch.ids.begin() + static_cast<std::ptrdiff_t>(first),
                                           batch.ids.begin() + static_cast<std::ptrdiff_t>(first) + 8);
          ASSERT_EQ(row.size(), 8U) << law;
          ASSERT_GE(*row.begin(), 0);
          ASSERT_LT(*row.rbegin(), 32);
        }
      }
    }
  }
}

// The bytes are part of the contract: a change here changes every trace that was made.
TEST(RoutingGenerator, PinnedBytes) {
  const TraceShape shape{2, 12, {64, 8}};
  std::map<std::string, std::uint64_t> sums;
  for (const char* law : {"uniform", "zipf:0.8", "lognormal:1", "dirichlet:0.5", "balanced", "power_law:1.2"}) {
    sums[law] = checksum(generator(law, {}, shape), 40);
  }
  sums["all options"] = checksum(generator("zipf:0.8", everything(), shape), 40);
  RoutingOptions groups;
  groups.groups = 8;
  groups.topk_groups = 4;
  groups.scoring = Scoring::kSigmoid;
  groups.sticky = 0.3;
  sums["groups"] = checksum(generator("zipf:0.8", groups, shape), 40);
  RoutingOptions softmax = everything();
  softmax.scoring = Scoring::kSoftmax;
  softmax.same_domain = true;
  sums["softmax"] = checksum(generator("lognormal:1", softmax, shape), 40);
  const std::map<std::string, std::uint64_t> expected = {
      {"all options", 3533830642062285448U},   {"balanced", 17710790930979053605U},
      {"dirichlet:0.5", 1915532253162899316U}, {"groups", 16721671549723209020U},
      {"lognormal:1", 6624584820400355059U},   {"power_law:1.2", 5189353204874219955U},
      {"softmax", 10487334152726241706U},      {"uniform", 18028759842914729649U},
      {"zipf:0.8", 6448336819966129502U}};
  EXPECT_EQ(sums, expected);
}

TEST(RoutingGenerator, ALayerDoesNotDependOnHowManyFollow) {
  RoutingGenerator few = generator("zipf:0.8", {}, {2, 4, {64, 8}});
  RoutingGenerator many = generator("zipf:0.8", {}, {5, 4, {64, 8}});
  EXPECT_EQ(few.next().ids, many.next().ids);
  EXPECT_EQ(few.next().ids, many.next().ids);
}

TEST(RoutingGenerator, LayersHaveTheirOwnPopularityUnlessAlike) {
  const auto hottest_of_layers = [](bool alike) {
    RoutingOptions options;
    options.layers_alike = alike;
    RoutingGenerator source = generator("zipf:2", options, {2, 2000, {512, 1}});
    const auto hottest = [&] {
      const std::vector<std::int64_t> rows = rows_per_expert(source.next());
      return std::max_element(rows.begin(), rows.end()) - rows.begin();
    };
    const auto first = hottest();
    return std::pair(first, hottest());
  };
  const auto own = hottest_of_layers(false), alike = hottest_of_layers(true);
  EXPECT_NE(own.first, own.second);
  EXPECT_EQ(alike.first, alike.second);
}

// Kept: Binomial(k, P) experts. The other picks are uniform over the experts that are not kept, so each repeats with
// probability (k - kept) / (E - kept).
TEST(RoutingGenerator, ARequestKeepsTheStickyShareAndRepeatsSomeByChance) {
  constexpr std::int64_t kExperts = 64, kTopk = 8, kRequests = 500;
  for (const double sticky : {0.0, 0.4, 1.0}) {
    double expected = 0;
    for (std::int64_t kept = 0; kept <= kTopk; ++kept) {
      const auto k = static_cast<double>(kTopk), j = static_cast<double>(kept);
      const double ways = std::exp(std::lgamma(k + 1) - std::lgamma(j + 1) - std::lgamma(k - j + 1));
      const double probability = ways * std::pow(sticky, j) * std::pow(1 - sticky, k - j);
      expected += probability * (j + (k - j) * (k - j) / (static_cast<double>(kExperts) - j)) / k;
    }
    RoutingOptions options;
    options.sticky = sticky;
    RoutingGenerator source = generator("uniform", options, {1, kRequests, {kExperts, kTopk}});
    std::vector<std::int32_t> before = source.next().ids;
    std::int64_t repeated = 0;
    constexpr int kSteps = 20;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<std::int32_t>& now = source.next().ids;
      for (std::size_t r = 0; r < kRequests; ++r) {
        repeated += common(std::span(before).subspan(r * kTopk, kTopk), std::span(now).subspan(r * kTopk, kTopk));
      }
      before = now;
    }
    const double picks = kSteps * kRequests * kTopk;
    EXPECT_NEAR(static_cast<double>(repeated) / picks, expected, 4 * std::sqrt(0.25 / picks)) << sticky;
  }
}

// Kept and new experts together are again a draw by popularity. Many requests and few steps: rows of one request depend
// on each other, requests do not.
TEST(RoutingGenerator, StickinessLeavesThePopularitiesAsTheyAre) {
  constexpr std::int64_t kRequests = 40'000, kExperts = 32;
  RoutingOptions options;
  options.sticky = 0.7;
  RoutingGenerator source = generator("zipf:1.2", options, {1, kRequests, {kExperts, 6}});
  const std::vector<std::int64_t> first = rows_per_expert(source.next());
  for (int step = 0; step < 12; ++step) source.next();
  const std::vector<std::int64_t> last = rows_per_expert(source.next());
  for (std::size_t e = 0; e < first.size(); ++e) {
    const double share = static_cast<double>(first[e] + last[e]) / (2.0 * kRequests);
    const double standard_error = std::sqrt(2 * share * (1 - share) * kRequests);
    EXPECT_NEAR(static_cast<double>(last[e]), static_cast<double>(first[e]), 4.5 * standard_error) << "expert " << e;
  }
}

TEST(RoutingGenerator, TokensOfAChunkShareExpertsAndRequestsDoNot) {
  RoutingOptions options;
  options.tokens_per_request = 3;
  options.sticky_prefill = 1;
  const std::vector<std::int32_t> ids = generator("uniform", options, {1, 8, {512, 10}}).next().ids;
  const auto row = [&](std::size_t token) { return std::span(ids).subspan(token * 10, 10); };
  EXPECT_EQ(common(row(0), row(2)), 10);
  EXPECT_EQ(common(row(3), row(5)), 10);
  EXPECT_EQ(common(row(6), row(7)), 10);  // the last request has fewer
  EXPECT_LT(common(row(2), row(3)), 5);
}

TEST(RoutingGenerator, GroupsAreHonouredWithStickinessToo) {
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
    RoutingOptions options;
    options.groups = 8;
    options.topk_groups = 3;
    options.scoring = scoring;
    options.sticky = 0.5;
    RoutingGenerator source = generator("zipf:0.5", options, {1, 50, {64, 6}});
    for (int step = 0; step < 20; ++step) {
      const std::vector<std::int32_t>& ids = source.next().ids;
      for (std::size_t token = 0; token < 50; ++token) {
        std::set<std::int32_t> groups;
        for (const std::int32_t id : std::span(ids).subspan(token * 6, 6)) groups.insert(id / 8);
        ASSERT_LE(groups.size(), 3U);
      }
    }
  }
}

// Share of the picks in each of 8 groups of 4 where a token takes two experts of one group.
std::vector<double> group_shares(Scoring scoring, std::int64_t tokens) {
  RoutingOptions options;
  options.groups = 8;
  options.topk_groups = 1;
  options.scoring = scoring;
  const LayerRouter router(parse_routing("zipf:1"), options, {32, 2}, 1, 0);
  RoutedBatch batch{.topk = 2, .experts = 32, .ids = {}};
  RowScratch scratch(32);
  RandomStream stream(1);
  draw_fresh_batch(router, options, tokens, batch, scratch, stream);
  std::vector<double> shares(8, 0);
  for (const std::int32_t id : batch.ids) {
    shares[static_cast<std::size_t>(id / 4)] += 1 / static_cast<double>(batch.picks());
  }
  return shares;
}

// By its best expert a group is chosen as often as its share of the popularity (the first arrival is its).
TEST(RoutingGenerator, SoftmaxTakesTheGroupOfTheBestExpert) {
  constexpr std::int64_t kTokens = 40'000;
  const LayerRouter router(parse_routing("zipf:1"), {}, {32, 2}, 1, 0);
  const std::vector<double> drawn = group_shares(Scoring::kSoftmax, kTokens);
  for (std::size_t g = 0; g < 8; ++g) {
    double expected = 0;
    for (std::size_t e = 4 * g; e < 4 * g + 4; ++e) expected += router.weights(0)[e] / 32;
    EXPECT_NEAR(drawn[g], expected, 4.5 * std::sqrt(expected / kTokens)) << "group " << g;
  }
}

// By the sum of its two best sigmoid scores: against the rule written out with other random numbers.
TEST(RoutingGenerator, SigmoidTakesTheGroupOfTheTwoBestExperts) {
  constexpr std::int64_t kTokens = 40'000;
  const LayerRouter router(parse_routing("zipf:1"), {}, {32, 2}, 1, 0);
  std::vector<double> expected(8, 0);
  RandomStream stream(77);
  for (std::int64_t token = 0; token < kTokens; ++token) {
    std::vector<double> sums;
    for (std::size_t g = 0; g < 8; ++g) {
      std::vector<double> scores;
      for (std::size_t e = 4 * g; e < 4 * g + 4; ++e) {
        const double logit = std::log(router.weights(0)[e]) - std::log(-std::log(stream.unit()));
        scores.push_back(1 / (1 + std::exp(-logit)));
      }
      std::sort(scores.rbegin(), scores.rend());
      sums.push_back(scores[0] + scores[1]);
    }
    expected[static_cast<std::size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin())] += 1.0 / kTokens;
  }
  const std::vector<double> drawn = group_shares(Scoring::kSigmoid, kTokens);
  const std::vector<double> by_best = group_shares(Scoring::kSoftmax, kTokens);
  double apart = 0;
  for (std::size_t g = 0; g < 8; ++g) {
    EXPECT_NEAR(drawn[g], expected[g], 4.5 * std::sqrt(2 * expected[g] / kTokens)) << "group " << g;
    apart = std::max(apart, std::abs(drawn[g] - by_best[g]));
  }
  EXPECT_GT(apart, 0.02) << "the two rules must differ for this to show anything";
}

// A bias of next to nothing goes the long way, by all experts' scores: the same law.
TEST(RoutingGenerator, DrawingGroupsByArrivalsIsScoringAllExperts) {
  constexpr std::int64_t kTokens = 30'000, kExperts = 48;
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
    for (const double sticky : {0.0, 0.5}) {
      const auto rows = [&](double bias) {
        RoutingOptions options;
        options.groups = 6;
        options.topk_groups = 2;
        options.scoring = scoring;
        options.bias = bias;
        options.tokens_per_request = 2;
        options.sticky_prefill = sticky;
        const LayerRouter router(parse_routing("zipf:1"), options, {kExperts, 7}, 4, 0);
        RoutedBatch batch{.topk = 7, .experts = kExperts, .ids = {}};
        RowScratch scratch(kExperts);
        RandomStream stream(bias == 0 ? 1 : 2);
        draw_fresh_batch(router, options, kTokens, batch, scratch, stream);
        return rows_per_expert(batch);
      };
      const std::vector<std::int64_t> by_arrivals = rows(0), by_scores = rows(1e-12);
      for (std::size_t e = 0; e < by_scores.size(); ++e) {
        const double share = static_cast<double>(by_arrivals[e] + by_scores[e]) / (2.0 * kTokens);
        // The two tokens of a request are alike: up to twice the variance.
        const double standard_error = std::sqrt((2 + 2 * sticky) * share * (1 - share) * kTokens);
        EXPECT_NEAR(static_cast<double>(by_arrivals[e]), static_cast<double>(by_scores[e]), 4.5 * standard_error)
            << "expert " << e << ", scoring " << static_cast<int>(scoring) << ", sticky " << sticky;
      }
    }
  }
}

TEST(RoutingGenerator, AWholeBiasEvensOutTheLoads) {
  const auto spread = [](Scoring scoring, double bias) {
    RoutingOptions options;
    options.scoring = scoring;
    options.bias = bias;
    const std::vector<std::int64_t> rows = rows_over(generator("lognormal:1", options, {1, 1000, {256, 8}}), 30, 256);
    double squares = 0;
    const double mean = 30.0 * 1000 * 8 / 256;
    for (const std::int64_t r : rows)
      squares += (static_cast<double>(r) / mean - 1) * (static_cast<double>(r) / mean - 1);
    return std::sqrt(squares / 256);
  };
  for (const Scoring scoring : {Scoring::kSigmoid, Scoring::kSqrtSoftplus, Scoring::kSoftmax}) {
    const double without = spread(scoring, 0), half = spread(scoring, 0.5), with = spread(scoring, 1);
    EXPECT_GT(without, 0.9);
    EXPECT_LT(half, 0.8 * without);
    EXPECT_LT(with, 0.15) << static_cast<int>(scoring);
  }
}

// Global balance with skewed domains: even over all requests, concentrated in a batch of one domain.
TEST(RoutingGenerator, ABiasBalancesOverDomainsNotWithin) {
  RoutingOptions options;
  options.scoring = Scoring::kSigmoid;
  options.bias = 1;
  options.domains = 4;
  const double mixed = mean_distinct("lognormal:1.5", options, 60);
  options.same_domain = true;
  const double same = mean_distinct("lognormal:1.5", options, 60);
  EXPECT_LT(same, 0.85 * mixed);
}

TEST(RoutingGenerator, ABatchOfOneDomainOverlapsMoreThanAMixture) {
  RoutingOptions options;
  options.domains = 8;
  const double mixed = mean_distinct("lognormal:1.5", options, 100);
  options.same_domain = true;
  const double same = mean_distinct("lognormal:1.5", options, 100);
  EXPECT_LT(same, 0.8 * mixed);
  options.domain_purity = 0;  // nothing of their own: as without domains
  EXPECT_NEAR(mean_distinct("lognormal:1.5", options, 100), same, 0.1 * same);
}

TEST(RoutingGenerator, WithoutOptionsLayerZeroHasThePopularityOfDrawBatch) {
  const std::vector<std::int64_t> traced = rows_over(generator("zipf:2", {}, {1, 2000, {512, 1}}, 3), 1, 512);
  const std::vector<std::int64_t> drawn = rows_per_expert(draw_batch(parse_routing("zipf:2"), 512, 1, 2000, 3, 0));
  EXPECT_EQ(std::max_element(traced.begin(), traced.end()) - traced.begin(),
            std::max_element(drawn.begin(), drawn.end()) - drawn.begin());
}

// Spearman's correlation of two sets of weights.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto x, auto y) { return values[x] < values[y]; });
    std::vector<double> rank(values.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
    return rank;
  };
  const std::vector<double> x = ranks(a), y = ranks(b);
  const auto n = static_cast<double>(x.size());
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return 1 - 6 * squares / (n * (n * n - 1));
}

// Spearman's correlation of normals that correlate by r is 6/pi asin(r/2); its standard error is about 1/sqrt(E).
TEST(DriftingPopularity, LevelsCorrelateAsStatedAndTheWeightsStayThoseOfTheLaw) {
  constexpr std::int64_t kExperts = 4000;
  RandomStream stream(11);
  const std::vector<double> start = popularity_weights(parse_routing("zipf:0.8"), kExperts, stream);
  DriftingPopularity popularity(start, stream);
  EXPECT_EQ(popularity.weights(), start);
  for (int move = 0; move < 10; ++move) popularity.move(std::pow(0.7, 0.1), stream);
  std::vector<double> sorted_start = start, sorted_end = popularity.weights();
  const double expected = 6 / std::acos(-1.0) * std::asin(0.7 / 2);
  EXPECT_NEAR(rank_correlation(sorted_start, sorted_end), expected, 4 / std::sqrt(1.0 * kExperts));
  std::sort(sorted_start.begin(), sorted_start.end());
  std::sort(sorted_end.begin(), sorted_end.end());
  EXPECT_EQ(sorted_start, sorted_end);
}

TEST(RoutingGenerator, DriftMovesTheHotExpertsAndNoDriftDoesNot) {
  const auto overlap_after_1000_steps = [](double drift) {
    RoutingOptions options;
    options.drift = drift;
    RoutingGenerator source = generator("zipf:1.5", options, {1, 400, {256, 1}});
    const std::vector<std::int64_t> before = rows_per_expert(source.next());
    for (int step = 1; step < 1000; ++step) source.next();
    const std::vector<std::int64_t> after = rows_per_expert(source.next());
    std::int64_t shared = 0;
    for (std::size_t e = 0; e < before.size(); ++e) shared += std::min(before[e], after[e]);
    return static_cast<double>(shared) / 400;
  };
  EXPECT_GT(overlap_after_1000_steps(0), 0.8);
  EXPECT_LT(overlap_after_1000_steps(0.9), 0.4);
}

// Gamma's variance is its shape: shares of Dirichlet(c, ..., c) have a squared coefficient of variation of about 1/c.
TEST(Popularity, DirichletSharesSpreadAsTheLawSays) {
  for (const double c : {0.3, 1.0, 5.0}) {
    RandomStream stream(2);
    constexpr std::int64_t kExperts = 200'000;
    const std::vector<double> weights =
        popularity_weights({.kind = RoutingKind::kDirichlet, .parameter = c, .trace_file = ""}, kExperts, stream);
    double sum = 0, squares = 0;
    for (const double w : weights) {
      sum += w;
      squares += w * w;
    }
    EXPECT_NEAR(squares * kExperts / (sum * sum) - 1, 1 / c, 0.04 / c) << c;
  }
}

TEST(RoutingOptions, WrongOnesNameTheirFlag) {
  const auto flag_of = [](const char* law, const std::function<void(RoutingOptions&)>& change) {
    RoutingOptions options;
    change(options);
    try {
      check_routing_options(parse_routing(law), options, {64, 8});
    } catch (const InputError& error) {
      return error.problem().file;
    }
    return std::string("accepted");
  };
  using O = RoutingOptions;
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.groups = 7; }), "--groups");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.groups = 16; }), "--groups");  // one group of 4 holds no 8 experts
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.topk_groups = 2; }), "--groups");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.bias = 1.5; }), "--bias");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.domains = 65; }), "--domains");
  EXPECT_EQ(flag_of("uniform", [](O& o) { o.domains = 2; }), "--domains");
  EXPECT_EQ(flag_of("uniform", [](O& o) { o.drift = 0.1; }), "--drift");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.drift = 1; }), "--drift");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.domain_purity = -0.1; }), "--domain-purity");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.same_domain = true; }), "--same-domain");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.sticky = 1.01; }), "--sticky");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.sticky_prefill = 0.5; }), "--sticky-prefill");
  EXPECT_EQ(flag_of("zipf:1", [](O& o) { o.tokens_per_request = 0; }), "--tokens-per-request");
  EXPECT_EQ(flag_of("balanced", [](O& o) { o.sticky = 0.5; }), "--routing");
  EXPECT_EQ(flag_of("trace:a.npy", [](O& o) { o.groups = 2; }), "--routing");
  EXPECT_EQ(flag_of("uniform", [](O& o) { o.sticky = 0.5; }), "accepted");
}

TEST(RoutingOptions, NameSaysAllThatIsSet) {
  const std::string name = routing_name(parse_routing("zipf:0.6"), everything());
  for (const char* part : {"zipf:0.6", "groups 8/4 by sigmoid", "bias 0.5", "3 domains of purity 0.7",
                           "4 tokens per request", "sticky 0.3", "sticky 0.6 within a step", "drift 0.5"}) {
    EXPECT_THAT(name, HasSubstr(part));
  }
  EXPECT_EQ(routing_name(parse_routing("zipf:0.6"), {}), "zipf:0.6");
}

}  // namespace
}  // namespace moesim
