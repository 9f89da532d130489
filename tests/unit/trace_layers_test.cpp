// Layers of profiler traces: which kernels belong to one, and the stage of each.
#include "traces/trace_layers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"
#include "traces/profiler/nested_ranges.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testkit::kernel_events;
using testkit::trace_text;

struct Found {
  ProfilerTrace trace;
  TraceLayers layers;
};

Found find_in(const std::string& path) {
  Found found{read_profiler_trace(path), {}};
  found.layers = find_layers(found.trace, KernelClassifier());
  return found;
}

Found find_among(const std::vector<std::string>& kernels) {
  return find_in(temp_file("trace.json", trace_text(kernel_events(kernels))));
}

std::vector<std::string> signatures(const TraceSection& section) {
  std::vector<std::string> texts;
  for (const LayerInstance& layer : section.layers) texts.push_back(layer.signature);
  return texts;
}

std::vector<std::string> stages_of(const TraceSection& section, const LayerInstance& layer) {
  std::vector<std::string> texts;
  for (const std::size_t i : layer.kernels) texts.push_back(section.events[i].stages.name());
  return texts;
}

TEST(NestedRanges, InnermostCounts) {
  NestedRanges ranges;
  ranges.add(1, TimePoint(0), TimePoint(100), 7);
  ranges.add(1, TimePoint(10), TimePoint(20), 8);
  ranges.add(1, TimePoint(30), TimePoint(40), 9);
  ranges.add(2, TimePoint(0), TimePoint(5), 6);
  ranges.seal();
  EXPECT_EQ(ranges.find(1, TimePoint(10)), 8U);
  EXPECT_EQ(ranges.find(1, TimePoint(20)), 7U);  // an end is outside
  EXPECT_EQ(ranges.find(1, TimePoint(99)), 7U);
  EXPECT_FALSE(ranges.find(1, TimePoint(100)));
  EXPECT_EQ(ranges.find(2, TimePoint(4)), 6U);
  EXPECT_FALSE(ranges.find(3, TimePoint(4)));
}

TEST(TraceLayers, TokensOfAnnotatedSteps) {
  EXPECT_EQ(annotated_tokens("execute_context_1(888_788544)_generation_0(0)"), 888);
  EXPECT_EQ(annotated_tokens("execute_context_2(100_5)_generation_32(32)"), 132);
  EXPECT_EQ(annotated_tokens("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"), 32);
  EXPECT_EQ(annotated_tokens("execute_context_0(sq0sk0)_generation_4(sq4sk99)"), 4);
  EXPECT_EQ(annotated_tokens("step[DECODE bs=32]"), 32);
  EXPECT_EQ(annotated_tokens("step[EXTEND bs=2 toks=700]"), 700);
  EXPECT_FALSE(annotated_tokens("execute_context_0(0)_generation_0(0)"));
  EXPECT_FALSE(annotated_tokens("execute_"));
  EXPECT_FALSE(annotated_tokens("execute_context_1(99999999999999999999_1)_generation_0(0)"));
  EXPECT_FALSE(annotated_tokens("step[DECODE bs=]"));
  EXPECT_FALSE(annotated_tokens("ProfilerStep#32"));
}

TEST(TraceLayers, CudaWithOperators) {
  const Found found = find_in(testkit::profiler_data("cuda_vllm.json"));
  ASSERT_THAT(found.layers.sections, SizeIs(1));
  const TraceSection& section = found.layers.sections[0];
  ASSERT_THAT(section.layers, SizeIs(3));
  EXPECT_EQ(section.regular_layers(), 3U);
  EXPECT_THAT(stages_of(section, section.layers[1]),
              ElementsAre("router", "topk", "align", "prepare", "gemm1", "act", "gemm2", "combine"));
  EXPECT_EQ(section.period, 15);
  EXPECT_EQ(section.tokens, 4);
  EXPECT_EQ(section.hidden, 2048);
  EXPECT_EQ(section.experts, 128);
  EXPECT_EQ(section.strategy, "vllm-triton");
  EXPECT_EQ(found.layers.named_time, found.layers.device_time);
  EXPECT_EQ(found.layers.moe_kernels, 24);
  EXPECT_EQ(found.layers.staged_kernels, 24);
  EXPECT_EQ(found.layers.by_class.at("attention"), Duration(27'000'000));
}

TEST(TraceLayers, RocmInAGraph) {
  const Found found = find_in(testkit::profiler_data("rocm_graph.json"));
  ASSERT_THAT(found.layers.sections, SizeIs(1));
  const TraceSection& section = found.layers.sections[0];
  ASSERT_THAT(section.layers, SizeIs(2));
  EXPECT_THAT(stages_of(section, section.layers[0]),
              ElementsAre("router", "prepare", "topk", "align", "align", "align", "gemm1+act", "gemm2", "combine"));
  EXPECT_EQ(section.tokens, 32);
  EXPECT_EQ(section.strategy, "triton-kernels");
}

