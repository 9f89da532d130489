// Profiler traces and tables of kernel names, damaged: an InputError, or what holds together.
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "tests/fuzz/mutate.h"
#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"
#include "traces/kernel_classes.h"
#include "traces/trace_layers.h"

namespace moesim::fuzz {
namespace {

void check(const ProfilerTrace& trace, const KernelClassifier& classifier) {
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    EXPECT_LT(trace.events[e].name, trace.names.size());
    EXPECT_GE(trace.events[e].length, Duration());
    EXPECT_GE(trace.events[e].start, TimePoint(0));
    EXPECT_LE(trace.events[e > 0 ? e - 1 : e].start, trace.events[e].start);
  }
  const TraceLayers layers = find_layers(trace, classifier);
  std::size_t events = 0;
  std::int64_t moe = 0;
  for (const TraceSection& section : layers.sections) {
    events += section.events.size();
    for (const auto* layers_of : {&section.layers, &section.apart}) {
      for (const LayerInstance& layer : *layers_of) {
        EXPECT_FALSE(layer.kernels.empty());
        moe += static_cast<std::int64_t>(layer.kernels.size());
      }
    }
  }
  EXPECT_EQ(events, trace.events.size());
  EXPECT_EQ(moe, layers.moe_kernels);
  EXPECT_LE(layers.staged_kernels, layers.moe_kernels);
  EXPECT_LE(layers.named_time, layers.device_time);
}

TEST(Fuzz, ProfilerTraces) {
  const KernelClassifier classifier;
  const std::string path = temp_file("trace.json", "");
  std::vector<std::string_view> words = json_words();
  words.insert(words.end(), {"kernel", "gpu_user_annotation", "stage:gemm1", "strategy:x", "\"ts\":", "\"args\":{",
                             "vllm::moe_forward", "\"ph\":\"B\"", "1e18", "-1", "NaN", "fused_moe_kernel"});
  std::vector<std::string> good;
  for (const char* name : {"cuda_vllm.json", "rocm_graph.json", "sections.json", "dense.json"}) {
    good.push_back(read_text_file(testkit::profiler_data(name), 1 << 20));
  }
  const Tally tally = feed(good, words, 1, kMutations / 4, [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    check(read_profiler_trace(path), classifier);
  });
  EXPECT_GT(tally.accepted, 0);
  EXPECT_GT(tally.refused, kMutations / 40);
}

TEST(Fuzz, PackedProfilerTraces) {
  const KernelClassifier classifier;
  const std::string path = temp_file("trace.json.gz", "");
  const std::string good = testkit::gzipped(read_text_file(testkit::profiler_data("sections.json"), 1 << 20));
  const Tally tally = feed({good}, {}, 1, kMutations / 4, [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    check(read_profiler_trace(path), classifier);
  });
  EXPECT_GT(tally.refused, kMutations / 40);
}

TEST(Fuzz, KernelRules) {
  const Tally tally = feed(
      {R"({"schema":"moesim.kernel_classes/1","rules":[{"match":"^a*b$","class":"gemm1+act","stack":"s","strategy":"stream_gemv"},{"match":"c","class":"norm"}]})"},
      json_words(), 1, kMutations, [](const std::string& text) {
        for (const KernelRule& rule : parse_kernel_rules(text, "k.json")) {
          EXPECT_EQ(rule.stages.empty(), rule.kernel_class != KernelClass::kMoe);
          pattern_matches(rule.match, "ab");
        }
      });
  EXPECT_GT(tally.accepted, 0);
  EXPECT_GT(tally.refused, kMutations / 10);
}

TEST(Fuzz, KernelPatterns) {
  testkit::Random random(1);
  for (int i = 0; i < kMutations; ++i) {
    std::string pattern, name;
    for (std::int64_t c = random.whole(0, 8); c > 0; --c) pattern += "ab*^$"[random.whole(0, 4)];
    for (std::int64_t c = random.whole(0, 12); c > 0; --c) name += "ab"[random.whole(0, 1)];
    pattern_matches(pattern, name);
    EXPECT_TRUE(pattern_matches("^" + name + "$", name));
    EXPECT_TRUE(pattern_matches("*", name));
  }
}

}  // namespace
}  // namespace moesim::fuzz
