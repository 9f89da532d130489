// Every file of hwmodels/devices: none can rot unseen, and none contradicts itself.
#include "hwmodels/device_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "hwmodels/schema.h"

namespace moesim {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

std::vector<std::string> device_paths() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MOESIM_SOURCE_DIR "/hwmodels/devices")) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = stem(info.param);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

const Constant& constant_of(const HardwareModel& hardware, Hw id) {
  const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(id)];
  if (!constant.has_value()) throw std::logic_error(std::string("no ") + hw_entry(id).path);
  return *constant;
}

double achieved_read_rate(const HardwareModel& hw) { return hw[Hw::kHbmBandwidth] * hw[Hw::kHbmReadFraction]; }

class DeviceFileTest : public ::testing::TestWithParam<std::string> {
 protected:
  const HardwareModel hw = load_hardware(GetParam());
};

TEST_P(DeviceFileTest, is_named_like_its_file_and_compiled_in) {
  EXPECT_EQ(hw.name, stem(GetParam()));
  EXPECT_EQ(load_hardware(hw.name).hash, hw.hash);
}

TEST_P(DeviceFileTest, every_constant_has_a_source_that_can_be_looked_up) {
  for (const HwEntry& entry : hw_schema()) {
    if (!hw.has(entry.id)) continue;
    const std::string& source = constant_of(hw, entry.id).source;
    EXPECT_GE(source.size(), 10U) << entry.path << ": " << source;
  }
}

TEST_P(DeviceFileTest, memory_and_cache_rates_are_in_order) {
  if (hw.grid == Grid::kSequential) GTEST_SKIP() << "has none of these";
  EXPECT_LT(achieved_read_rate(hw), hw[Hw::kHbmBandwidth]);
  EXPECT_GT(hw[Hw::kLlcBandwidth], achieved_read_rate(hw));
  // No cache delivers more than all units together can take.
  EXPECT_LT(hw[Hw::kLlcBandwidth], hw[Hw::kUnitCount] * hw[Hw::kUnitLoadPort] * hw[Hw::kClockBoost]);
  EXPECT_LT(hw[Hw::kLlcLatency], hw[Hw::kHbmLatency]);
  EXPECT_LT(hw[Hw::kLlcCapacity] * hw[Hw::kLlcUsefulFraction], hw[Hw::kLlcCapacity]);
  EXPECT_LT(hw[Hw::kLlcCapacity], hw[Hw::kHbmCapacity]);
}

TEST_P(DeviceFileTest, narrower_products_are_not_slower) {
  if (hw.has(Hw::kMatrixFp8)) {
    EXPECT_GE(hw[Hw::kMatrixFp8], hw[Hw::kMatrixBf16]);
  }
  if (hw.has(Hw::kMatrixFp4)) {
    ASSERT_TRUE(hw.has(Hw::kMatrixFp8));
    EXPECT_GE(hw[Hw::kMatrixFp4], hw[Hw::kMatrixFp8]);
  }
}

// A core's arrays take whole rows of activations a clock, and its buffers leave some on-chip memory.
TEST_P(DeviceFileTest, arrays_and_on_chip_memory_are_whole) {
  if (hw.grid == Grid::kParallel) GTEST_SKIP() << "has none of these";
  EXPECT_LT(achieved_read_rate(hw), hw[Hw::kHbmBandwidth]);
  const double row = 2 * hw[Hw::kMxuCount] * hw[Hw::kMxuSize] * hw[Hw::kMxuSize];
  EXPECT_EQ(std::fmod(hw[Hw::kMatrixBf16], row), 0);
  EXPECT_LE(hw[Hw::kMxuWeightRows], hw[Hw::kMatrixBf16] / row);
  EXPECT_LE(hw[Hw::kTileRows16], hw[Hw::kTileRows8]);
  EXPECT_EQ(hw.has(Hw::kSparseCall), hw.has(Hw::kSparseBandwidth));
  EXPECT_EQ(build_machine(hw).caches.size(), 0U);
  EXPECT_LT(useful_on_chip_bytes(hw).as_double(), hw[Hw::kVmemCapacity]);
}

TEST_P(DeviceFileTest, launches_are_in_order) {
  if (hw.grid == Grid::kSequential) GTEST_SKIP() << "has none of these";
  EXPECT_LE(hw[Hw::kLaunchProgrammatic], hw[Hw::kLaunchGraph]);
  EXPECT_LE(hw[Hw::kLaunchGraph], hw[Hw::kLaunchStream]);
}

