// What a cache in front of the memory does to kernels that read again what was read or written.
//
// A step of b bytes that misses passes both channels: L = L_m + L_c (f_c - 1) + L_m (f_m - 1); one that hits has
// L = L_c f_c. The factors come from reference_factors (bisection), or in closed form where one channel alone is
// loaded.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/engine/cache.h"
#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

using namespace testkit;

constexpr std::int64_t kSteps = 32;
constexpr std::int64_t kStages = 4;
constexpr double kRounds = static_cast<double>(kSteps) / kStages;

ItemClass reading(std::int64_t bytes_an_item) {
  ItemClass item;
  item.steps = kSteps;
  item.stages = kStages;
  item.read = Bytes(bytes_an_item);
  return item;
}

// A step of which `miss` comes from memory and the rest from the cache.
FlowClass flow_of(const Machine& machine, double bytes_an_item, double miss) {
  const double b = bytes_an_item / kSteps;
  FlowClass flow;
  flow.bytes = {b * (1 + machine.caches[0].fill_weight * miss), b * miss, 0};
  flow.hop = {(1 - miss) * kCacheLatency, miss * kMemoryLatency, 0};
  flow.queue = {kCacheLatency, miss * kMemoryLatency, 0};
  flow.stages = kStages;
  return flow;
}

// Seconds of a wave of `items`, and of the fill before it.
double wave(const Machine& machine, double items, double bytes_an_item, double miss) {
  const FlowClass flow = flow_of(machine, bytes_an_item, miss);
  const std::vector<ActiveFlow> flows = {{&flow, items}};
  return kSteps * reference_step(flow, reference_factors(machine, flows));
}
double fill(const Machine& machine, double items, double bytes_an_item, double miss) {
  return reference_fill(machine, flow_of(machine, bytes_an_item, miss), items, kRounds);
}

void expect_time(Duration found, double seconds) {
  EXPECT_NEAR(found.as_double(), seconds * kPicosecondsPerSecond, 4 + 1e-7 * seconds * kPicosecondsPerSecond);
}

// One wave of `items` reads a region of items x bytes, and then a second one the same region.
SimulationResult read_twice(const Machine& machine, std::int64_t items, std::int64_t bytes) {
  PlanBuilder builder(LaunchMode::kGraph);
  const RegionId region = builder.add_region("weights", Bytes(items * bytes));
  Kernel kernel = one_group(reading(bytes), items, items / machine.units, region);
  kernel.groups.push_back(kernel.groups[0]);
  builder.add_kernel(kernel);
  return simulate(builder.seal(), machine);
}

// Half the cache: t = fill + t(cold) + n K b / R_c, R_c = ((n s b / L_c)^-2 + P_c^-2)^(-1/2).
TEST(Rereads, SmallRegionIsReadAgainAtCacheRate) {
  const Machine machine = cached_machine(8);
  const std::int64_t bytes = kCacheBytes / 32;
  const SimulationResult result = read_twice(machine, 16, bytes);
  const double offered = 16.0 * kStages * static_cast<double>(bytes) / kSteps / kCacheLatency;
  const double again = 16.0 * static_cast<double>(bytes) / knee_rate(offered, kCachePeak, 2);
  const auto b = static_cast<double>(bytes);
  expect_time(result.total, fill(machine, 16, b, 1) + wave(machine, 16, b, 1) + again);
  EXPECT_EQ(result.kernels[0].memory_read, Bytes(kCacheBytes / 2));
  EXPECT_EQ(result.kernels[0].memory_reread, Bytes(0));
  EXPECT_EQ(result.kernels[0].cache_read, Bytes(kCacheBytes));
  EXPECT_EQ(blamed(result.attribution, Blame::kMemoryRereads), Duration(0));
}

// Twice the cache, but all on free slots: the second half of the wave asks for each byte at the same time as the first.
// What half of the items bring in serves all.
TEST(Rereads, ItemsBesideEachOtherReadOnce) {
  const Machine machine = cached_machine(8);
  const std::int64_t bytes = kCacheBytes / 8;
  PlanBuilder builder(LaunchMode::kGraph);
  const RegionId region = builder.add_region("weights", Bytes(16 * bytes));
  Kernel kernel = one_group(reading(bytes), 16, 4, region);
  kernel.groups.push_back(kernel.groups[0]);
  builder.add_kernel(kernel);
  const SimulationResult result = simulate(builder.seal(), machine);
  EXPECT_EQ(result.kernels[0].memory_read, Bytes(2 * kCacheBytes));
  EXPECT_EQ(result.kernels[0].memory_reread, Bytes(0));
}

