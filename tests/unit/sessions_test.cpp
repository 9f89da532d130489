// Sessions: laws of lengths, arrivals, batches, and the server on systems small enough to follow by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/io/input_error.h"
#include "workloads/sessions/server.h"
#include "workloads/studies/step_times.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Duration kMs(1'000'000'000);
constexpr std::uint64_t kSeed = 7;

TimePoint at_ms(std::int64_t ms) { return TimePoint() + kMs * ms; }

// ---- lengths

TEST(LengthLaw, ReadsWhatItNames) {
  for (const char* text : {"512", "uniform:3..9", "lognormal:400,0.5", "exponential:100"}) {
    EXPECT_EQ(length_law_name(parse_length_law(text, "--prompt")), text);
  }
  RandomStream stream(1);
  EXPECT_EQ(draw_length(parse_length_law("0", "--tokens-out", 0), stream), 0);
  for (const char* text :
       {"", "0", "-1", "1.5", "uniform:9..3", "uniform:3", "lognormal:4", "lognormal:0,1", "lognormal:4,9",
        "exponential:", "exponential:nan", "normal:3", "uniform:0..4", "5 tokens"}) {
    EXPECT_THROW(parse_length_law(text, "--prompt"), InputError) << text;
  }
}

TEST(LengthLaw, MeansAreThoseOfTheLaws) {
  constexpr int kDraws = 40'000;
  const auto mean = [&](const char* text) {
    RandomStream stream = stream_of(kSeed, 1);
    double sum = 0;
    for (int i = 0; i < kDraws; ++i) sum += static_cast<double>(draw_length(parse_length_law(text, ""), stream));
    return sum / kDraws;
  };
  const double root = std::sqrt(kDraws);
  EXPECT_NEAR(mean("uniform:10..30"), 20, 4 * 6.06 / root);
  EXPECT_NEAR(mean("exponential:200"), 200, 4 * 200 / root);
  const double lognormal = 300 * std::exp(0.5 * 0.5 * 0.5);
  EXPECT_NEAR(mean("lognormal:300,0.5"), lognormal, 4 * lognormal * std::sqrt(std::exp(0.25) - 1) / root);
}

// ---- arrivals

TEST(Arrivals, ClosedStreamsSendAChunkEveryPeriodAndMoreSessionsChangeNoneOfThem) {
  const StreamShape shape;
  const std::vector<Session> four = closed_streams(shape, 4, at_ms(1000), kSeed);
  const std::vector<Session> nine = closed_streams(shape, 9, at_ms(1000), kSeed);
  ASSERT_THAT(four, SizeIs(4));
  for (std::size_t s = 0; s < four.size(); ++s) {
    EXPECT_THAT(four[s].turns, SizeIs(5));
    EXPECT_LT(four[s].turns.front().arrival, at_ms(200));
    for (std::size_t k = 0; k < four[s].turns.size(); ++k) {
      EXPECT_EQ(four[s].turns[k].arrival, four[s].turns[0].arrival + shape.period * static_cast<std::int64_t>(k));
      EXPECT_EQ(four[s].turns[k].arrival, nine[s].turns[k].arrival);
    }
  }
}

TEST(Arrivals, JitterDelaysAndKeepsTheOrder) {
  StreamShape shape;
  shape.jitter = kMs * 500;
  for (const Session& session : closed_streams(shape, 5, at_ms(3000), kSeed)) {
    EXPECT_LT(session.turns.front().arrival, at_ms(700));
    for (std::size_t k = 1; k < session.turns.size(); ++k) {
      EXPECT_GE(session.turns[k].arrival, session.turns[k - 1].arrival);
    }
  }
}