TEST_P(DeviceFileTest, a_full_unit_can_be_launched) {
  if (hw.grid == Grid::kSequential) GTEST_SKIP() << "has none of these";
  EXPECT_LE(hw[Hw::kSharedMaxPerItem] + hw[Hw::kSharedReserved], hw[Hw::kSharedBytes]);
  EXPECT_EQ(std::fmod(hw[Hw::kMaxThreads], hw[Hw::kWarpSize]), 0);
  EXPECT_EQ(std::fmod(hw[Hw::kRegisters], hw[Hw::kRegisterGranule]), 0);
}

// A collective needs all its numbers, and no file has half of them.
TEST_P(DeviceFileTest, the_link_is_whole) {
  EXPECT_EQ(hw.has(Hw::kLinkReduceLatency), hw.has(Hw::kLinkReduceFraction));
  EXPECT_EQ(hw.has(Hw::kLinkExchangeLatency), hw.has(Hw::kLinkExchangeFraction));
  if (hw.has(Hw::kLinkReduceLatency) || hw.has(Hw::kLinkExchangeLatency)) {
    ASSERT_TRUE(hw.has(Hw::kLinkBandwidth));
    EXPECT_LT(hw[Hw::kLinkBandwidth], hw[Hw::kHbmBandwidth]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFileTest, ::testing::ValuesIn(device_paths()), test_name);

TEST(DeviceFiles, are_all_compiled_in) {
  std::vector<std::string> stems;
  for (const std::string& path : device_paths()) stems.push_back(stem(path));
  EXPECT_THAT(stems, ::testing::SizeIs(::testing::Ge(18U)));
  EXPECT_THAT(device_names(), ::testing::UnorderedElementsAreArray(stems));
  EXPECT_EQ(device_files().size(), stems.size());
}

TEST(DeviceFiles, no_name_or_alias_means_two_devices) {
  std::map<std::string, std::string> owner;
  for (const std::string& path : device_paths()) {
    const HardwareModel hw = load_hardware(path);
    std::vector<std::string> names = hw.aliases;
    names.push_back(hw.name);
    for (const std::string& name : names) {
      const auto [first, is_new] = owner.emplace(name, hw.name);
      EXPECT_TRUE(is_new) << name << " is " << first->second << " and " << hw.name;
      EXPECT_EQ(load_hardware(name).name, hw.name) << name;
    }
  }
}

// The rules that the sources of h200.json state, computed here from the rows that they name
// (validation/measured/h200-2026-11-29 and h200-cuda-2026-11-29; microseconds).
class H200Test : public ::testing::Test {
 protected:
  // Relative: the files hold three to four digits.
  void expect_measured(Hw id, double value, double relative) {
    const HwEntry& entry = hw_entry(id);
    EXPECT_NEAR(hw[id] / value, 1, relative) << entry.path;
    const Constant& constant = constant_of(hw, id);
    EXPECT_EQ(constant.kind, SourceKind::kMicrobenchmark) << entry.path;
    EXPECT_THAT(
        constant.source,
        AnyOf(StartsWith("moesim H200 microbenchmarks 2026-11-29"), StartsWith("moesim CUDA harness 2026-11-29"),
              StartsWith("moesim CUDA harness 2026-11-30"), StartsWith("moesim CUDA harness 2026-12-01"),
              StartsWith("moesim harness 2026-11-29 to 2026-12-01")))
        << entry.path;
  }
  static constexpr double kMiB = 1 << 20;
  static constexpr double kMicro = 1e-6;
  const HardwareModel hw = load_hardware("h200");
};

TEST_F(H200Test, memory_follows_from_its_microbenchmarks) {
  const auto read_rate = [](double us_512, double us_128) { return (512 - 128) * kMiB / ((us_512 - us_128) * kMicro); };
  const double rates[] = {read_rate(118.3508, 31.1084), read_rate(115.7768, 30.0129), read_rate(115.846, 30.0032),
                          read_rate(117.766, 30.5044)};  // cold_read_size, four cards
  const auto [slowest, fastest] = std::minmax_element(std::begin(rates), std::end(rates));
  expect_measured(Hw::kHbmReadFraction, (*slowest + *fastest) / 2 / 4.8e12, 1e-3);
  expect_measured(Hw::kHbmLatency, 0.3505 * kMicro, 1e-3);  // pointer_chase, 2 GiB
  double weight = 0;                                        // mixed: read, 1 / n of it written
  const double read = 116.1604;
  const std::pair<double, double> mixed[] = {
      {1, 276.5131}, {2, 210.2728}, {4, 171.0805}, {8, 148.1109}, {16, 134.8864}};
  for (const auto& [n, time] : mixed) weight += (1 + (time - read - read / n) / (read / std::sqrt(n))) / 5;
  expect_measured(Hw::kHbmWriteWeight, weight, 2e-2);
}

TEST_F(H200Test, cache_follows_from_its_microbenchmarks) {
  expect_measured(Hw::kLlcCapacity, 62914560, 0);
  // warm_read_inflight, 528 CTAs of 24 KiB: launch, spread, a kernel's first steps and one round trip beside the stream.
  const double beside = 0.4824 + 0.166 + 0.25 + 0.2;
  expect_measured(Hw::kLlcBandwidth, 276824064 / ((32.4329 - beside) * kMicro), 1e-2);
  // 264 CTAs of 8 KiB: rate = (cap^-p + peak^-p)^(-1/p), cap = bytes in flight / latency.
  const double peak = hw[Hw::kLlcBandwidth], knee = hw[Hw::kLlcKnee], cap = 264 * 8192 / hw[Hw::kLlcLatency];
  const double rate = std::pow(std::pow(cap, -knee) + std::pow(peak, -knee), -1 / knee);
  EXPECT_NEAR(276824064 / rate / kMicro + beside, 35.7244, 0.05 * 35.7244);
  expect_measured(Hw::kLlcKnee, 3, 0);
  expect_measured(Hw::kLlcLatency, (0.1409 + 0.2505) / 2 * kMicro, 1e-3);  // pointer_chase, 16 and 40 MiB
  expect_measured(Hw::kLlcUsefulFraction, 45.0 / 60, 1e-9);
}

TEST_F(H200Test, instructions_follow_from_their_microbenchmarks) {
  const double clock = 1.98e9;
  const double ring =
      168296448.0 / 4 / (246.1936 * kMicro);  // cold_read_inflight, cp.async, 192 KiB, 4 CTAs: bytes a second
  expect_measured(Hw::kAsyncCopyPerWarp, ring / 4 / clock, 2e-3);
  const double round_trip = 4096 * (114.4199 * kMicro) / (3506176.0 / 4);  // 4 KiB in flight
  expect_measured(Hw::kAsyncCopyLatency, round_trip - 0.3505 * kMicro - 0.01113 * kMicro, 2e-2);
  expect_measured(Hw::kClockMatrix, 1.8e9, 0);  // wgmma_rate, sm_mhz, median of 16 rows of h200-2026-12-01-clocks
  expect_measured(Hw::kMatrixLatency, 14.4877e-9 * hw[Hw::kClockMatrix], 2e-3);  // mma_latency, bf16
  expect_measured(Hw::kSharedLatency, 15.8728e-9 * clock, 2e-3);
  expect_measured(Hw::kBarrier, 11.1316e-9 * clock, 5e-3);  // 128 threads
  expect_measured(Hw::kVectorConvert, 64, 0);
  const double started = 0.9 * kMicro;  // group_ends: 8 MiB each, 8 CTAs of a group and 12 (h200-2026-12-01-groups)
  for (const auto& [ctas, us] : {std::pair{8, 53.661}, std::pair{12, 79.990}}) {
    expect_measured(Hw::kGroupBandwidth, ctas * 8 * kMiB / (us * kMicro - started), 5e-3);
  }
  expect_measured(Hw::kUnitLoadPort, 8388608 / (41.0217 * kMicro) / clock, 5e-3);  // one_sm_read, bulk, warm, 64 KiB
}

TEST_F(H200Test, launch_follows_from_its_microbenchmarks) {
  const double interval = (10.789 - 1.2667) / (16896 - 1056) * kMicro;  // graph_node
  expect_measured(Hw::kLaunchGraph, 0.4824 * kMicro, 1e-9);
  expect_measured(Hw::kDispatchInterval, interval, 1e-3);
  expect_measured(Hw::kLaunchSpread, (0.7273 - 0.4824) * kMicro - 131 * interval, 2e-3);
  expect_measured(Hw::kLaunchStream, 1.3405 * kMicro, 1e-9);        // stream_launch
  expect_measured(Hw::kLaunchProgrammatic, 0.3775 * kMicro, 1e-9);  // programmatic_launch
}

TEST_F(H200Test, clocks_are_those_of_the_card) {
  expect_measured(Hw::kUnitCount, 132, 0);
  expect_measured(Hw::kClockBoost, 1.98e9, 1e-9);
  expect_measured(Hw::kClockSustained, 1.5e9, 1e-9);
}

}  // namespace
}  // namespace moesim
