// Every format of routed traces, damaged: an InputError, or a trace whose ids are experts.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "tests/fuzz/mutate.h"
#include "tests/testkit/traces.h"
#include "traces/routed_trace.h"
#include "traces/routing_formats/base64.h"

namespace moesim::fuzz {
namespace {

void check(const RoutedTrace& trace) {
  EXPECT_FALSE(trace.steps.empty());
  for (const TraceStep& step : trace.steps) {
    ASSERT_EQ(step.layers.size(), trace.layers.size());
    for (const RoutedBatch& batch : step.layers) {
      EXPECT_GT(batch.tokens, 0);
      EXPECT_EQ(batch.tokens, step.layers.front().tokens);
      EXPECT_EQ(static_cast<std::int64_t>(batch.ids.size()), batch.picks());
      EXPECT_TRUE(std::ranges::all_of(batch.ids, [&](std::int32_t id) { return id >= 0 && id < trace.experts; }));
    }
  }
}

// Feeds mutations of the file under its own name, so that endings still tell.
void fuzz_file(const std::string& name, const std::string& bytes, std::uint64_t seed) {
  SCOPED_TRACE(name);
  const std::string path = testkit::trace_file(name, bytes);
  const std::int64_t experts = name.starts_with("sglang_recorder") ? 4 : 8;
  const TraceHints hints = {.experts = experts, .topk = 2, .layers = 3, .tokens = {}};
  const Tally tally = feed({bytes}, json_words(), seed, kMutations / 10, [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    check(load_routed_trace(path, hints));
  });
  EXPECT_GT(tally.accepted, 0);
  EXPECT_GT(tally.refused, kMutations / 100);
}

TEST(Fuzz, RoutingFormats) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testkit::routing_data(""))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_GT(names.size(), 15U);
  std::uint64_t seed = 1;
  for (const std::string& name : names) {
    fuzz_file(name, read_text_file(testkit::routing_data(name), 1 << 20), seed++);
    if (testing::Test::HasFailure()) break;
  }
}

TEST(Fuzz, TraceSidecars) {
  const std::string array =
      testkit::trace_file("a.npy", testkit::npy_text("1, 2, 3, 2", {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
  const std::string path = testkit::trace_file("a.json", "");
  const Tally tally = feed(
      {R"({"schema":"moesim.routing/1","model":"m","experts":8,"topk":2,"layers":[3,5],"steps":[7,9],"step_tokens":[2,1]})",
       R"({"schema":"moesim.routing/1","experts":8,"shape":[1,2,3,2],"source":"s","warm_up":{"steps":1,"tokens":2,"first":0,"last":0}})"},
      json_words(), 1, kMutations / 2, [&](const std::string& text) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
        check(load_routed_trace(array, {.experts = 8, .topk = {}, .layers = {}, .tokens = {}}));
      });
  EXPECT_GT(tally.accepted, kMutations / 80);
  EXPECT_GT(tally.refused, kMutations / 20);
}

TEST(Fuzz, Base64) {
  int decoded = 0;
  feed({"", "TQ==", "TWE=", "TWFu", "k05VTVBZAQB2AHsn"}, {"=", "==", "+", "/", "A", "-", "_", " "}, 1, kMutations,
       [&](const std::string& text) {
         const Base64Text result = decode_base64(text);
         if (result.wrong) {
           EXPECT_LE(*result.wrong, text.size());
           EXPECT_TRUE(result.bytes.empty());
         } else {
           EXPECT_EQ(testkit::base64(result.bytes), text);
           ++decoded;
         }
       });
  EXPECT_GT(decoded, kMutations / 40);
}

}  // namespace
}  // namespace moesim::fuzz
