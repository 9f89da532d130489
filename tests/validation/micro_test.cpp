// The error against the committed microbenchmarks: bars per benchmark on the largest error, and what is left out.
#include "validation/micro.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "validation/calibrate_micro.h"

namespace moesim {
namespace {

const std::string kMeasured = MOESIM_SOURCE_DIR "/validation/measured/";

struct Bar {
  std::int64_t points;
  double most_pct;
};
using Bars = std::map<std::string, Bar>;

void expect_within(const MicroEvaluation& evaluation, const Bars& bars) {
  EXPECT_EQ(evaluation.by_benchmark.size(), bars.size());
  for (const auto& [benchmark, summary] : evaluation.by_benchmark) {
    ASSERT_TRUE(bars.contains(benchmark)) << benchmark;
    EXPECT_EQ(summary.count, bars.at(benchmark).points) << benchmark;
    EXPECT_LE(summary.max_abs_pct, bars.at(benchmark).most_pct) << benchmark;
  }
}

MicroEvaluation evaluate_set(const std::vector<MicroMeasurement>& rows) {
  return evaluate_micro(rows, "micro.jsonl", load_hardware("h200"));
}

// The curves that constants come from within 10 % at every point; beside them what is known to be wrong.
TEST(Micro, TritonSet) {
  const auto rows = read_micro_measurements(kMeasured + "h200-2026-11-29/micro.jsonl");
  expect_within(evaluate_set(rows), {{"graph_node", {7, 10}},
                                     {"cold_read_inflight", {39, 10}},
                                     {"cold_read_size", {17, 10}},
                                     {"repeat_read_size", {13, 10}},
                                     {"mixed", {6, 10}},
                                     {"fill", {1, 10}},
                                     {"pointer_chase", {4, 45}},
                                     {"same_read", {38, 70}}});
}

// Of the CUDA harness; benchmarks that a run has more or fewer points of, or fares otherwise in, are changed by its test.
const Bars kCudaBars = {{"graph_node", {9, 10}},
                        {"graph_node_threads", {8, 12}},
                        {"stream_launch", {3, 10}},
                        {"programmatic_launch", {3, 65}},
                        {"cold_read_size", {17, 10}},
                        {"repeat_read_size", {13, 35}},
                        {"cold_read_inflight", {114, 10}},
                        {"one_sm_read", {14, 50}},
                        {"same_read", {33, 55}},
                        {"pointer_chase", {6, 40}},
                        {"mixed", {6, 10}},
                        {"fill", {1, 10}},
                        {"splitk_reduce", {8, 20}},
                        {"mma_latency", {1, 10}},
                        {"mma_rate", {7, 10}},
                        {"wgmma_rate", {16, 10}},
                        {"convert", {8, 35}},
                        {"barrier", {1, 10}},
                        {"shared_latency", {1, 10}}};

TEST(Micro, CudaSet) {
  const auto rows = read_micro_measurements(kMeasured + "h200-cuda-2026-11-29/micro.jsonl");
  expect_within(evaluate_set(rows), kCudaBars);
}

// Reads again are by plain loads.
TEST(Micro, CudaSetOfAnotherDay) {
  const auto rows = read_micro_measurements(kMeasured + "h200-cuda-2026-11-30/micro.jsonl");
  Bars bars = kCudaBars;
  bars["stream_launch"] = {6, 10};
  bars["programmatic_launch"] = {6, 65};
  bars["repeat_read_size"] = {13, 10};
  bars["warm_read_inflight"] = {22, 8};
  bars["splitk_reduce"] = {8, 21};
  expect_within(evaluate_set(rows), bars);
}

// How units share the memory, and a unit its on-chip memory: tiles on 1 to 132 units.
TEST(Micro, SharesOfUnits) {
  const auto rows = read_micro_measurements(kMeasured + "h200-2026-11-30-shares/measurements.jsonl");
  expect_within(evaluate_set(rows), {{"tile_shares", {39, 11}}});
}

// How waves of a grouped product follow each other, from a part of a wave to forty.
TEST(Micro, WavesOfTiles) {
  const auto rows = read_micro_measurements(kMeasured + "h200-2026-12-01-waves/measurements.jsonl");
  expect_within(evaluate_set(rows), {{"tile_waves", {22, 8}}});
  const auto again = read_micro_measurements(kMeasured + "h200-2026-12-01-turnaround/waves.jsonl");
  expect_within(evaluate_set(again), {{"tile_waves", {29, 8}}});
}

TEST(Micro, TurnaroundOfSlots) {
  const auto rows = read_micro_measurements(kMeasured + "h200-2026-12-01-turnaround/micro.jsonl");
  expect_within(evaluate_set(rows), {{"cta_turnaround", {26, 4}}});
}

// The unit's own port, of all units at once, gives less than to one alone: neighbours that share lines are too fast.
TEST(Micro, PortsOfUnits) {
  const auto rows = read_micro_measurements(kMeasured + "h200-cuda-2026-11-30-ports/micro.jsonl");
  expect_within(evaluate_set(rows), {{"shared_read", {33, 71}}, {"port_ends", {6, 4}}});
}

// Few CTAs crowd on one group of units.
TEST(Micro, GroupsOfUnits) {
  const auto rows = read_micro_measurements(kMeasured + "h200-2026-12-01-groups/micro.jsonl");
  expect_within(evaluate_set(rows), {{"shared_read", {33, 71}}, {"port_ends", {6, 4}}, {"group_ends", {11, 10}}});
}

TEST(Micro, MeasuredTimesDoNotEnterPredictions) {
  auto rows = read_micro_measurements(kMeasured + "h200-2026-11-29/micro.jsonl");
  const auto as_measured = rows;
  for (MicroMeasurement& row : rows) row.us *= 2;
  const MicroEvaluation once = evaluate_set(as_measured), twice = evaluate_set(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(once.rows[i].simulated_us, twice.rows[i].simulated_us);
}

// Rows that another device would have measured lead back to that device.
TEST(Micro, CalibrationFindsTheDeviceThatWasMeasured) {
  const auto all = read_micro_measurements(kMeasured + "h200-2026-11-29/micro.jsonl");
  std::vector<MicroMeasurement> rows;
  for (const MicroMeasurement& row : all) {
    if (row.benchmark != "same_read") rows.push_back(row);
  }
  const HardwareModel present = load_hardware("h200");
  HardwareModel measured = present;
  for (const char* assignment : {"hbm.latency=450ns", "hbm.read_fraction=0.9", "launch.dispatch_interval=0.9ns",
                                 "launch.graph=0.6us", "llc.latency=150ns", "llc.bandwidth=7TB/s"}) {
    apply_override(measured, assignment);
  }
  const MicroEvaluation truth = evaluate_micro(rows, "", measured);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (truth.rows[i].left_out.empty()) rows[i].us = truth.rows[i].simulated_us;
  }
  const DeviceCalibration found = calibrate_micro(rows, "", present, [](std::size_t) {});
  EXPECT_EQ(found.rows, 87);
  for (const DeviceConstantFit& fit : found.constants) {
    if (!fit.left_out.empty()) continue;
    // As near as the rows tell: on a cache of this rate the weight of a fill hardly matters, less than that simulated times go in
    // small steps (which of a kernel's cohorts end together), of which a standard error knows nothing.
    const double tolerance = fit.id == Hw::kLlcFillWeight ? 0.3 : std::max(0.03, 4 * fit.relative_error);
    EXPECT_NEAR(fit.fitted / measured[fit.id], 1, tolerance) << hw_entry(fit.id).path;
  }
  EXPECT_LT(found.after.overall.max_abs_pct, 1);
  const auto left_out = std::find_if(found.constants.begin(), found.constants.end(),
                                     [](const DeviceConstantFit& fit) { return fit.id == Hw::kMatrixLatency; });
  ASSERT_NE(left_out, found.constants.end());
  EXPECT_EQ(left_out->left_out, "no row depends on it");
}

}  // namespace
}  // namespace moesim
