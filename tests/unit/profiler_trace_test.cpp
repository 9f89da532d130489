// The reader of profiler traces: what it keeps, exact times, and what it refuses.
#include "traces/profiler_trace.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "sim/io/input_error.h"
#include "tests/testkit/profiles.h"
#include "tests/testkit/run_command.h"
#include "traces/profiler/decimal_time.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testkit::gzipped;
using testkit::kernel_event;
using testkit::trace_text;

ProfilerTrace read(const std::string& text) { return read_profiler_trace(temp_file("trace.json", text)); }

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    EXPECT_THAT(error.problem().file, HasSubstr("trace.json"));
    const InputProblem& problem = error.problem();
    return problem.where + ": " + problem.found + "; " + problem.expected;
  }
  return "no error";
}

void expect_time(const std::string& text, std::int64_t whole, std::int64_t fraction) {
  const std::optional<DecimalTime> time = parse_decimal_time(text);
  ASSERT_TRUE(time) << text;
  EXPECT_EQ(time->whole, whole) << text;
  EXPECT_EQ(time->fraction, fraction) << text;
}

TEST(DecimalTime, KeepsEveryPicosecond) {
  expect_time("0", 0, 0);
  expect_time("-0.0", 0, 0);
  expect_time("5104956882513.858", 5'104'956'882'513, 858'000);
  expect_time("1790857026000000.000001", 1'790'857'026'000'000, 1);
}

TEST(DecimalTime, FractionsSignsAndExponents) {
  expect_time("0.000001", 0, 1);
  expect_time("0.0000019", 0, 1);  // finer than a picosecond: cut off
  expect_time("-1.25", -2, 750'000);
  expect_time("-3", -3, 0);
  expect_time("1.5e3", 1500, 0);
  expect_time("1.2345678E+2", 123, 456'780);
  expect_time("25e-1", 2, 500'000);
  expect_time("1e-30", 0, 0);
  expect_time("0e999", 0, 0);
  expect_time("999999999999999999", 999'999'999'999'999'999, 0);
}

TEST(DecimalTime, RefusesWhatDoesNotFit) {
  for (const char* text : {"1000000000000000000", "1e18", "1e999999999999", "123456789012345678.9e1"}) {
    EXPECT_FALSE(parse_decimal_time(text)) << text;
  }
}

TEST(ProfilerTrace, KeepsDeviceEventsWithExactTimesFromTheFirst) {
  const ProfilerTrace trace = read(trace_text(
      {kernel_event("second", "1790857026000001.002", "0.001"), kernel_event("first", "1790857026000000.999", "2.5"),
       R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5})"}));
  ASSERT_THAT(trace.events, SizeIs(2));
  EXPECT_EQ(trace.name_of(trace.events[0]), "first");
  EXPECT_EQ(trace.events[0].start, TimePoint(0));
  EXPECT_EQ(trace.events[0].length, Duration(2'500'000));
  EXPECT_EQ(trace.events[1].start, TimePoint(3'000));
  EXPECT_EQ(trace.events[1].length, Duration(1'000));
  EXPECT_EQ(trace.events[1].stream, 7);
  EXPECT_EQ(trace.all_events, 3);
}

TEST(ProfilerTrace, ReadsCudaConventions) {
  const ProfilerTrace trace = read_profiler_trace(testkit::profiler_data("cuda_vllm.json"));
  EXPECT_THAT(trace.events, SizeIs(48));
  EXPECT_EQ(trace.events[0].kind, DeviceEvent::Kind::kCopy);
  EXPECT_THAT(trace.events[1].grid, ElementsAre(132, 1, 1));
  EXPECT_THAT(trace.events[1].block, ElementsAre(128, 1, 1));
  ASSERT_THAT(trace.operators, SizeIs(3));
  EXPECT_THAT(trace.operators[0].inputs, ElementsAre(ElementsAre(4, 2048), ElementsAre(4, 128), IsEmpty()));
  ASSERT_THAT(trace.devices, SizeIs(1));
  EXPECT_EQ(trace.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(trace.devices[0].units, 132);
  EXPECT_FALSE(trace.graph_launches);
  for (const DeviceEvent& event : trace.events) EXPECT_TRUE(event.launched && *event.launched < event.start);
}

TEST(ProfilerTrace, ReadsRocmConventions) {
  const ProfilerTrace trace = read_profiler_trace(testkit::profiler_data("rocm_graph.json"));
  EXPECT_THAT(trace.events, SizeIs(30));
  EXPECT_TRUE(trace.graph_launches);
  EXPECT_EQ(trace.devices.at(0).name, "");
  EXPECT_EQ(trace.devices.at(0).memory, 206'141'652'992);
  EXPECT_EQ(trace.events[0].device, 2);
  EXPECT_EQ(trace.events[0].grid[0], 0);
  ASSERT_TRUE(trace.events[29].launched);
  EXPECT_EQ(*trace.events[0].launched, *trace.events[29].launched);  // one graph
}

TEST(ProfilerTrace, TakesTheArrayAloneGzipMembersAndOldNames) {
  const std::string event = kernel_event("k", "1", "2");
  const std::string array = "[" + event + "]";
  EXPECT_THAT(read(array).events, SizeIs(1));
  EXPECT_THAT(read(gzipped(array)).events, SizeIs(1));
  EXPECT_THAT(read(gzipped("[" + event) + gzipped("," + event + "]")).events, SizeIs(2));
  EXPECT_THAT(
      read(
          R"([{"ph":"X","cat":"Kernel","name":"k","ts":1,"dur":2},{"ph":"X","cat":"Memcpy","name":"m","ts":4,"dur":2}])")
          .events,
      SizeIs(2));
  EXPECT_THAT(read(trace_text({})).events, IsEmpty());
}

TEST(ProfilerTrace, UnknownKeysAndWhatIsNotKeptPass) {
  const std::string odd =
      R"({"ph": "X", "cat": "python_function", "name": "f", "ts": "soon", "dur": -1, "args": [1, {"a": [2]}]})";
  const std::string more =
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "x": {"ts": {}}, "args": {"stream": 3, "y": [[]]}})";
  const ProfilerTrace trace = read(
      trace_text({odd, more, R"({"ph": "M", "pid": "Spans", "tid": "T"})"}, R"("with_flops": 1, "x": [{"ph": 3}], )"));
  ASSERT_THAT(trace.events, SizeIs(1));
  EXPECT_EQ(trace.events[0].stream, 3);
}

TEST(ProfilerTrace, NamesArePrintable) {
  const ProfilerTrace trace = read(trace_text({kernel_event("a\\u001b[31m\\nb", "1", "2")}));
  EXPECT_EQ(trace.name_of(trace.events[0]), "a [31m b");
}

TEST(ProfilerTrace, RefusesDamagedFiles) {
  const std::string good = trace_text({kernel_event("k", "1", "2")});
  const std::string packed = gzipped(good);
  EXPECT_THAT(error_of(""), HasSubstr("an empty file"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 5)),
              AllOf(HasSubstr("byte"), HasSubstr("unexpected end of input")));
  EXPECT_THAT(error_of(good + "x"), HasSubstr("byte"));
  EXPECT_THAT(error_of(packed.substr(0, packed.size() - 9)), HasSubstr("truncated"));
  EXPECT_THAT(error_of(packed.substr(0, 5)), HasSubstr("truncated"));
  EXPECT_THAT(error_of(packed + "junk"), HasSubstr("bytes after the end of the gzip stream"));
  std::string broken = packed;
  broken[broken.size() / 2] = static_cast<char>(broken[broken.size() / 2] ^ 0x55);
  EXPECT_THAT(error_of(broken), HasSubstr("byte"));
  std::string check_sum = packed;
  check_sum[check_sum.size() - 6] = static_cast<char>(check_sum[check_sum.size() - 6] ^ 0x55);
  EXPECT_THAT(error_of(check_sum), HasSubstr("incorrect data check"));
  EXPECT_THAT(error_of(good + std::string(1, '\0') + "x"), HasSubstr("a zero byte"));
  EXPECT_THAT(error_of("3"), HasSubstr("number 3"));
  EXPECT_THAT(error_of(R"("text")"), HasSubstr("string 'text'"));
  EXPECT_THAT(error_of("{}"), HasSubstr("no key 'traceEvents'"));
}

TEST(ProfilerTrace, RefusesWhatCannotBeOpened) {
  EXPECT_THROW(read_profiler_trace(temp_folder() + "none.json"), InputError);
  EXPECT_THROW(read_profiler_trace(temp_folder()), InputError);
}

TEST(ProfilerTrace, RefusesWrongEventsByTheirPointer) {
  const auto event = [](const std::string& fields) {
    return trace_text({kernel_event("k", "1", "2"), "{" + fields + "}"});
  };
  const std::string kernel = R"("ph": "X", "cat": "kernel", "name": "k", )";
  EXPECT_THAT(error_of(event(kernel + R"("ts": "1", "dur": 2)")),
              AllOf(HasSubstr("/traceEvents/1/ts"), HasSubstr("string '1'")));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": -0.5)")),
              AllOf(HasSubstr("/traceEvents/1/dur"), HasSubstr("negative")));
  EXPECT_THAT(error_of(event(kernel + R"("ts": NaN, "dur": 2)")), HasSubstr("byte"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1e400, "dur": 2)")), HasSubstr("a number that a double can hold"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1e17, "dur": 2)")), HasSubstr("days"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1e30, "dur": 2)")), HasSubstr("18 digits"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 18446744073709551615, "dur": 2)")), HasSubstr("18 digits"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": 9e12)")), HasSubstr("/dur"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1)")), HasSubstr("no key 'dur'"));
  EXPECT_THAT(error_of(event(kernel + R"("dur": 1)")), HasSubstr("no key 'ts'"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": 2, "ts": 3)")), HasSubstr("'ts' a second time"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": [1], "dur": 2)")), HasSubstr("an array"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": 2, "args": {"stream": "x"})")),
              HasSubstr("/traceEvents/1/args/stream"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": 2, "args": {"grid": [1, 2, "x"]})")),
              HasSubstr("/args/grid/2"));
  EXPECT_THAT(error_of(event(kernel + R"("ts": 1, "dur": 2, "args": {"grid": [1, 2, 3, 4]})")),
              HasSubstr("three numbers"));
  EXPECT_THAT(error_of(event(R"("ph": "B", "cat": "kernel", "name": "k", "ts": 1, "dur": 2)")), HasSubstr("'X'"));
  EXPECT_THAT(error_of(event(R"("cat": "kernel", "name": "k", "ts": 1, "dur": 2)")), HasSubstr("no key 'ph'"));
  EXPECT_THAT(error_of(event(R"("ph": 1)")), HasSubstr("number 1"));
  EXPECT_THAT(error_of(event(R"("ph": "X", "cat": ["kernel"])")), HasSubstr("an array"));
  EXPECT_THAT(error_of(R"({"traceEvents": 3})"), HasSubstr("/traceEvents"));
  EXPECT_THAT(error_of(R"({"traceEvents": [3]})"), HasSubstr("/traceEvents/0"));
  EXPECT_THAT(error_of(R"({"traceEvents": [], "traceEvents": []})"), HasSubstr("a second time"));
  EXPECT_THAT(error_of(R"([[]])"), HasSubstr("/0"));
  EXPECT_THAT(error_of(R"({"deviceProperties": [{"numSms": "132"}], "traceEvents": []})"),
              HasSubstr("/deviceProperties/0/numSms"));
  EXPECT_THAT(error_of(R"({"distributedInfo": {"world_size": 0}, "traceEvents": []})"),
              HasSubstr("/distributedInfo/world_size"));
}

TEST(ProfilerTrace, RefusesDepthAndEndlessStrings) {
  EXPECT_THAT(error_of(R"({"x": )" + std::string(100, '[')), HasSubstr("at most 64 levels"));
  EXPECT_THAT(error_of("[{\"ph\": \"" + std::string(std::size_t{17} << 20, 'a') + "\"}]"),
              HasSubstr("without a whole JSON value"));
  EXPECT_THAT(error_of(std::string(std::size_t{17} << 20, ' ')), HasSubstr("without a whole JSON value"));
}

}  // namespace
}  // namespace moesim
