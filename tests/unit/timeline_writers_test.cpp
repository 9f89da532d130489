// The writers of timelines, and the tracks that a run becomes. What other programs read in the files: tests/tools.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/testkit/kernels.h"
#include "traces/timeline/gzip_output.h"
#include "traces/timeline/simulated_timeline.h"
#include "traces/timeline/text.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json written_events(const std::function<void(TrackWriter&)>& write) {
  std::ostringstream out;
  const std::unique_ptr<TrackWriter> writer = chrome_writer(out);
  write(*writer);
  writer->finish();
  return json::parse(out.str()).at("traceEvents");
}

TEST(TimelineText, EscapesAndReplaces) {
  const auto escaped = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    EXPECT_EQ(json::parse(out).get<std::string>(), valid_utf8(text));
    return out;
  };
  EXPECT_EQ(escaped("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(escaped(std::string_view("\0\n\x1f", 3)), R"("\u0000\u000a\u001f")");
  EXPECT_EQ(escaped("µ 漢 😀"), "\"µ 漢 😀\"");
  // Not UTF-8: a lone byte, an overlong form, a surrogate, beyond the last character, one cut off.
  for (const char* wrong : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe6\xbc"}) {
    EXPECT_THAT(valid_utf8(wrong), testing::StartsWith("\xEF\xBF\xBD")) << wrong;
    escaped(wrong);
  }
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(ChromeWriter, TimesAreExactDecimals) {
  std::ostringstream out;
  const std::unique_ptr<TrackWriter> writer = chrome_writer(out);
  const TrackWriter::Track track = writer->add_track(writer->add_group("g"), "t");
  writer->slice(track, TimePoint(12'345'678), Duration(5), "s", "c", {});
  writer->slice(track, TimePoint(9'000'000'000'000'001), Duration(1'000'000), "s", "c", {});
  writer->finish();
  EXPECT_THAT(out.str(), HasSubstr(R"("ts":12.345678,"dur":0.000005,)"));
  EXPECT_THAT(out.str(), HasSubstr(R"("ts":9000000000.000001,"dur":1.000000,)"));
}

TEST(ChromeWriter, TracksSlicesAndCounters) {
  const json events = written_events([](TrackWriter& writer) {
    const TrackWriter::Track group = writer.add_group("a \"group\"");
    const TrackWriter::Track track = writer.add_track(group, "kernels");
    const TrackWriter::Track counter = writer.add_counter(group, "memory", "TB/s");
    EXPECT_THAT((std::vector{group, track, counter}), ElementsAre(1, 2, 3));
    const std::vector<Argument> arguments = {
        {"bytes", std::int64_t{1} << 60}, {"share", 0.25}, {"by", std::string_view("memory\n")}};
    writer.slice(track, TimePoint(1000), Duration(2000), "gemm1", "kernel", arguments);
    writer.count(counter, TimePoint(500), 4.25);
  });
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].at("args").at("name"), "a \"group\"");
  EXPECT_EQ(events[2].at("name"), "thread_name");
  const json& slice = events[4];
  EXPECT_EQ(slice.at("ph"), "X");
  EXPECT_EQ(slice.at("pid"), events[0].at("pid"));
  EXPECT_EQ(slice.at("tid"), events[2].at("tid"));
  EXPECT_EQ(slice.at("args"), json::parse(R"({"start_ps":1000,"duration_ps":2000,"bytes":1152921504606846976,
                                             "share":0.25,"by":"memory\n"})"));
  EXPECT_EQ(events[5].at("ph"), "C");
  EXPECT_EQ(events[5].at("name"), "memory (TB/s)");
  EXPECT_EQ(events[5].at("args"), json({{"value", 4.25}}));
}

TEST(ChromeWriter, AnEmptyTimelineIsValid) {
  EXPECT_TRUE(written_events([](TrackWriter&) {}).empty());
}

TEST(Writers, RefuseWhatNoFormatHolds) {
  for (const auto make : {&chrome_writer, &perfetto_writer}) {
    std::ostringstream out;
    const std::unique_ptr<TrackWriter> writer = make(out);
    const TrackWriter::Track group = writer->add_group("g"), track = writer->add_track(group, "t");
    const TrackWriter::Track counter = writer->add_counter(group, "c", "");
    EXPECT_THROW(writer->count(counter, TimePoint(), std::numeric_limits<double>::quiet_NaN()), std::logic_error);
    EXPECT_THROW(writer->slice(track, TimePoint(), Duration(-1), "s", "c", {}), std::logic_error);
  }
}

// What is written leaves at once: a slice more takes no memory.
TEST(Writers, StreamWhatTheyAreGiven) {
  for (const auto make : {&chrome_writer, &perfetto_writer}) {
    std::ostringstream out;
    const std::unique_ptr<TrackWriter> writer = make(out);
    const TrackWriter::Track track = writer->add_track(writer->add_group("g"), "t");
    for (std::int64_t i = 0; i < 5000; ++i) {
      writer->slice(track, TimePoint(i * 2000), Duration(1500), "a name of a slice", "category", {});
    }
    const std::size_t before_the_end = out.str().size();
    writer->finish();
    EXPECT_GT(before_the_end, std::size_t{100'000});
    EXPECT_LT(out.str().size() - before_the_end, std::size_t{20'000});
  }
}

// Names are written once, and the second slice refers to them.
TEST(PerfettoWriter, InternsNames) {
  std::ostringstream out;
  const std::unique_ptr<TrackWriter> writer = perfetto_writer(out);
  const TrackWriter::Track track = writer->add_track(writer->add_group("g"), "t");
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::vector<Argument> arguments = {{"an argument's name", i}};
    writer->slice(track, TimePoint(i * 2000), Duration(1500), "a slice's name", "a category's name", arguments);
  }
  writer->finish();
  for (const char* name : {"a slice's name", "a category's name", "an argument's name"}) {
    const std::size_t at = out.str().find(name);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(out.str().find(name, at + 1), std::string::npos) << name;
  }
}

// --- a run ---

struct Slice {
  TrackWriter::Track track;
  TimePoint start;
  Duration length;
  std::string name, category;
  std::map<std::string, std::int64_t> whole;
  std::map<std::string, std::string> text;
};

// Keeps what it is given.
class Kept : public TrackWriter {
 public:
  Track add_group(std::string_view name) override { return add(name); }
  Track add_track(Track group, std::string_view name) override {
    return add(names[group - 1] + "/" + std::string(name));
  }
  Track add_counter(Track group, std::string_view name, std::string_view) override { return add_track(group, name); }
  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> arguments) override {
    Slice& kept = slices.emplace_back();
    kept = {track, start, length, std::string(name), std::string(category), {}, {}};
    for (const Argument& a : arguments) {
      if (const auto* whole = std::get_if<std::int64_t>(&a.value)) kept.whole[std::string(a.name)] = *whole;
      if (const auto* text = std::get_if<std::string_view>(&a.value)) kept.text[std::string(a.name)] = *text;
    }
  }
  void count(Track counter, TimePoint at, double value) override { counts[names[counter - 1]].emplace_back(at, value); }
  void finish() override {}

  [[nodiscard]] std::vector<Slice> of_category(const std::string& category) const {
    std::vector<Slice> found;
    for (const Slice& s : slices) {
      if (s.category == category) found.push_back(s);
    }
    return found;
  }

  std::vector<std::string> names;
  std::vector<Slice> slices;
  std::map<std::string, std::vector<std::pair<TimePoint, double>>> counts;

 private:
  Track add(std::string_view name) {
    names.emplace_back(name);
    return names.size();
  }
};

// 1000 ns of the matrix pipe.
ItemClass working() {
  ItemClass item;
  item.steps = 100;
  item.pipe_seconds[0] = 10e-9;
  item.useful_flops = 300;
  item.issued_flops = 400;
  return item;
}

SimulationResult draw(const ExecutionPlan& plan, const Machine& machine, Kept& kept,
                      std::optional<std::int64_t> units = 4, Duration counter_step = {}) {
  SimulatedTimelineOptions drawn;
  drawn.title = "s";
  drawn.units = units;
  drawn.counter_step = counter_step;
  SimulatedTimeline timeline(kept, std::move(drawn));
  SimulateOptions options;
  options.listener = &timeline;
  return simulate(plan, machine, options);
}

TEST(SimulatedTimeline, DealsItemsOverUnits) {
  // 10 items on 4 units that hold two each: 8, then 2.
  const ExecutionPlan plan = testkit::plan_of(testkit::one_group(working(), 10, 2));
  Kept all;
  draw(plan, testkit::memory_machine(4), all, std::nullopt);
  EXPECT_EQ(all.of_category("items").size(), 10u);
  std::map<std::string, std::int64_t> lanes;
  for (const Slice& s : all.of_category("items")) ++lanes[all.names[s.track - 1]];
  EXPECT_EQ(lanes.size(), 8u);
  Kept two;
  draw(plan, testkit::memory_machine(4), two, 2);
  EXPECT_THAT(two.names, testing::Contains("s: work items of 2 of 4 units"));
  EXPECT_GE(two.of_category("items").size(), 4u);
  EXPECT_LT(two.of_category("items").size(), 8u);
}

TEST(SimulatedTimeline, KernelsSayWhatTheyDo) {
  Kernel kernel = testkit::one_group(working(), 24, 2);
  kernel.stage = "gemm1";
  kernel.labels = {{3, 2}, {5, 1}};
  Kept kept;
  Machine machine = testkit::memory_machine(4);
  machine.launch_graph = testkit::nanoseconds(500);
  const SimulationResult result = draw(testkit::chain_of({kernel, kernel}), machine, kept);
  const std::vector<Slice> kernels = kept.of_category("kernel"), launches = kept.of_category("launch");
  ASSERT_EQ(kernels.size(), 2u);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].text.at("waited_for"), "nothing");
  EXPECT_EQ(launches[1].text.at("waited_for"), "kernel");
  EXPECT_EQ(launches[1].length, testkit::nanoseconds(500));
  EXPECT_EQ(kernels[0].whole.at("grid"), 24);
  EXPECT_EQ(kernels[0].whole.at("slots"), 8);
  EXPECT_EQ(kernels[0].whole.at("experts"), 2);
  EXPECT_EQ(kernels[0].whole.at("rows"), 3);
  EXPECT_EQ(kernels[0].whole.at("flops_useful"), 24 * 300);
  EXPECT_EQ(kernels[0].whole.at("flops_issued"), 24 * 400);
  EXPECT_EQ(kernels[0].text.at("limited_by"), "matrix 100 %");
  EXPECT_EQ(launches[0].length + kernels[0].length + launches[1].length + kernels[1].length, result.total);
}

TEST(SimulatedTimeline, ExpertsInTheirOrders) {
  const auto times = [](LabelOrder order) {
    Kernel kernel = testkit::one_group(working(), 12, 1);
    kernel.label_order = order;
    kernel.labels = {{3, 2}, {5, 1}};
    Kept kept;
    draw(testkit::plan_of(kernel), testkit::memory_machine(4), kept);  // three waves of 1 us
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> of_track;
    for (const Slice& s : kept.of_category("expert")) {
      of_track[kept.names[s.track - 1]] = {s.start.value(), (s.start + s.length).value()};
    }
    return of_track;
  };
  const std::string three = "s: experts whose weights stream/expert 3",
                    five = "s: experts whose weights stream/expert 5";
  const std::int64_t us = 1'000'000;
  using Times = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(times(LabelOrder::kInterleaved), (Times{{three, {0, 3 * us}}, {five, {0, 3 * us}}}));
  EXPECT_EQ(times(LabelOrder::kItemsInTurn), (Times{{three, {0, 2 * us}}, {five, {2 * us, 3 * us}}}));
  EXPECT_EQ(times(LabelOrder::kEachInTurn), (Times{{three, {0, 3 * us / 2}}, {five, {3 * us / 2, 3 * us}}}));
}

// Bytes go to the experts whose items read them, also of items that started together for two.
TEST(SimulatedTimeline, ExpertsShareBytesByRows) {
  for (const LabelOrder order : {LabelOrder::kInterleaved, LabelOrder::kItemsInTurn}) {
    ItemClass item = working();
    item.read = Bytes(600);
    Kernel kernel = testkit::one_group(item, 30, 2);
    kernel.label_order = order;
    kernel.labels = {{3, 2}, {5, 1}};
    Kept kept;
    draw(testkit::plan_of(kernel), testkit::memory_machine(7), kept);
    const std::vector<Slice> experts = kept.of_category("expert");
    ASSERT_EQ(experts.size(), 2u);
    EXPECT_EQ(experts[0].whole.at("weight_bytes"), 20 * 600);
    EXPECT_EQ(experts[1].whole.at("weight_bytes"), 10 * 600);
    EXPECT_EQ(experts[1].whole.at("flops_issued"), 10 * 400);
  }
}

TEST(SimulatedTimeline, GroupsOfOneExpert) {
  Kernel kernel = testkit::one_group(working(), 4, 1);
  kernel.groups[0].label = 7;
  kernel.groups[0].rows = 2;
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups.push_back(kernel.groups[0]);
  kernel.groups[2].label = 9;
  Kept kept;
  draw(testkit::plan_of(kernel), testkit::memory_machine(4), kept);
  const std::vector<Slice> experts = kept.of_category("expert");
  ASSERT_EQ(experts.size(), 2u);
  EXPECT_EQ(experts[0].whole.at("rows"), 4);
  EXPECT_EQ(experts[0].length, testkit::microseconds(2));
  EXPECT_EQ(experts[1].start, TimePoint(2'000'000));
  EXPECT_EQ(experts[1].whole.at("rows"), 2);
}

// A step's mean: the counter's integral stays, whatever its step.
TEST(SimulatedTimeline, CountersKeepTheirIntegral) {
  ItemClass item = working();
  item.read = Bytes(50'000'000);
  const ExecutionPlan plan = testkit::plan_of(testkit::one_group(item, 9, 1));
  for (const std::int64_t step : {0, 700'000, 5'000'000, 1'000'000'000}) {
    Kept kept;
    const SimulationResult result = draw(plan, testkit::memory_machine(4), kept, 4, Duration(step));
    const auto& values = kept.counts.at("s/memory: bytes a second");
    double bytes = 0;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      bytes += values[i].second * 1e12 * to_seconds(values[i + 1].first - values[i].first);
    }
    EXPECT_NEAR(bytes, 9 * 50e6, 9 * 50e6 * 2e-3) << step;
    EXPECT_EQ(values.back().second, 0);
    EXPECT_EQ(values.back().first - TimePoint(), result.total);
  }
}

TEST(GzipOutput, IsGzipOfWhatWasWritten) {
  std::ostringstream out;
  GzipOutput gzip(out);
  for (int i = 0; i < 100'000; ++i) gzip << "the same line again\n";
  gzip.finish();
  EXPECT_LT(out.str().size(), std::size_t{20'000});
  EXPECT_EQ(out.str().substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(out.str().substr(4, 4), std::string(4, '\0'));  // no time: same input, same bytes
}

}  // namespace
}  // namespace moesim
