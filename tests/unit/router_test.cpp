#include "workloads/router.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <stdexcept>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RoutedBatch draw(const std::string& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens,
                 std::uint64_t seed = 1, std::uint64_t sample = 0) {
  return draw_batch(parse_routing(routing), experts, topk, tokens, seed, sample);
}

std::span<const std::int32_t> row(const RoutedBatch& batch, std::int64_t token) {
  const auto topk = static_cast<std::size_t>(batch.topk);
  return std::span(batch.ids).subspan(static_cast<std::size_t>(token) * topk, topk);
}

// FNV-1a over the ids.
std::uint64_t checksum(const RoutedBatch& batch) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::int32_t id : batch.ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3U;
  return hash;
}

struct Statistic {
  double mean = 0;
  double standard_error = 0;
};

Statistic distinct_experts(const std::string& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens,
                           int samples) {
  double sum = 0;
  double squares = 0;
  for (int sample = 0; sample < samples; ++sample) {
    const double distinct =
        routing_statistics(draw(routing, experts, topk, tokens, 7, static_cast<std::uint64_t>(sample)))
            .distinct_experts;
    sum += distinct;
    squares += distinct * distinct;
  }
  const double mean = sum / samples;
  return {mean, std::sqrt((squares / samples - mean * mean) / samples)};
}

class EveryRouting : public testing::TestWithParam<const char*> {};

TEST_P(EveryRouting, RowsHoldDistinctExpertsInRange) {
  struct Shape {
    std::int64_t experts, topk, tokens;
  };
  for (const Shape& shape : {Shape{512, 10, 64}, Shape{8, 2, 5}, Shape{10, 6, 40}, Shape{60, 4, 3}, Shape{7, 7, 9},
                             Shape{1, 1, 4}, Shape{9, 5, 1}, Shape{16, 4, 0}}) {
    const RoutedBatch batch = draw(GetParam(), shape.experts, shape.topk, shape.tokens);
    ASSERT_EQ(batch.tokens, shape.tokens);
    ASSERT_EQ(static_cast<std::int64_t>(batch.ids.size()), batch.picks());
    for (std::int64_t token = 0; token < batch.tokens; ++token) {
      const auto ids = row(batch, token);
      const std::set<std::int32_t> distinct(ids.begin(), ids.end());
      EXPECT_EQ(distinct.size(), ids.size()) << "token " << token << " of " << shape.experts << "/" << shape.topk;
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), shape.experts);
    }
  }
}

TEST_P(EveryRouting, SameSeedAndSampleSameIds) {
  EXPECT_EQ(draw(GetParam(), 128, 8, 33, 5, 2).ids, draw(GetParam(), 128, 8, 33, 5, 2).ids);
}

