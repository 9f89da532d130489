// Who leads where, and how surely: standings made by hand, and a study of a small model.
#include "workloads/studies/crossover.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "workloads/studies/dispatch.h"

namespace moesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Duration micros(double us) { return Duration(std::llround(us * 1e6)); }

Standing standing(std::int64_t at, std::vector<double> us, std::vector<std::optional<double>> errors) {
  Standing s;
  s.at = s.tokens = at;
  s.value = {static_cast<double>(at), std::to_string(at)};
  for (const double time : us) s.times.push_back(micros(time));
  s.errors = std::move(errors);
  for (std::size_t i = 0; i < us.size(); ++i) {
    if (!s.winner || us[i] < us[*s.winner]) {
      s.next = s.winner;
      s.winner = i;
    } else if (!s.next || us[i] < us[*s.next]) {
      s.next = i;
    }
  }
  return s;
}

// The equation: Phi(ln lead / sqrt(s^2 + t^2)).
TEST(Confidence, OfTwoIsTheNormalIntegral) {
  for (const double lead : {1.0, 1.02, 1.1, 2.0}) {
    const Standing s = standing(1, {100, 100 * lead}, {0.03, 0.04});
    const double expected = std::erfc(-std::log(lead) / 0.05 / std::sqrt(2)) / 2;
    EXPECT_THAT(s.confidence(), testing::Optional(DoubleNear(expected, 1e-6))) << lead;
  }
}

TEST(Confidence, OfEqualRivalsIsSharedEvenly) {
  const Standing s = standing(1, {100, 100, 100, 100}, {0.05, 0.05, 0.05, 0.05});
  EXPECT_THAT(s.confidence(), testing::Optional(DoubleNear(0.25, 1e-6)));
}

TEST(Confidence, FallsWithFurtherRivals) {
  const double two = *standing(1, {100, 104}, {0.05, 0.05}).confidence();
  const double three = *standing(1, {100, 104, 105}, {0.05, 0.05, 0.05}).confidence();
  EXPECT_LT(three, two);
  EXPECT_GT(three, two / 2);
}

TEST(Confidence, IsNotKnownWhereAnErrorIsNot) {
  EXPECT_EQ(standing(1, {100, 104}, {0.05, std::nullopt}).confidence(), std::nullopt);
  EXPECT_FALSE(standing(1, {100, 104}, {0.05, std::nullopt}).contested());
}

TEST(Confidence, IsCertainWithoutARival) { EXPECT_EQ(standing(1, {100}, {std::nullopt}).confidence(), 1); }

TEST(Standing, IsContestedUnderItsError) {
  EXPECT_TRUE(standing(1, {100, 104.9}, {0.03, 0.04}).contested());
  EXPECT_FALSE(standing(1, {100, 105.3}, {0.03, 0.04}).contested());
}

CrossoverLine line_of(const std::vector<double>& ratios) {  // of the second's time to the first's, at 1, 2, 3, ...
  CrossoverLine line;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    line.standings.push_back(standing(static_cast<std::int64_t>(i) + 1, {100, 100 * ratios[i]}, {0.03, 0.04}));
  }
  return line;
}

TEST(Crossings, OfAClearChangeHaveNoZone) {
  const std::vector<Crossing> found = crossings_of(line_of({1.2, 1.1, 0.9, 0.8}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].last_before, 2);
  EXPECT_EQ(found[0].first_after, 3);
  EXPECT_EQ(found[0].before, 0U);
  EXPECT_EQ(found[0].after, 1U);
  EXPECT_EQ(found[0].zone, std::nullopt);
}

// Near a tie the order may change several times: one zone, one crossing.
TEST(Crossings, InOneZoneAreOne) {
  const std::vector<Crossing> found = crossings_of(line_of({1.2, 1.03, 0.99, 1.01, 0.98, 0.9}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].before, 0U);
  EXPECT_EQ(found[0].after, 1U);
  EXPECT_EQ(found[0].last_before, 2);
  EXPECT_EQ(found[0].first_after, 5);
  EXPECT_EQ(found[0].zone, std::pair(std::int64_t{2}, std::int64_t{5}));
}

TEST(Crossings, OfAZoneThatTheWinnerLeavesAheadAreNone) {
  EXPECT_THAT(crossings_of(line_of({1.2, 1.01, 0.99, 1.02, 1.3})), IsEmpty());
}

TEST(Crossings, ThereAndBackAreTwo) { EXPECT_THAT(crossings_of(line_of({1.2, 0.8, 0.8, 1.2})), SizeIs(2)); }

TEST(Crossings, AtTheEndOfTheAxisHaveAZoneToo) {
  const std::vector<Crossing> found = crossings_of(line_of({1.2, 1.01, 0.99}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].zone, std::pair(std::int64_t{2}, std::int64_t{3}));
}

