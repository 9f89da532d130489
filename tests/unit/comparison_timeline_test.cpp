// The timeline of a comparison: what is measured where it was, the simulated layers where those begin.
#include "traces/views/comparison_timeline.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"
#include "workloads/model_config.h"
#include "workloads/router.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::Key;
using testing::SizeIs;

struct Slice {
  TimePoint start, end;
  std::string name, category;
};

class Recorder final : public TrackWriter {
 public:
  Track add_group(std::string_view name) override {
    groups.emplace_back(name);
    return groups.size();
  }
  Track add_track(Track group, std::string_view name) override {
    names.push_back(groups.at(group - 1) + "/" + std::string(name));
    tracks.emplace(names.back(), std::vector<Slice>());
    return names.size();
  }
  Track add_counter(Track /*group*/, std::string_view /*name*/, std::string_view /*unit*/) override { return 0; }
  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> /*arguments*/) override {
    tracks.at(names.at(track - 1)).push_back({start, start + length, std::string(name), std::string(category)});
  }
  void count(Track /*counter*/, TimePoint /*at*/, double /*value*/) override {}
  void finish() override { ++finished; }

  std::vector<std::string> groups, names;
  std::map<std::string, std::vector<Slice>> tracks;
  int finished = 0;
};

Recorder record(const std::string& path) {
  const ProfilerTrace trace = read_profiler_trace(path);
  const TraceLayers layers = find_layers(trace, KernelClassifier());
  ComparisonRequest request;
  request.model = load_model("qwen3-30b-a3b");
  request.activations = default_activations(request.model.expert_weights);
  request.hardware = load_hardware("h200");
  request.tokens = 4;
  request.batches = [](std::int64_t tokens) {
    return std::vector<RoutedBatch>{draw_batch(Routing{}, 128, 8, tokens, 1, 0)};
  };
  Recorder recorder;
  write_comparison_timeline(trace, layers, compare(trace, layers, request), recorder);
  for (const auto& [name, slices] : recorder.tracks) {
    for (std::size_t i = 1; i < slices.size(); ++i) EXPECT_LE(slices[i - 1].end, slices[i].start) << name;
  }
  EXPECT_EQ(recorder.finished, 0);  // there may be more tracks
  return recorder;
}

TEST(ComparisonTimeline, SimulatedLayersBeginWhereMeasuredOnesDo) {
  const Recorder recorder = record(testkit::profiler_data("cuda_vllm.json"));
  const std::string section = "execute_context_0(0)_generation_4(4)";
  EXPECT_THAT(recorder.tracks.at(section + ": measured/device 0, stream 7"), SizeIs(48));
  const std::vector<Slice>& measured = recorder.tracks.at(section + ": layers/measured");
  const std::vector<Slice>& simulated = recorder.tracks.at(section + ": layers/simulated");
  ASSERT_THAT(measured, SizeIs(3));
  ASSERT_EQ(simulated.size() % 3, 0U);
  const std::size_t kernels = simulated.size() / 3;
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(simulated[l * kernels].start, measured[l].start);
    EXPECT_EQ(simulated[l * kernels].name, "router");
  }
}

TEST(ComparisonTimeline, KernelsThatOverlapHaveTracksOfTheirOwn) {
  const std::string path =
      temp_file("t.json", testkit::trace_text({testkit::kernel_event("topk_softmax", "0", "4"),
                                               testkit::kernel_event("fused_moe_kernel", "3", "10"),
                                               testkit::kernel_event("fused_moe_kernel", "20", "6")}));
  const Recorder recorder = record(path);
  EXPECT_THAT(recorder.tracks.at("trace: measured/device 0, stream 7"), SizeIs(2));
  EXPECT_THAT(recorder.tracks.at("trace: measured/device 0, stream 7 (2)"), SizeIs(1));
}

TEST(ComparisonTimeline, EachSectionHasGroupsOfItsOwn) {
  const Recorder recorder = record(testkit::profiler_data("sections.json"));
  EXPECT_THAT(recorder.groups, SizeIs(8));
  EXPECT_THAT(recorder.tracks, Contains(Key("strategy:gemv_triton: layers/simulated")));
}

}  // namespace
}  // namespace moesim