TEST(TraceLayers, SectionsAndStagesAsAnnotated) {
  const Found found = find_in(testkit::profiler_data("sections.json"));
  std::vector<std::string> names, strategies;
  for (const TraceSection& section : found.layers.sections) {
    names.push_back(section.name);
    strategies.push_back(section.strategy);
    EXPECT_THAT(section.layers, SizeIs(1));
  }
  EXPECT_THAT(names, ElementsAre("strategy:grouped_triton", "strategy:gemv_triton", "strategy:loop_cublas",
                                 "strategy:gather_bmm"));
  EXPECT_THAT(strategies, ElementsAre("grouped_gemm:implementation=triton-grouped",
                                      "stream_gemv:implementation=triton-stream-gemv", "expert_loop", "gather_gemv"));
  EXPECT_THAT(signatures(found.layers.sections[1]), ElementsAre("gemm1+act gemm2"));
  EXPECT_THAT(signatures(found.layers.sections[2]), ElementsAre("permute gemm1 act gemm2 combine"));
  EXPECT_THAT(signatures(found.layers.sections[3]), ElementsAre("gather1 gemm1 act gather2 gemm2 combine"));
}

TEST(TraceLayers, DenseModelsHaveNone) {
  const Found found = find_in(testkit::profiler_data("dense.json"));
  EXPECT_FALSE(found.layers.has_layers());
  EXPECT_EQ(found.layers.by_class.at("unknown"), Duration(8'000'000));
  EXPECT_LT(found.layers.named_time, found.layers.device_time);
  EXPECT_FALSE(find_among({}).layers.has_layers());
}

TEST(TraceLayers, OneNameTwiceIsFirstAndSecondProduct) {
  const Found found = find_among({"rms_norm", "fused_moe_kernel", "fused_moe_kernel", "rms_norm", "fused_moe_kernel",
                                  "fused_moe_kernel", "rms_norm"});
  EXPECT_THAT(signatures(found.layers.sections[0]), ElementsAre("gemm1 gemm2", "gemm1 gemm2"));
}

TEST(TraceLayers, ANewLayerBeginsWhereTheOrderStartsAgain) {
  const std::vector<std::string> layer = {"topkGatingSoftmax", "moe_align_block_size_kernel",
                                          "fused_moe_kernel",  "act_and_mul_kernel",
                                          "fused_moe_kernel",  "moe_sum_kernel"};
  std::vector<std::string> kernels = layer;
  kernels.insert(kernels.end(), layer.begin(), layer.end());
  const Found found = find_among(kernels);  // nothing between them
  EXPECT_THAT(signatures(found.layers.sections[0]),
              ElementsAre("topk align gemm1 act gemm2 combine", "topk align gemm1 act gemm2 combine"));
  EXPECT_EQ(found.layers.sections[0].period, 6);
}

TEST(TraceLayers, LayersCutOffAtTheEdgesAreNotAlike) {
  const Found found =
      find_among({"act_and_mul_kernel", "fused_moe_kernel", "moe_sum_kernel", "rms_norm",  //
                  "topk_softmax", "fused_moe_kernel", "act_and_mul_kernel", "fused_moe_kernel", "moe_sum_kernel",
                  "rms_norm",  //
                  "topk_softmax", "fused_moe_kernel", "act_and_mul_kernel", "fused_moe_kernel", "moe_sum_kernel",
                  "rms_norm",  //
                  "topk_softmax", "fused_moe_kernel"});
  const TraceSection& section = found.layers.sections[0];
  EXPECT_THAT(section.layers, SizeIs(4));
  EXPECT_EQ(section.regular_layers(), 2U);
  EXPECT_FALSE(section.layers.front().regular);
  EXPECT_FALSE(section.layers.back().regular);
}

TEST(TraceLayers, DenseProductsOfALayerAreRouterAndSharedExperts) {
  const Found found =
      find_among({"rms_norm", "nvjet_a", "splitKreduce_kernel", "topk_softmax", "nvjet_b", "act_and_mul_kernel",
                  "nvjet_c", "fused_moe_kernel", "act_and_mul_kernel", "fused_moe_kernel", "moe_sum_kernel"});
  const TraceSection& section = found.layers.sections[0];
  ASSERT_THAT(section.layers, SizeIs(1));
  EXPECT_THAT(stages_of(section, section.layers[0]), ElementsAre("router", "router", "topk", "shared", "shared",
                                                                 "shared", "gemm1", "act", "gemm2", "combine"));
}