TEST(Spans, PartWhereTheWinnerOrItsSurenessChanges) {
  const std::vector<WinnerSpan> spans = spans_of(line_of({1.3, 1.2, 1.01, 0.99, 0.8}));
  ASSERT_THAT(spans, SizeIs(4));
  EXPECT_EQ(spans[0].to, 2);
  EXPECT_DOUBLE_EQ(spans[0].lead_min, 1.2);
  EXPECT_DOUBLE_EQ(spans[0].lead_max, 1.3);
  EXPECT_TRUE(spans[1].contested);
  EXPECT_TRUE(spans[2].contested);
  EXPECT_EQ(spans[2].winner, 1U);
  EXPECT_THAT(spans[3].next, ElementsAre(0U));
}

// ----------------------------------------------------------------------------------------------- dispatch tables

CrossoverStudy study_of(CrossoverLine line) {
  CrossoverStudy study;
  study.axis = "concurrency";
  study.strategies = {"stream_gemv", "grouped_gemm"};
  line.reasons.resize(2);
  study.lines = {std::move(line)};
  return study;
}

DispatchTable table_of(const CrossoverStudy& study, DispatchBy by) {
  auto table = dispatch_table(study, by, 1);
  EXPECT_TRUE(std::holds_alternative<DispatchTable>(table));
  return std::get<DispatchTable>(std::move(table));
}

TEST(Dispatch, ByTokensPartsWhereWinnerOrTileChange) {
  CrossoverLine line = line_of({1.2, 1.1, 0.9, 0.8, 0.7});
  for (std::size_t i = 0; i < 5; ++i) line.standings[i].parameters = {{"block_m", i < 4 ? 16 : 64}};
  const DispatchTable table = table_of(study_of(line), DispatchBy::kTokens);
  ASSERT_THAT(table.entries, SizeIs(3));
  EXPECT_EQ(table.reference, "grouped_gemm");
  EXPECT_EQ(table.entries[0].from, 1);
  EXPECT_EQ(table.entries[0].to, 2);
  EXPECT_EQ(table.entries[0].strategy, 0U);
  EXPECT_DOUBLE_EQ(table.entries[0].gain_over_next.least, 1.1);
  EXPECT_DOUBLE_EQ(table.entries[0].gain_over_reference->most, 1.2);
  EXPECT_EQ(table.entries[1].to, 4);
  EXPECT_DOUBLE_EQ(table.entries[1].gain_over_reference->least, 1);
  EXPECT_EQ(table.entries[2].parameters.at("block_m"), 64);
}

TEST(Dispatch, ByDistinctExpertsPartsBetweenTheMeans) {
  CrossoverLine line = line_of({1.2, 1.1, 0.9, 0.8});
  const double distinct[] = {8, 15.2, 21.6, 27.1};
  for (std::size_t i = 0; i < 4; ++i) line.standings[i].distinct_experts = distinct[i];
  const DispatchTable table = table_of(study_of(line), DispatchBy::kDistinctExperts);
  ASSERT_THAT(table.entries, SizeIs(2));
  EXPECT_EQ(table.entries[0].from, 8);
  EXPECT_EQ(table.entries[1].from, 19);  // above (15.2 + 21.6) / 2 = 18.4
  EXPECT_EQ(table.entries[1].to, 27);
  EXPECT_THAT(table.not_told, IsEmpty());
}

TEST(Dispatch, SaysWhatDistinctExpertsCannotTell) {
  CrossoverLine line = line_of({1.2, 0.9, 0.8, 1.2});
  const double distinct[] = {4, 7.9, 8, 8};  // all are active from 3 tokens on
  for (std::size_t i = 0; i < 4; ++i) line.standings[i].distinct_experts = distinct[i];
  const DispatchTable table = table_of(study_of(line), DispatchBy::kDistinctExperts);
  ASSERT_THAT(table.entries, SizeIs(3));
  EXPECT_EQ(table.entries[1].from, 6);
  EXPECT_EQ(table.entries[1].to, 7);
  EXPECT_EQ(table.entries[2].from, 8);
  EXPECT_EQ(table.entries[2].strategy, 0U);

  line = line_of({1.2, 0.9, 1.2});
  for (std::size_t i = 0; i < 3; ++i) line.standings[i].distinct_experts = 8;
  const DispatchTable one = table_of(study_of(line), DispatchBy::kDistinctExperts);
  ASSERT_THAT(one.entries, SizeIs(1));
  EXPECT_EQ(one.entries[0].tokens_from, 3);
  EXPECT_THAT(one.not_told, SizeIs(2));
}

TEST(Dispatch, NeedsAFeasibleStrategyEverywhere) {
  CrossoverLine line = line_of({1.2, 1.1});
  line.standings[1].winner.reset();
  line.standings[1].next.reset();
  EXPECT_TRUE(std::holds_alternative<Infeasible>(dispatch_table(study_of(line), DispatchBy::kTokens, 1)));
}

TEST(Dispatch, TextIsWhatTheFlagTakes) {
  EXPECT_EQ(strategy_text("grouped_gemm", {}), "grouped_gemm");
  EXPECT_EQ(strategy_text("grouped_gemm", {{"block_m", 16}, {"block_n", 64}}), "grouped_gemm:block_m=16,block_n=64");
  EXPECT_EQ(strategy_text("grouped_gemm:block_m=16", {{"block_m", 16}, {"block_n", 64}}),
            "grouped_gemm:block_m=16,block_n=64");
}

}  // namespace
}  // namespace moesim