// Twice the cache: each byte has been pushed out before it is asked for again. t = fill + 2 t(cold).
TEST(Rereads, LargeRegionIsReadAgainFromMemory) {
  const Machine machine = cached_machine(8);
  const std::int64_t bytes = kCacheBytes / 8;
  const SimulationResult result = read_twice(machine, 16, bytes);
  const double cold = wave(machine, 16, static_cast<double>(bytes), 1);
  expect_time(result.total, fill(machine, 16, static_cast<double>(bytes), 1) + 2 * cold);
  EXPECT_EQ(result.kernels[0].memory_read, Bytes(4 * kCacheBytes));
  EXPECT_EQ(result.kernels[0].memory_reread, Bytes(2 * kCacheBytes));
  const double queued = blamed(result.attribution, Blame::kMemoryRereads).as_double();
  EXPECT_NEAR(queued, blamed(result.attribution, Blame::kMemoryStream).as_double(), 1e-6 * queued);
}

// The first item finds itself one capacity behind: half of it misses (8/16). Each item is 1/16 of the capacity younger
// than the one before, less what that one brought in: the second is 1 - (1 - 8/16) / 16 behind (3/16 miss), the third 1
// - (2 - 11/16) / 16 (none).
TEST(Rereads, EdgeIsARamp) {
  const SimulationResult result = read_twice(cached_machine(8), 16, kCacheBytes / 16);
  EXPECT_EQ(result.kernels[0].memory_reread, Bytes(kCacheBytes / 16 * (8 + 3) / 16));
}

// The fill's share of the cache: with a memory of 1000 TB/s, t = bytes (1 + w) / P_c.
TEST(Rereads, FillsTakeCacheBandwidth) {
  for (const double weight : {0.0, 0.5, 2.0}) {
    Machine machine = cached_machine(8);
    machine.caches[0].fill_weight = weight;
    machine.channels[1].peak = BytesPerSecond(1e15);
    const SimulationResult result = simulate(plan_of(one_group(reading(64 << 20), 64, 8)), machine);
    const double bytes = 64.0 * (64 << 20);
    const double before = fill(machine, 64, 64 << 20, 1);
    const double flow = to_seconds(result.total) - before;
    EXPECT_GE(flow, bytes * (1 + weight) / kCachePeak);
    EXPECT_LE(flow, bytes * (1 + weight) / kCachePeak * 1.02);
    expect_time(result.total, before + wave(machine, 64, 64 << 20, 1));
  }
}

// Items that share half of what they read: memory delivers the half once for all.
TEST(Rereads, FirstShareComesFromMemory) {
  const Machine machine = cached_machine(8);
  ItemClass item = reading(1 << 20);
  item.first_share = 0.25;
  const SimulationResult result = simulate(plan_of(one_group(item, 64, 8)), machine);
  expect_time(result.total, fill(machine, 64, 1 << 20, 0.25) + wave(machine, 64, 1 << 20, 0.25));
  EXPECT_EQ(result.kernels[0].memory_read, Bytes(16 << 20));
  EXPECT_EQ(result.kernels[0].cache_read, Bytes(64 << 20));
}

TEST(Rereads, ResidentReadsNeverReachMemory) {
  const Machine machine = cached_machine(8);
  ItemClass item = reading(0);
  item.resident_read = Bytes(64 << 20);  // larger than the cache: resident all the same
  const SimulationResult result = simulate(plan_of(one_group(item, 8, 1)), machine);
  expect_time(result.total, fill(machine, 8, 64 << 20, 0) + wave(machine, 8, 64 << 20, 0));
  EXPECT_EQ(result.kernels[0].memory_read, Bytes(0));
  EXPECT_EQ(result.kernels[0].cache_read, Bytes(8 * (64 << 20)));
}

// A first kernel writes a region, a second one reads it.
SimulationResult write_and_read(std::int64_t bytes) {
  PlanBuilder builder(LaunchMode::kGraph);
  const RegionId region = builder.add_region("copy", Bytes(bytes));
  ItemClass writing;
  writing.steps = kSteps;
  writing.write = Bytes(bytes / 16);
  Kernel first = one_group(writing, 16, 2);
  first.groups[0].write_region = region;
  const KernelId a = builder.add_kernel(first);
  const KernelId b = builder.add_kernel(one_group(reading(bytes / 16), 16, 2, region));
  builder.add_dependence(a, b);
  return simulate(builder.seal(), cached_machine(8));
}

TEST(Writes, TheNextKernelFindsASmallRegion) {
  const SimulationResult result = write_and_read(kCacheBytes / 2);
  EXPECT_EQ(result.kernels[0].written, Bytes(kCacheBytes / 2));
  EXPECT_EQ(result.kernels[1].memory_read, Bytes(0));
  const double time = to_seconds(result.kernels[1].end - result.kernels[1].start);
  const Machine machine = cached_machine(8);
  const double bytes = kCacheBytes / 32.0;
  EXPECT_NEAR(time, fill(machine, 16, bytes, 0) + wave(machine, 16, bytes, 0), 1e-11);
}

TEST(Writes, TheNextKernelReadsALargeRegionFromMemory) {
  const SimulationResult result = write_and_read(4 * kCacheBytes);
  EXPECT_EQ(result.kernels[1].memory_read, Bytes(4 * kCacheBytes));
}