TEST(Arrivals, OpenStreamsAreAsManyAsAskedForInTheMean) {
  const TimePoint horizon = at_ms(400'000);
  double seconds = 0;
  for (const Session& s : open_streams({}, 10, kMs * 5000, horizon, kSeed)) {
    seconds += 0.2 * static_cast<double>(s.turns.size());
  }
  // Sessions, 800 of them, by chunks of 0.2 s (half a period more than their time in the mean).
  EXPECT_NEAR(seconds / 400, 10 * (5 + 0.1) / 5, 4 * 10 / std::sqrt(800.0) * std::sqrt(2.0));
}

TEST(Arrivals, AnotherRateStretchesTheSameGaps) {
  const LengthLaw law = parse_length_law("uniform:1..100", "");
  const std::vector<Session> slow = open_requests(1, law, law, at_ms(50'000), kSeed);
  const std::vector<Session> fast = open_requests(2, law, law, at_ms(25'000), kSeed);
  ASSERT_EQ(slow.size(), fast.size());
  for (std::size_t i = 0; i < slow.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(slow[i].turns[0].arrival.value()),
                2.0 * static_cast<double>(fast[i].turns[0].arrival.value()), 2e3);
    EXPECT_EQ(slow[i].turns[0].prompt, fast[i].turns[0].prompt);
  }
}

// ---- batches

TEST(Batcher, DecodesGoFirstThenPromptsInOrderUntilTheBudgetIsUsed) {
  const std::vector<ActiveTurn> active = {{0, 50, 4, 0}, {1, 0, 3, 90}, {2, 30, 4, 0}, {3, 0, 1, 20}};
  EXPECT_THAT(next_batch(active, {64, 8}), ElementsAre(BatchPiece{1, 1, false}, BatchPiece{3, 1, false},
                                                       BatchPiece{0, 50, true}, BatchPiece{2, 12, true}));
  EXPECT_THAT(next_batch(active, {20, 8}),
              ElementsAre(BatchPiece{1, 1, false}, BatchPiece{3, 1, false}, BatchPiece{0, 18, true}));
  EXPECT_THAT(next_batch(active, {1, 8}), ElementsAre(BatchPiece{1, 1, false}));
  EXPECT_THAT(next_batch(active, {2, 8}), ElementsAre(BatchPiece{1, 1, false}, BatchPiece{3, 1, false}));
}

TEST(Batcher, NoMoreSequencesThanAllowed) {
  const std::vector<ActiveTurn> active = {{0, 5, 4, 0}, {1, 5, 3, 0}, {2, 0, 4, 9}};
  EXPECT_THAT(next_batch(active, {64, 2}), ElementsAre(BatchPiece{2, 1, false}, BatchPiece{0, 5, true}));
  EXPECT_THAT(next_batch({}, {64, 2}), IsEmpty());
}

// ---- the server: every step takes 10 ms

ServerLimits roomy() {
  ServerLimits limits;
  limits.cache = Bytes(1'000'000);
  limits.session_bytes = [](std::int64_t context) { return Bytes(context); };
  return limits;
}

std::variant<StepTime, Infeasible> ten_ms(std::size_t, const std::vector<StepSequences>&) {
  return StepTime{kMs * 10, 0};
}

Session one_turn(std::int64_t ms, std::int64_t prompt, std::int64_t output) {
  return {.context = 0, .turns = {{at_ms(ms), prompt, output}}};
}

// 0-10 A's prompt and first token; 10-20 A's second, B's prompt and first; 20-30 A's third and last, B's second; 30-40 B's last.
TEST(Server, TwoRequestsStepByStep) {
  const ServerRun run = run_server({one_turn(0, 4, 3), one_turn(5, 4, 3)}, roomy(), ten_ms);
  ASSERT_THAT(run.turns, SizeIs(2));
  EXPECT_EQ(run.turns[0].first_token, at_ms(10));
  EXPECT_EQ(run.turns[0].finish, at_ms(30));
  EXPECT_EQ(run.turns[1].start, at_ms(10));
  EXPECT_EQ(run.turns[1].first_token, at_ms(20));
  EXPECT_EQ(run.turns[1].finish, at_ms(40));
  ASSERT_THAT(run.steps, SizeIs(4));
  EXPECT_EQ(run.steps[1].decodes, 1);
  EXPECT_EQ(run.steps[1].prompt_tokens, 4);
  // Area under the number in the system: 1 from 0 to 5 ms, 2 until 30, 1 until 40.
  EXPECT_DOUBLE_EQ(run.turns_in_system_seconds, 0.005 + 2 * 0.025 + 0.010);
  EXPECT_TRUE(run.little_exact);
}

// The same with a budget of 3 tokens a step: A's prompt takes 2 steps; then A's decodes leave 2 tokens for B.
TEST(Server, AChunkedPromptSharesStepsWithDecodes) {
  ServerLimits limits = roomy();
  limits.batch.tokens = 3;
  std::vector<std::vector<StepSequences>> batches;
  const ServerRun run = run_server({one_turn(0, 4, 2), one_turn(5, 4, 1)}, limits,
                                   [&](std::size_t step, const std::vector<StepSequences>& batch) {
                                     batches.push_back(batch);
                                     return ten_ms(step, batch);
                                   });
  EXPECT_THAT(batches, ElementsAre(ElementsAre(StepSequences{1, 3, 3}),
                                   ElementsAre(StepSequences{1, 1, 4}, StepSequences{1, 2, 2}),
                                   ElementsAre(StepSequences{1, 1, 5}, StepSequences{1, 2, 4})));
  EXPECT_EQ(run.turns[0].first_token, at_ms(20));
  EXPECT_EQ(run.turns[0].finish, at_ms(30));
  EXPECT_EQ(run.turns[1].finish, at_ms(30));
}

// N sessions in step with each other, a chunk of one step each: all wait for nothing. Utilisation is step / period.
TEST(Server, AClosedSystemOfChunksIsPeriodic) {
  std::vector<Session> sessions(3);
  for (Session& session : sessions) {
    for (int k = 0; k < 5; ++k) session.turns.push_back({at_ms(40 * k), 8, 2});
  }
  const ServerRun run = run_server(sessions, roomy(), ten_ms);
  for (const TurnRecord& turn : run.turns) EXPECT_EQ(*turn.finish - turn.arrival, kMs * 20);
  EXPECT_THAT(run.steps, SizeIs(10));
  EXPECT_NEAR(run.turns_in_system_seconds, 3 * 5 * 0.020, 1e-12);
}

// Chunks every 10 ms that take 20: each waits 10 ms longer than the one before.
TEST(Server, AChunkWaitsForTheOneBeforeIt) {
  Session session;
  for (int k = 0; k < 4; ++k) session.turns.push_back({at_ms(10 * k), 8, 2});
  const ServerRun run = run_server({session}, roomy(), ten_ms);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(run.turns[static_cast<std::size_t>(k)].finish, at_ms(20 * (k + 1)));
  EXPECT_TRUE(run.little_exact);
}

TEST(Server, ContextsGrowToTheirLimit) {
  ServerLimits limits = roomy();
  limits.context = 25;
  Session session{.context = 10, .turns = {{at_ms(0), 8, 2}, {at_ms(50), 8, 2}}};
  std::vector<std::int64_t> contexts;
  run_server({session}, limits, [&](std::size_t step, const std::vector<StepSequences>& batch) {
    contexts.push_back(batch.front().context);
    return ten_ms(step, batch);
  });
  EXPECT_THAT(contexts, ElementsAre(18, 19, 25, 25));
}

TEST(Server, WhatDoesNotFitWaitsInOrderOrIsTurnedAway) {
  ServerLimits limits = roomy();
  limits.cache = Bytes(25);  // of a session: prompt + output = 10
  const std::vector<Session> sessions = {one_turn(0, 9, 1), one_turn(1, 9, 1), one_turn(2, 9, 1), one_turn(3, 9, 1)};
  const ServerRun waits = run_server(sessions, limits, ten_ms);
  EXPECT_EQ(waits.most_sessions, 2);
  EXPECT_EQ(waits.turns[0].finish, at_ms(10));
  EXPECT_EQ(waits.turns[1].finish, at_ms(20));
  EXPECT_EQ(waits.turns[3].finish, at_ms(30));
  EXPECT_TRUE(waits.little_exact);
  limits.admission = Admission::kReject;
  limits.sessions = 1;
  const ServerRun turns_away = run_server(sessions, limits, ten_ms);
  EXPECT_EQ(turns_away.turned_away, 2);  // of the three that come while the first runs, one finds room at its end
  EXPECT_FALSE(turns_away.turns[3].finish.has_value());
}

TEST(Server, EndsWhenToldTo) {
  std::vector<Session> sessions;
  for (int i = 0; i < 20; ++i) sessions.push_back(one_turn(100 * i, 4, 1));
  int seen = 0;
  const ServerRun run = run_server(sessions, roomy(), ten_ms, [&](const TurnRecord&) { return ++seen == 3; });
  EXPECT_TRUE(run.stopped);
  EXPECT_THAT(run.steps, SizeIs(3));
}

TEST(Server, TheHostsTimeIsPartOfEachStep) {
  ServerLimits limits = roomy();
  limits.host = kMs * 2;
  EXPECT_EQ(run_server({one_turn(0, 4, 3)}, limits, ten_ms).turns[0].finish, at_ms(36));
}

// ---- rounding of compositions

TEST(StepRounding, LevelsContextsAndRoundsThemUp) {
  const std::vector<StepSequences> batch = {{1, 1, 100}, {1, 20, 300}, {1, 1, 1000}, {1, 11, 50}};
  EXPECT_THAT(rounded_batch(batch, {.context = 256}), ElementsAre(StepSequences{2, 1, 768}, StepSequences{2, 16, 256}));
  EXPECT_THAT(rounded_batch(batch, {.context = 1, .chunk = 10}),
              ElementsAre(StepSequences{2, 1, 550}, StepSequences{2, 20, 175}));
  EXPECT_THAT(rounded_batch({{1, 500, 500}}, {.context = 1, .chunk = 512}), ElementsAre(StepSequences{1, 512, 512}));
}

TEST(StepRounding, ManySequencesAreRoundedUpToBinaryDigits) {
  const auto count = [](std::int64_t n, int digits) {
    return rounded_batch({{n, 1, 5}}, {.context = 1, .chunk = 1, .count_digits = digits}).front().count;
  };
  EXPECT_THAT((std::vector{count(15, 4), count(16, 4), count(17, 4), count(31, 4), count(33, 4), count(100, 4)}),
              ElementsAre(15, 16, 18, 32, 36, 104));
  EXPECT_EQ(count(1001, 20), 1001);
}

TEST(StepRounding, ExactKeepsEachContextAndOnlyCounts) {
  const std::vector<StepSequences> batch = {{1, 1, 100}, {1, 20, 300}, {1, 1, 40}, {1, 1, 100}};
  EXPECT_THAT(rounded_batch(batch, {.context = std::nullopt}),
              ElementsAre(StepSequences{1, 1, 40}, StepSequences{2, 1, 100}, StepSequences{1, 20, 300}));
}

}  // namespace
}  // namespace moesim