TEST(TraceLayers, AnEagerLoopOverExperts) {
  std::vector<std::string> kernels = {"rms_norm", "nvjet_router", "softmax_warp_forward", "gatherTopK"};
  for (int expert = 0; expert < 3; ++expert) {
    for (const char* name :
         {"index_kernel", "nvjet_gate", "silu_kernel", "nvjet_up", "elementwise_kernel", "nvjet_down"}) {
      kernels.emplace_back(name);
    }
  }
  kernels.emplace_back("rms_norm");
  const Found found = find_among(kernels);
  const TraceSection& section = found.layers.sections[0];
  ASSERT_THAT(section.layers, SizeIs(1));
  EXPECT_EQ(section.strategy, "expert_loop");
  int first = 0, second = 0;
  for (const std::string& stage : stages_of(section, section.layers[0])) {
    first += stage == "gemm1" ? 1 : 0;
    second += stage == "gemm2" ? 1 : 0;
  }
  EXPECT_EQ(first, 6);
  EXPECT_EQ(second, 3);
  EXPECT_EQ(stages_of(section, section.layers[0]).front(), "router");
}

TEST(TraceLayers, UnknownKernelsOfALayerHaveNoStage) {
  const Found found = find_among({"topk_softmax", "fused_moe_kernel", "mystery", "fused_moe_kernel"});
  EXPECT_EQ(found.layers.moe_kernels, 4);
  EXPECT_EQ(found.layers.staged_kernels, 3);
}

TEST(TraceLayers, ExchangesOnAStreamOfTheirOwnAreNoLayers) {
  std::vector<std::string> events = kernel_events(
      {"rms_norm", "fused_moe_kernel", "fused_moe_kernel", "rms_norm", "fused_moe_kernel", "fused_moe_kernel"});
  for (int i = 0; i < 3; ++i) {
    events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "deep_ep::{}", "ts": {}, "dur": 2, "args": {{"stream": 9}}}})",
        i % 2 == 0 ? "dispatch" : "combine", 1000 + 30 * i));
  }
  const Found found = find_in(temp_file("trace.json", trace_text(events)));
  const TraceSection& section = found.layers.sections[0];
  EXPECT_THAT(signatures(section), ElementsAre("gemm1 gemm2", "gemm1 gemm2"));
  EXPECT_EQ(section.regular_layers(), 2U);
  EXPECT_EQ(section.period, 3);
  EXPECT_THAT(section.apart, SizeIs(2));  // dispatch and collect, dispatch
  EXPECT_EQ(found.layers.moe_kernels, 7);
}

TEST(TraceLayers, BusyTimeCountsOverlapsOnce) {
  EXPECT_EQ(covered_time({{TimePoint(0), TimePoint(10)}, {TimePoint(5), TimePoint(8)}, {TimePoint(20), TimePoint(25)}}),
            Duration(15));
  EXPECT_EQ(covered_time({}), Duration());
}

// Real traces, where they are at hand: MOESIM_MEASURED names the folder that holds traces/.
TEST(TraceLayers, PublishedTracesAreNamedAndStaged) {
  const char* folder = std::getenv("MOESIM_MEASURED");
  if (folder == nullptr) GTEST_SKIP() << "MOESIM_MEASURED is not set";
  struct Expected {
    const char* file;
    std::size_t sections, layers;  // with layers; all layers
  };
  for (const Expected& expected : {Expected{"h200-torch-trace-qwen3-30b-T4.json.gz", 5, 5},
                                   Expected{"h200-torch-trace-qwen3.5-397b-T3.json.gz", 5, 5},
                                   Expected{"vllm-gptoss120b-b200-prefill888.pt.trace.json.gz", 1, 36},
                                   Expected{"vllm-gptoss20b-amd-decode32.pt.trace.json.gz", 1, 24}}) {
    SCOPED_TRACE(expected.file);
    const Found found = find_in(fmt::format("{}/traces/{}", folder, expected.file));
    std::size_t sections = 0, layers = 0, alike = 0;
    for (const TraceSection& section : found.layers.sections) {
      sections += section.layers.empty() ? 0 : 1;
      layers += section.layers.size();
      alike += section.regular_layers();
    }
    EXPECT_EQ(sections, expected.sections);
    EXPECT_EQ(layers, expected.layers);
    EXPECT_EQ(alike, expected.layers);
    EXPECT_GE(found.layers.named_time.as_double(), 0.95 * found.layers.device_time.as_double());
    EXPECT_GE(static_cast<double>(found.layers.staged_kernels), 0.99 * static_cast<double>(found.layers.moe_kernels));
  }
}

}  // namespace
}  // namespace moesim
