#include "workloads/routing/match.h"

#include <gmock/gmock.h>

#include <cmath>

#include "sim/io/input_error.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const MatchScope kQwen397{.router = {512, 10}, .layers = 60, .seeds = 1, .seed = 1};

// Duplicate share of `tokens` tokens by `draw_batch`, which the search does not use, over its popularities (seeds).
double share_by_draw_batch(const Routing& law, std::int64_t tokens, std::uint64_t seeds, std::uint64_t samples) {
  double sum = 0;
  for (std::uint64_t seed = 100; seed < 100 + seeds; ++seed) {
    for (std::uint64_t sample = 0; sample < samples; ++sample) {
      sum += routing_statistics(draw_batch(law, 512, 10, tokens, seed, sample)).duplicate_share;
    }
  }
  return sum / static_cast<double>(seeds * samples);
}

TEST(Match, FivePercentAtThreeTokensOfFiveHundredTwelveExperts) {
  const MatchTarget target = parse_match("duplicates=5%@3");
  const Match zipf = match_duplicates(RoutingKind::kZipf, {}, target, kQwen397);
  EXPECT_NEAR(zipf.law.parameter, 0.63, 0.03);
  EXPECT_NEAR(zipf.reached, 0.05, 0.001);
  const Match lognormal = match_duplicates(RoutingKind::kLognormal, {}, target, kQwen397);
  EXPECT_NEAR(lognormal.law.parameter, 1.02, 0.07);
  EXPECT_NEAR(lognormal.reached, 0.05, 0.001);
  for (const Match& match : {zipf, lognormal}) {
    EXPECT_TRUE(match.solved);
    EXPECT_LT(match.standard_error, 0.0003);
  }
  // 4,000 draws of standard deviation 0.04.
  EXPECT_NEAR(share_by_draw_batch(zipf.law, 3, 8, 500), 0.05, 4 * 0.04 / std::sqrt(4000));
}

// Uniform routing has 36 % there.
TEST(Match, EveryLawReachesHalfAtSixteenTokens) {
  const MatchTarget target = parse_match("duplicates=50%@16");
  for (const RoutingKind kind :
       {RoutingKind::kZipf, RoutingKind::kLognormal, RoutingKind::kDirichlet, RoutingKind::kPowerLaw}) {
    const Match match = match_duplicates(kind, {}, target, {.router = {128, 8}, .layers = 4, .seeds = 1, .seed = 1});
    EXPECT_TRUE(match.solved) << routing_name(match.law);
    EXPECT_NEAR(match.reached, 0.5, 0.01) << routing_name(match.law);
  }
}

TEST(Match, SolvesWithDomainsAndGroupsToo) {
  RoutingOptions options;
  options.domains = 4;
  options.same_domain = true;
  options.groups = 4;
  options.topk_groups = 2;
  options.scoring = Scoring::kSigmoid;
  const MatchScope scope{.router = {32, 2}, .layers = 2, .seeds = 2, .seed = 1};
  const Match match = match_duplicates(RoutingKind::kZipf, options, parse_match("duplicates=20%@3"), scope);
  EXPECT_TRUE(match.solved);
  EXPECT_NEAR(match.reached, 0.2, 0.004);
}

TEST(Match, ATargetOutOfReachIsNotSolved) {
  // Of 3 tokens at most two in three picks are duplicates; uniform routing has 1.3 % already.
  EXPECT_FALSE(match_duplicates(RoutingKind::kZipf, {}, parse_match("duplicates=70%@3"), kQwen397).solved);
  EXPECT_FALSE(match_duplicates(RoutingKind::kZipf, {}, parse_match("duplicates=0.5%@3"), kQwen397).solved);
}

TEST(Match, SameScopeSameParameter) {
  const MatchTarget target = parse_match("duplicates=10%@4,lognormal");
  const MatchScope scope{.router = {64, 6}, .layers = 3, .seeds = 2, .seed = 9};
  const Match first = match_duplicates(RoutingKind::kLognormal, {}, target, scope);
  const Match second = match_duplicates(RoutingKind::kLognormal, {}, target, scope);
  EXPECT_EQ(first.law.parameter, second.law.parameter);
  EXPECT_EQ(first.reached, second.reached);
}

TEST(Match, TextForms) {
  const MatchTarget percent = parse_match("duplicates=5%@3,lognormal");
  EXPECT_DOUBLE_EQ(percent.duplicates, 0.05);
  EXPECT_EQ(percent.tokens, 3);
  EXPECT_THAT(percent.laws, ElementsAre(RoutingKind::kLognormal));
  EXPECT_DOUBLE_EQ(parse_match("duplicates=0.05@3").duplicates, 0.05);
  EXPECT_THAT(parse_match("duplicates=5%@3").laws,
              ElementsAre(RoutingKind::kZipf, RoutingKind::kLognormal, RoutingKind::kDirichlet));
}

TEST(Match, WrongTextsSayWhatIsExpected) {
  for (const char* wrong :
       {"", "5%@3", "duplicates", "duplicates=5%", "duplicates=@3", "duplicates=5%@", "duplicates=5%@0",
        "duplicates=0@3", "duplicates=100%@3", "duplicates=5@3", "duplicates=-1%@3", "duplicates=5%@x",
        "duplicates=nan@3", "duplicates=5%@3,", "duplicates=5%@3,uniform", "duplicates=5%@3,zipf,zipf"}) {
    EXPECT_THROW(parse_match(wrong), InputError) << wrong;
  }
  try {
    parse_match("duplicates=5%@3,lognormla");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().file, "--match");
    EXPECT_EQ(error.problem().nearest, "lognormal");
    EXPECT_THAT(error.what(), HasSubstr("zipf"));
  }
}

}  // namespace
}  // namespace moesim