TEST_P(EveryRouting, NameParsesBack) { EXPECT_EQ(routing_name(parse_routing(GetParam())), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Routings, EveryRouting,
                         testing::Values("uniform", "zipf:0.6", "zipf:10", "lognormal:1.5", "lognormal:10",
                                         "dirichlet:0.5", "dirichlet:0.001", "balanced", "same", "disjoint",
                                         "power_law:1", "power_law:1.2"));

class RandomRouting : public testing::TestWithParam<const char*> {};

TEST_P(RandomRouting, SeedsAndSamplesDiffer) {
  const auto ids = draw(GetParam(), 512, 10, 16, 5, 2).ids;
  EXPECT_NE(ids, draw(GetParam(), 512, 10, 16, 6, 2).ids);
  EXPECT_NE(ids, draw(GetParam(), 512, 10, 16, 5, 3).ids);
}

INSTANTIATE_TEST_SUITE_P(Routings, RandomRouting,
                         testing::Values("uniform", "zipf:0.6", "lognormal:1.5", "same", "disjoint", "power_law:1.2"));

// The bytes are part of the contract: a change here changes every published result.
TEST(Router, PinnedBytes) {
  EXPECT_EQ(checksum(draw("uniform", 512, 10, 64, 1, 3)), 4667350268474437173U);
  EXPECT_EQ(checksum(draw("zipf:0.6", 512, 10, 64, 1, 3)), 16970861214890253288U);
  EXPECT_EQ(checksum(draw("lognormal:1", 512, 10, 64, 1, 3)), 2592186827517794977U);
  EXPECT_EQ(checksum(draw("dirichlet:0.5", 512, 10, 64, 1, 3)), 9885404731392060986U);
  EXPECT_EQ(checksum(draw("power_law:1.2", 512, 10, 64, 1, 3)), 7141603889841791290U);
  EXPECT_EQ(checksum(draw("balanced", 512, 10, 64, 1, 3)), 1577373747941960357U);
  EXPECT_EQ(checksum(draw("same", 512, 10, 64, 1, 3)), 13908118222236099621U);
  EXPECT_EQ(checksum(draw("disjoint", 512, 10, 64, 1, 3)), 16411890391727014139U);
}

// A token misses an expert with probability 1 - k/E, so E (1 - (1 - k/E)^T) experts are expected in all.
TEST(Router, UniformTouchesTheExpectedNumberOfExperts) {
  for (const std::int64_t tokens : {3, 64}) {
    const double expected = 512 * (1 - std::pow(1 - 10.0 / 512, static_cast<double>(tokens)));
    const Statistic drawn = distinct_experts("uniform", 512, 10, tokens, 400);
    EXPECT_NEAR(drawn.mean, expected, 3 * drawn.standard_error) << tokens << " tokens";
    EXPECT_LT(drawn.standard_error, 0.01 * expected);
  }
}

TEST(Router, UniformPicksEveryExpertAlikeOften) {
  std::vector<std::int64_t> rows = rows_per_expert(draw("uniform", 60, 4, 30'000));
  // Binomial(30000, 1/15): mean 2000, standard deviation 43; 5 deviations for the extremes of 60.
  EXPECT_GT(*std::min_element(rows.begin(), rows.end()), 2000 - 5 * 43);
  EXPECT_LT(*std::max_element(rows.begin(), rows.end()), 2000 + 5 * 43);
}

TEST(Router, SkewGrowsWithTheParameter) {
  for (const char* family : {"zipf", "lognormal"}) {
    double previous = distinct_experts("uniform", 512, 10, 64, 20).mean;
    for (const char* parameter : {":0.5", ":1", ":2"}) {
      const double distinct = distinct_experts(std::string(family) + parameter, 512, 10, 64, 20).mean;
      EXPECT_LT(distinct, 0.98 * previous) << family << parameter;
      previous = distinct;
    }
  }
}

// One pick a token: the shares of the experts are the popularities themselves, 1/r over the harmonic number.
TEST(Router, ZipfSharesFollowTheLaw) {
  std::vector<std::int64_t> rows = rows_per_expert(draw("zipf:1", 4, 1, 100'000));
  EXPECT_FALSE(std::is_sorted(rows.rbegin(), rows.rend())) << "popularity must not follow the expert's number";
  std::sort(rows.rbegin(), rows.rend());
  const double harmonic = 1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const double share = 1 / (static_cast<double>(rank + 1) * harmonic);
    EXPECT_NEAR(static_cast<double>(rows[rank]) / 100'000, share, 0.006) << "rank " << rank;  // 4 standard errors
  }
}

TEST(Router, SamplesOfASeedShareTheirHotExperts) {
  const auto hottest = [](std::uint64_t seed, std::uint64_t sample) {
    const std::vector<std::int64_t> rows = rows_per_expert(draw("zipf:2", 512, 1, 2000, seed, sample));
    return std::max_element(rows.begin(), rows.end()) - rows.begin();
  };
  EXPECT_EQ(hottest(1, 0), hottest(1, 1));
  EXPECT_NE(hottest(1, 0), hottest(2, 0));
}

TEST(Router, BalancedIsTheStridePattern) {
  // s = ceil(8 / 2) = 4 and T >= s: (t + 4 j) mod 8.
  EXPECT_THAT(draw("balanced", 8, 2, 5).ids, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7, 4, 0));
  // T = 3 < s = 4: floor(4 t / 3) + 4 j.
  EXPECT_THAT(draw("balanced", 8, 2, 3).ids, ElementsAre(0, 4, 1, 5, 2, 6));
  EXPECT_THAT(draw("balanced", 512, 10, 1).ids, ElementsAre(0, 52, 104, 156, 208, 260, 312, 364, 416, 468));
}

TEST(Router, BalancedTakesTheNextFreeExpertWhereTheStrideComesRound) {
  // s = ceil(10 / 6) = 2: slot 5 would be 0 (or 1) again.
  EXPECT_THAT(draw("balanced", 10, 6, 2).ids, ElementsAre(0, 2, 4, 6, 8, 1, 1, 3, 5, 7, 9, 2));
}

TEST(Router, BalancedSpreadsRowsEvenly) {
  const std::vector<std::int64_t> rows = rows_per_expert(draw("balanced", 128, 8, 64));
  EXPECT_THAT(rows, testing::Each(4));
}

TEST(Router, SameGivesEveryTokenTheSameExperts) {
  const RoutedBatch batch = draw("same", 512, 10, 64);
  EXPECT_EQ(routing_statistics(batch).distinct_experts, 10);
  EXPECT_EQ(routing_statistics(batch).max_rows, 64);
}

TEST(Router, DisjointRepeatsNoExpertUntilThePackIsUsedUp) {
  // 51 tokens of 10 picks use 510 of 512 experts.
  const RoutingStatistics first = routing_statistics(draw("disjoint", 512, 10, 51));
  EXPECT_EQ(first.distinct_experts, 510);
  EXPECT_EQ(first.max_rows, 1);
  // Cards skipped at a pack's end are dealt later, so whole packs are even: 8 packs of 512 are 4,096 picks of 8 each.
  EXPECT_THAT(rows_per_expert(draw("disjoint", 512, 8, 512)), testing::Each(8));
  // 5 experts, rows of 3: each pack boundary falls inside a row.
  EXPECT_THAT(rows_per_expert(draw("disjoint", 5, 3, 50)), testing::Each(30));
}

// Means over 150 draws of an independent implementation of the pattern (benchmark tables of ai-dynamo/aiconfigurator),
// with the standard deviation of one draw.
TEST(Router, PowerLawLoadsAreThoseOfPublishedTables) {
  struct Expected {
    const char* routing;
    std::int64_t experts, topk, tokens;
    double distinct, deviation, max_rows, tiles_of_16;
  };
  for (const Expected& e : {Expected{"power_law:1.2", 128, 8, 16, 59.12, 3.83, 7.25, 59.12},
                            Expected{"power_law:1.01", 128, 8, 16, 64.67, 3.69, 5.19, 64.67},
                            Expected{"power_law:1.01", 512, 10, 32, 213.60, 5.83, 3.25, 213.60},
                            Expected{"power_law:1.2", 512, 10, 64, 320.64, 5.5, 6.13, 320.64},
                            Expected{"power_law:1.2", 8, 2, 64, 8, 0.01, 46.77, 12.45}}) {
    constexpr int kSamples = 150;
    double distinct = 0, max_rows = 0, tiles = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      const RoutedBatch batch = draw(e.routing, e.experts, e.topk, e.tokens, 7, static_cast<std::uint64_t>(sample));
      const RoutingStatistics statistics = routing_statistics(batch);
      distinct += statistics.distinct_experts / kSamples;
      max_rows += statistics.max_rows / kSamples;
      for (const std::int64_t rows : rows_per_expert(batch)) tiles += static_cast<double>((rows + 15) / 16) / kSamples;
    }
    const std::string what = fmt::format("{} {}/{} T{}", e.routing, e.topk, e.experts, e.tokens);
    EXPECT_NEAR(distinct, e.distinct, 4 * e.deviation * std::sqrt(2.0 / kSamples)) << what;
    EXPECT_NEAR(max_rows, e.max_rows, 0.08 * e.max_rows) << what;
    EXPECT_NEAR(tiles, e.tiles_of_16, 0.03 * e.tiles_of_16) << what;
  }
}

// traps of the pattern: with fewer tokens than ceil(E / k) they are spread over the stride.
TEST(Router, BalancedLoadsAreThoseOfPublishedTables) {
  EXPECT_EQ(routing_statistics(draw("balanced", 128, 8, 8)).distinct_experts, 64);
  EXPECT_EQ(routing_statistics(draw("balanced", 128, 8, 32)).max_rows, 2);
  EXPECT_EQ(routing_statistics(draw("balanced", 512, 10, 32)).distinct_experts, 316);
}

TEST(Router, WrongRoutingsSayWhatIsExpected) {
  for (const char* wrong :
       {"",         "uniform:1", "uniform:", "zipf",    "zipf:",         "zipf:0",    "zipf:-1",     "zipf:11",
        "zipf:nan", "zipf:inf",  "zipf:1x",  "zipf: 1", "lognormal:1,5", "power_law", "power_law:0", "balanced:2",
        "same:",    "trace",     "trace:",   "Uniform", "gumbel:1",      "dirichlet", "dirichlet:0"}) {
    EXPECT_THROW(parse_routing(wrong), InputError) << wrong;
  }
  try {
    parse_routing("unifrom");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().file, "--routing");
    EXPECT_EQ(error.problem().nearest, "uniform");
    EXPECT_THAT(error.what(), HasSubstr("zipf:S"));
  }
}

TEST(Router, TraceNamesItsFile) {
  const Routing routing = parse_routing("trace:C:/runs/a.npy");
  EXPECT_EQ(routing.kind, RoutingKind::kTrace);
  EXPECT_EQ(routing.trace_file, "C:/runs/a.npy");
  EXPECT_EQ(routing_name(routing), "trace:C:/runs/a.npy");
}

TEST(Router, ATraceOrTooManyPicksIsOurBug) {
  EXPECT_THROW(draw("trace:a.npy", 8, 2, 1), std::logic_error);
  EXPECT_THROW(draw("uniform", 4, 5, 1), std::logic_error);
  EXPECT_THROW(draw("uniform", 4, 0, 1), std::logic_error);
}

}  // namespace
}  // namespace moesim
