#include "traces/routing_formats/warm_up.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testkit/traces.h"
#include "traces/routed_trace.h"
#include "workloads/router.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kExperts = 64, kTopk = 4, kLayers = 8;

// A step whose layers are drawn by `kind`.
TraceStep drawn(std::int64_t id, std::int64_t tokens, RoutingKind kind = RoutingKind::kUniform,
                std::uint64_t seed = 1) {
  TraceStep step{.id = id, .layers = {}};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    step.layers.push_back(draw_batch({.kind = kind, .parameter = 0, .trace_file = ""}, kExperts, kTopk, tokens, seed,
                                     static_cast<std::uint64_t>(id * kLayers + layer)));
  }
  return step;
}

// One dummy token, `tokens` times.
TraceStep dummy(std::int64_t id, std::int64_t tokens) {
  TraceStep step = drawn(0, 1, RoutingKind::kUniform, 99);
  step.id = id;
  for (RoutedBatch& batch : step.layers) {
    const std::vector<std::int32_t> row = batch.ids;
    for (std::int64_t i = 1; i < tokens; ++i) batch.ids.insert(batch.ids.end(), row.begin(), row.end());
    batch.tokens = tokens;
  }
  return step;
}

RoutedTrace trace_of(std::vector<TraceStep> steps) {
  RoutedTrace trace;
  trace.experts = kExperts;
  trace.topk = kTopk;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) trace.layers.push_back(layer);
  trace.steps = std::move(steps);
  return trace;
}

RoutedTrace cut(std::vector<TraceStep> steps) {
  RoutedTrace trace = trace_of(std::move(steps));
  drop_warm_up(trace);
  return trace;
}

std::vector<std::int64_t> ids(const RoutedTrace& trace) {
  std::vector<std::int64_t> all;
  for (const TraceStep& step : trace.steps) all.push_back(step.id);
  return all;
}

TEST(WarmUp, PassesOfOneDummyTokenAreDropped) {
  const RoutedTrace trace = cut({dummy(3, 16), dummy(4, 8), dummy(5, 1), drawn(6, 5), drawn(7, 1), drawn(8, 1)});
  EXPECT_THAT(ids(trace), ElementsAre(6, 7, 8));
  EXPECT_EQ(trace.warm_up, (WarmUp{.steps = 3, .tokens = 25, .first = 3, .last = 5}));
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("steps 3 to 5")));
}

TEST(WarmUp, TheSamePassAgainIsDropped) {
  TraceStep again = drawn(0, 4);
  again.id = 1;
  const RoutedTrace trace = cut({drawn(0, 4), again, drawn(2, 4), drawn(3, 1)});
  EXPECT_THAT(ids(trace), ElementsAre(2, 3));
  EXPECT_EQ(trace.warm_up.steps, 2);
}

TEST(WarmUp, OnlyTheStartIsLookedAt) {
  EXPECT_THAT(ids(cut({drawn(0, 4), dummy(1, 16), dummy(2, 16), drawn(3, 4)})), ElementsAre(0, 1, 2, 3));
}

TEST(WarmUp, NeverDropsEverything) {
  const RoutedTrace trace = cut({dummy(0, 16), dummy(1, 16)});
  EXPECT_THAT(ids(trace), ElementsAre(0, 1));
  EXPECT_EQ(trace.warm_up, WarmUp());
  EXPECT_THAT(trace.notes, IsEmpty());
}

TEST(WarmUp, RealRoutingIsNotCut) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<TraceStep> steps = {drawn(0, 2, RoutingKind::kUniform, seed)};
    for (std::int64_t id = 1; id < 10; ++id) steps.push_back(drawn(id, 1, RoutingKind::kUniform, seed));
    EXPECT_EQ(cut(std::move(steps)).steps.size(), 10U) << seed;
  }
}

TEST(WarmUp, ACoincidenceThatChanceGivesIsNoWarmUp) {
  // Two tokens of one layer of 8 experts share both: 1 in 28.
  RoutedTrace trace;
  trace.experts = 8;
  trace.topk = 2;
  trace.layers = {0};
  trace.steps = {{0, {{.tokens = 2, .topk = 2, .experts = 8, .ids = {0, 1, 0, 1}}}},
                 {1, {{.tokens = 2, .topk = 2, .experts = 8, .ids = {2, 1, 0, 5}}}}};
  drop_warm_up(trace);
  EXPECT_EQ(trace.steps.size(), 2U);
}

// Of a recording, and of an array of layers without a sidecar; not of independent draws, not of what was written here.
TEST(WarmUp, IsDroppedWhereAnEngineMayHaveWrittenIt) {
  const RoutedTrace trace = trace_of({dummy(0, 8), drawn(1, 8), drawn(2, 8)});
  const std::string path = testkit::trace_file("a.npy", "");
  const std::vector<TraceFile> files = routed_trace_files(trace, path);
  testkit::trace_file("a.npy", files[0].bytes);
  const TraceHints hints = {.experts = kExperts, .topk = {}, .layers = {}, .tokens = {}};
  EXPECT_EQ(load_routed_trace(path, hints).warm_up.steps, 1);
  testkit::trace_file("a.json", files[1].bytes);
  EXPECT_EQ(load_routed_trace(path, hints).warm_up.steps, 0);

  std::string routes;
  for (int pass = 0; pass < 4; ++pass) {
    for (int token = 0; token < 16; ++token) {
      routes += fmt::format("{{\"type\": \"route\", \"token_idx\": {}, \"layer\": 0, \"topk_ids\": [{}, {}]}}\n", token,
                            pass < 3 ? 0 : token, 63);
    }
  }
  const RoutedTrace recorded = load_routed_trace(testkit::trace_file("a.jsonl", routes), hints);
  EXPECT_EQ(recorded.steps.size(), 1U);
  EXPECT_EQ(recorded.warm_up, (WarmUp{.steps = 3, .tokens = 48, .first = 0, .last = 2}));
}

TEST(WarmUp, WhatWasDroppedStaysInTheSidecar) {
  const RoutedTrace trace = cut({dummy(3, 16), drawn(6, 5), drawn(7, 1)});
  for (const char* name : {"a.npy", "b.jsonl"}) {
    const std::string path = testkit::trace_file(name, "");
    for (const TraceFile& file : routed_trace_files(trace, path)) {
      testkit::trace_file(file.path.substr(file.path.rfind('-') + 1), file.bytes);
    }
    EXPECT_EQ(load_routed_trace(path, {}).warm_up, trace.warm_up) << name;
  }
}

}  // namespace
}  // namespace moesim
