// A trace beside the simulation: medians, own times, fused stages, totals.
#include "traces/comparison.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"
#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"
#include "workloads/model_config.h"
#include "workloads/router.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

ComparisonRequest request() {
  ComparisonRequest request;
  request.model = load_model("qwen3-30b-a3b");
  request.activations = default_activations(request.model.expert_weights);
  request.hardware = load_hardware("h200");
  request.batches = [](std::int64_t tokens) {
    return std::vector<RoutedBatch>{draw_batch(Routing{}, 128, 8, tokens, 1, 0),
                                    draw_batch(Routing{}, 128, 8, tokens, 1, 1)};
  };
  return request;
}

Comparison compare_file(const std::string& path, const ComparisonRequest& request) {
  const ProfilerTrace trace = read_profiler_trace(path);
  return compare(trace, find_layers(trace, KernelClassifier()), request);
}

const StageRow& row_of(const SectionComparison& section, const std::string& name) {
  for (const StageRow& row : section.stages) {
    if (row.stages.name() == name) return row;
  }
  throw std::logic_error("no stage " + name);
}

TEST(Comparison, MediansOverLayersAndTotals) {
  const Comparison comparison = compare_file(testkit::profiler_data("cuda_vllm.json"), request());
  ASSERT_THAT(comparison.sections, SizeIs(1));
  const SectionComparison& section = comparison.sections[0];
  EXPECT_EQ(section.tokens, 4);
  EXPECT_EQ(section.scope, "moe_layer");
  EXPECT_EQ(section.launch, "stream");
  const MeasuredTime& gemm1 = row_of(section, "gemm1").measured->time;  // 50, 51, 52 us
  EXPECT_EQ(gemm1.median, Duration(51'000'000));
  EXPECT_EQ(gemm1.least, Duration(50'000'000));
  EXPECT_EQ(gemm1.most, Duration(52'000'000));
  EXPECT_EQ(section.gaps.median, Duration(7'000'000));  // seven gaps of 1 us
  EXPECT_EQ(section.span.median, section.busy.median + section.gaps.median);
  ASSERT_NE(section.layer(), nullptr);
  Duration simulated;
  for (const StageRow& row : section.stages) {
    if (row.simulated) simulated += row.simulated->time;
  }
  EXPECT_NEAR(simulated.as_double(), section.layer()->busy.as_double(), 20);  // own times sum; means are rounded
  EXPECT_GT(section.layer()->gaps(), Duration());
  EXPECT_FALSE(row_of(section, "prepare").simulated);
  EXPECT_TRUE(row_of(section, "router").simulated);
}

TEST(Comparison, StagesFusedOnOneSideAreComparedFused) {
  ComparisonRequest with_tokens = request();
  with_tokens.tokens = 4;
  const Comparison comparison = compare_file(testkit::profiler_data("sections.json"), with_tokens);
  ASSERT_THAT(comparison.sections, SizeIs(4));
  const SectionComparison& stream = comparison.sections[1];
  EXPECT_EQ(stream.scope, "expert_ffn");
  EXPECT_EQ(row_of(stream, "gemm1+act").measured->time.median, Duration(48'064'000));
  EXPECT_TRUE(row_of(stream, "gemm1+act").simulated);
  ComparisonRequest grouped = with_tokens;
  grouped.strategy = parse_strategy("grouped_gemm");  // whose activation is a kernel of its own
  const Comparison other = compare_file(testkit::profiler_data("sections.json"), grouped);
  EXPECT_EQ(row_of(other.sections[1], "gemm1+act").simulated->kernels, 2);
  EXPECT_EQ(row_of(other.sections[0], "act").simulated->kernels, 1);
}

TEST(Comparison, OverlappedKernelsCountOnce) {
  const std::vector<std::string> events = {
      testkit::kernel_event("topk_softmax", "0", "4"), testkit::kernel_event("fused_moe_kernel", "3", "10"),
      testkit::kernel_event("act_and_mul_kernel", "12", "4"), testkit::kernel_event("fused_moe_kernel", "14", "6"),
      testkit::kernel_event("moe_sum_kernel", "21", "2")};
  ComparisonRequest with_tokens = request();
  with_tokens.tokens = 4;
  const SectionComparison section =
      compare_file(temp_file("t.json", testkit::trace_text(events)), with_tokens).sections.at(0);
  EXPECT_EQ(section.launch, "programmatic");
  EXPECT_EQ(row_of(section, "gemm1").measured->time.median, Duration(9'000'000));
  EXPECT_EQ(row_of(section, "gemm2").measured->time.median, Duration(4'000'000));
  EXPECT_EQ(section.busy.median, Duration(22'000'000));
  EXPECT_EQ(section.gaps.median, Duration(1'000'000));
}

TEST(Comparison, AsksForWhatTheTraceDoesNotTell) {
  try {
    compare_file(testkit::profiler_data("sections.json"), request());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--concurrency"));
  }
  ComparisonRequest other = request();
  other.model = load_model("mixtral-8x7b");
  try {
    compare_file(testkit::profiler_data("cuda_vllm.json"), other);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("128 experts"));
  }
}

TEST(Comparison, ErrorsAreOfTheMeasuredTime) {
  EXPECT_DOUBLE_EQ(*error_percent(Duration(150'000), Duration(100'000)), 50);
  EXPECT_DOUBLE_EQ(*error_percent(Duration(50'000), Duration(100'000)), -50);
  EXPECT_FALSE(error_percent(Duration(5), Duration(0)));
}

}  // namespace
}  // namespace moesim
