// Rows of microbenchmarks: reading them, and which kernels they become.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <variant>

#include "hwmodels/loader.h"
#include "sim/io/input_error.h"
#include "tests/testkit/run_command.h"
#include "validation/micro_kernels.h"

namespace moesim {
namespace {

using testing::HasSubstr;

std::string row(const std::string& benchmark, const std::string& rest) {
  return fmt::format(R"({{"schema": "moesim.measurement/2", "kind": "micro", "device": "h200", "benchmark": "{}"{}}})"
                     "\n",
                     benchmark, rest);
}

std::vector<MicroMeasurement> read(const std::string& text) {
  return read_micro_measurements(temp_file("micro.jsonl", text));
}

template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string lowering_error(const std::string& text) {
  return error_of([&] { (void)lower_micro(read(text).at(0), load_hardware("h200")); });
}

TEST(MicroMeasurement, KeepsEachParameterAndSkipsTheCard) {
  const auto rows = read(row("device", R"(, "sms": 132)") +
                         row("one_sm_read", R"(, "us": 2.5, "load": "bulk", "ctas": 1, "sm_mhz": 1875)"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].us, 2.5);
  EXPECT_EQ(rows[0].sm_mhz, 1875);
  EXPECT_EQ(rows[0].text("load"), "bulk");
  EXPECT_EQ(rows[0].whole("ctas", 10), 1);
  EXPECT_THAT(rows[0].place, HasSubstr("micro.jsonl:2"));
}

TEST(MicroMeasurement, RefusesWhatItIsNot) {
  EXPECT_THAT(error_of([] { read(row("graph_node", R"(, "ctas": 1)")); }), HasSubstr("us"));
  EXPECT_THAT(error_of([] { read(row("graph_node", R"(, "us": -1)")); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([] { read(row("graph_node", R"(, "us": 1, "power_capped": 3)")); }), HasSubstr("power_capped"));
  EXPECT_THAT(error_of([] { read(row("graph_node", R"(, "us": 1, "kernels": [{}])")); }), HasSubstr("kernels/0"));
}

TEST(MicroKernels, AnErrorNamesTheParameter) {
  EXPECT_THAT(lowering_error(row("graph_node", R"(, "us": 1)")), HasSubstr("no number 'ctas'"));
  EXPECT_THAT(lowering_error(row("graph_node", R"(, "us": 1, "ctas": 0)")), HasSubstr("from 1 to"));
  EXPECT_THAT(lowering_error(row("graph_node", R"(, "us": 1, "ctas": 1.5)")), HasSubstr("1.5"));
  EXPECT_THAT(lowering_error(row("graph_node", R"(, "us": 1, "ctas": 1, "threads": 4096)")),
              HasSubstr("do not fit a unit"));
  EXPECT_THAT(lowering_error(row("cold_read_inflight", R"(, "us": 1, "ctas": 8, "block_bytes": 4096, "bytes": 4096)")),
              HasSubstr("less than a block"));
  EXPECT_THAT(lowering_error(row("programmatic_launch", R"(, "us": 1, "ctas": 8)")), HasSubstr("no text 'launch'"));
}

TEST(MicroKernels, SayWhyARowIsLeftOut) {
  const HardwareModel hardware = load_hardware("h200");
  const auto reason = [&](const std::string& text) {
    const auto lowered = lower_micro(read(text).at(0), hardware);
    const auto* const left_out = std::get_if<LeftOut>(&lowered);
    return left_out == nullptr ? "none" : left_out->reason;
  };
  EXPECT_THAT(reason(row("new_benchmark", R"(, "us": 1)")), HasSubstr("no lowering of benchmark 'new_benchmark'"));
  EXPECT_THAT(reason(row("sustained_mm", R"(, "us": 1)")), HasSubstr("power"));
  EXPECT_THAT(reason(row("repeat_read_size", R"(, "us": 1, "ctas": 3072, "bytes": 50331648)")),
              HasSubstr("times the cache"));
  EXPECT_EQ(reason(row("repeat_read_size", R"(, "us": 1, "ctas": 64, "bytes": 1048576)")), "none");
}

}  // namespace
}  // namespace moesim
