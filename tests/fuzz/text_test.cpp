// Flags and quantities: short text.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "sim/units/parse_quantity.h"
#include "tests/fuzz/mutate.h"
#include "workloads/dtype.h"
#include "workloads/predict.h"
#include "workloads/router.h"
#include "workloads/routing/match.h"
#include "workloads/strategies/strategy.h"

namespace moesim::fuzz {
namespace {

// Both outcomes have to occur, or the mutations miss the parser.
void expect_both(const Tally& tally) {
  EXPECT_GT(tally.accepted, kMutations / 400);
  EXPECT_GT(tally.refused, kMutations / 10);
}

TEST(Fuzz, Quantities) {
  for (const Dimension dimension :
       {Dimension::kDimensionless, Dimension::kTime, Dimension::kBytes, Dimension::kBandwidth,
        Dimension::kBytesPerCycle, Dimension::kCycles, Dimension::kFrequency, Dimension::kFlopRate,
        Dimension::kFlopsPerCycle, Dimension::kPower}) {
    const std::vector<std::string> good = {"3.35 TB/s",     "0.5 us", "60 MiB", "1980 MHz",
                                           "64 B/clk",      "29 clk", "700 W",  "989 TFLOP/s",
                                           "4096 FLOP/clk", "0.75",   "1e-3",   "7"};
    const Tally tally = feed(good, json_words(), 1, kMutations, [&](const std::string& text) {
      const double value = parse_quantity(text, dimension, "file", "where");
      EXPECT_TRUE(std::isfinite(value) && value >= 0) << text;
      EXPECT_FALSE(format_quantity(value, dimension).empty());
    });
    EXPECT_GT(tally.accepted, 0);
    EXPECT_GT(tally.refused, kMutations / 10);
  }
}

TEST(Fuzz, Strategies) {
  const std::vector<std::string> good = {"grouped_gemm",
                                         "grouped_gemm:block_m=32,swap_ab=1",
                                         "auto",
                                         "stream_gemv:up.block_n=4,down.per_token=0",
                                         "expert_loop:split_k=2",
                                         "gather_gemv:buffers=3",
                                         "grouped_gemm_persistent:look_ahead=0"};
  expect_both(feed(good, {"=", ",", ":", "-1", "0", "99999999999999999999", "=16", "block_m", "1.5"}, 2, kMutations,
                   [](const std::string& text) { parse_strategy(text); }));
}

TEST(Fuzz, Routings) {
  const std::vector<std::string> good = {"uniform",  "zipf:0.8",      "lognormal:1", "balanced",     "same",
                                         "disjoint", "power_law:1.2", "trace:a.npy", "dirichlet:0.5"};
  expect_both(
      feed(good, {":", "-1", "0", "1e999", "nan", "1e-300", "10", ":2"}, 3, kMutations, [](const std::string& text) {
        const Routing routing = parse_routing(text);
        if (routing.kind == RoutingKind::kTrace) return;
        const RoutedBatch batch = draw_batch(routing, 16, 4, 3, 1, 0);
        EXPECT_EQ(batch.ids.size(), 12U);
      }));
}

TEST(Fuzz, Matches) {
  expect_both(feed({"duplicates=5%@3", "duplicates=0.05@64,zipf", "duplicates=50%@8,lognormal"},
                   {"=", "@", "%", ",", "-1", "0", "1e999", "nan", "99999999999999999999"}, 3, kMutations,
                   [](const std::string& text) {
                     const MatchTarget target = parse_match(text);
                     EXPECT_FALSE(target.laws.empty());
                     EXPECT_GT(target.duplicates, 0);
                     EXPECT_GE(target.tokens, 1);
                   }));
}

TEST(Fuzz, Formats) {
  std::vector<std::string> good = format_names();
  good.emplace_back("int4:32");
  expect_both(feed(good, {":", "-1", "0", "64", "128", "99999999999999999999", "fp8", "int4:"}, 4, kMutations,
                   [](const std::string& text) {
                     const WeightFormat format = parse_format(text, "where");
                     EXPECT_EQ(parse_format(format_name(format), "where"), format);
                     EXPECT_GT(matrix_bytes(format, 64, 256), Bytes(0));
                   }));
}

TEST(Fuzz, Overrides) {
  const HardwareModel h200 = load_hardware("h200");
  const std::vector<std::string> good = {"hbm.bandwidth=6TB/s", "llc.capacity=100 MiB", "unit.count=64",
                                         "clock.boost=1.5 GHz", "hbm.knee=2.5"};
  expect_both(feed(good, {"=", ".", "-1", "0", "1e999", "TB/s", "hbm.", "1e300 TB/s"}, 5, kMutations,
                   [&](const std::string& text) {
                     HardwareModel changed = h200;
                     apply_override(changed, text);
                   }));
}

// Every number of a device at both ends of the range that the schema allows: predictions are infeasible or add up.
TEST(Fuzz, DevicesAtTheEndsOfTheirRanges) {
  const HardwareModel h200 = load_hardware("h200");
  MoeModel model;
  model.hidden = 256;
  model.expert_intermediate = 128;
  model.experts = 8;
  model.topk = 2;
  const MoeLayer layer = shard_layer(model, draw_batch({}, 8, 2, 3, 1, 0), model.expert_weights, 1, 1);
  int feasible = 0;
  for (const HardwareModel& base : {h200, load_hardware("tpu7x")}) {
    for (const HwEntry& entry : hw_schema()) {
      if (entry.presence(base.grid) == Presence::kUnknown) continue;
      for (const double value : {entry.min, entry.max}) {
        HardwareModel changed = base;
        changed.constants[static_cast<std::size_t>(entry.id)] = Constant{value, SourceKind::kOverride, "test"};
        for (const Strategy& strategy : strategy_catalogue()) {
          SCOPED_TRACE(base.name + " " + std::string(entry.path) + " = " + std::to_string(value) + ", " +
                       strategy.name);
          try {
            const PredictionOrInfeasible result = predict(layer, changed, {&strategy, {}, "", strategy.name}, {});
            const auto* prediction = std::get_if<Prediction>(&result);
            if (prediction == nullptr) continue;
            ++feasible;
            EXPECT_EQ(sum(prediction->attribution), prediction->time);
            EXPECT_GE(prediction->time, prediction->bound);
            EXPECT_GT(prediction->time, Duration(0));
          } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
          }
        }
      }
    }
  }
  EXPECT_GT(feasible, 100);
}

TEST(Fuzz, ScopesAndLaunches) {
  feed({"expert_ffn", "moe_layer"}, {}, 6, kMutations, [](const std::string& text) { parse_scope(text); });
  feed({"graph", "stream", "programmatic"}, {}, 7, kMutations, [](const std::string& text) { parse_launch(text); });
}

}  // namespace
}  // namespace moesim::fuzz