// memory_reread counts bytes that memory had delivered before; what was only written it never delivered.
TEST(Writes, ReadingWhatWasOnlyWrittenIsNoReread) {
  const SimulationResult result = write_and_read(4 * kCacheBytes);
  EXPECT_EQ(result.kernels[1].memory_reread, Bytes(0));
  EXPECT_EQ(blamed(result.attribution, Blame::kMemoryRereads), Duration(0));
}

// Stores back up: a step's L = L_m (f - 1), and n K b = u P T. In plenty t = bytes / P, whatever turns cost: there are none.
TEST(Writes, BackUpWhenMemoryDoes) {
  for (const double weight : {1.0, 1.33, 2.0}) {
    Machine machine = memory_machine(8);
    machine.memory_write_weight = weight;
    ItemClass item;
    item.steps = kSteps;
    item.stages = kStages;
    item.write = Bytes(64 << 20);
    const double saturated = to_seconds(simulate(plan_of(one_group(item, 64, 8)), machine).total);
    const double bytes = 64.0 * (64 << 20);
    EXPECT_GE(saturated, bytes / kMemoryPeak);
    EXPECT_LE(saturated, bytes / kMemoryPeak * 1.001);

    item.write = Bytes(kSteps * 1000);
    FlowClass flow;
    flow.bytes = {1000, 0, 0};
    flow.queue = {kMemoryLatency, 0, 0};
    flow.stages = kStages;
    const std::vector<ActiveFlow> flows = {{&flow, 64}};
    expect_time(simulate(plan_of(one_group(item, 64, 8)), machine).total,
                kSteps * reference_step(flow, reference_factors(machine, flows)));
  }
}

// A few stores are not waited for: the same bytes read take K L / s.
TEST(Writes, FewAreNotWaitedFor) {
  ItemClass item;
  item.steps = kSteps;
  item.stages = kStages;
  item.write = Bytes(kSteps * 16);
  const double written = to_seconds(simulate(plan_of(one_group(item, 1, 1)), memory_machine(1)).total);
  EXPECT_LT(written, 0.02 * kSteps * kMemoryLatency / kStages);
}

// Reads and stores share the memory, and turns between them cost: t = (r + w + (weight - 1) sqrt(r w)) / P.
TEST(Writes, ShareTheMemoryWithReads) {
  Machine machine = memory_machine(8);
  machine.memory_write_weight = 1.5;
  for (const std::int64_t written : {64, 32, 4}) {
    ItemClass item = reading(64 << 20);
    item.write = Bytes(written << 20);
    const double time = to_seconds(simulate(plan_of(one_group(item, 64, 8)), machine).total);
    const auto w = static_cast<double>(written);
    const double expected = 64.0 * (1 << 20) * (64 + w + 0.5 * std::sqrt(64 * w)) / kMemoryPeak;
    EXPECT_GE(time, expected);
    EXPECT_LE(time, expected * 1.001 + kMemoryLatency);
  }
}

// Distance d of a region's byte: found below 0.95 C, missed above 1.05 C, in steps of 1/16 between.
TEST(CacheState, MissShareIsARampOverDistance) {
  constexpr double kCapacity = 1000;
  for (const double distance : {0.0, 500.0, 949.0, 951.0, 960.0, 1000.0, 1040.0, 1049.0, 1051.0, 5000.0}) {
    CacheState cache(Bytes(1000), 1);
    EXPECT_FALSE(cache.was_read(0));
    EXPECT_EQ(cache.miss_steps(0, 0), CacheState::kShareSteps) << "never seen";
    cache.mark(0, cache.position(), cache.position(), true);
    cache.insert(distance);
    EXPECT_EQ(cache.miss_steps(0, 0), 0) << "booked, not yet delivered: those before are still at it";
    cache.deliver(distance);
    EXPECT_TRUE(cache.was_read(0));
    const double miss = std::min(1.0, std::max(0.0, (distance - 0.95 * kCapacity) / (0.1 * kCapacity)));
    EXPECT_EQ(cache.miss_steps(0, 0), std::lround(16 * miss)) << distance;
  }
}

// Of a region read front to back over 800 bytes, the end is 800 bytes younger than the beginning.
TEST(CacheState, LaterBytesAreYounger) {
  CacheState cache(Bytes(1000), 2);
  cache.insert(800);
  cache.mark(1, {0, 0}, {800, 800}, false);
  cache.insert(600);
  EXPECT_EQ(cache.miss_steps(1, 0), 16);
  EXPECT_EQ(cache.miss_steps(1, 0.5), 8);  // distance 1000
  EXPECT_EQ(cache.miss_steps(1, 1), 0);
  EXPECT_EQ(cache.miss_steps(0, 0), 16);
  EXPECT_FALSE(cache.was_read(1)) << "only written";
}

}  // namespace
}  // namespace moesim
