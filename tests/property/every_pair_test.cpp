// What holds for every strategy on every device, whatever the model, the shard, the format and the routing.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "tests/property/cases.h"
#include "traces/moe_stage.h"

namespace moesim::property {
namespace {

using testkit::Random;

class EveryPair : public testing::TestWithParam<Pair> {
 protected:
  // Calls check(case, layer, prediction) for random cases, of which one at least has to be feasible.
  template <class Check>
  void for_cases(int count, std::uint64_t seed, const Check& check) {
    Random random(seed);
    int ran = 0;
    for (int i = 0; i < count / kThinning || (ran == 0 && i < count); ++i) {
      const Case c = random_case(random);
      SCOPED_TRACE(c.text());
      const MoeLayer layer = c.layer();
      const std::optional<Prediction> prediction = feasible(layer, hardware(), GetParam().strategy, c.options());
      if (!prediction) continue;
      ++ran;
      check(c, layer, *prediction);
    }
    EXPECT_GE(ran, 1);
  }
  [[nodiscard]] const HardwareModel& hardware() const { return device(GetParam().device); }
};

// --- attribution ---

TEST_P(EveryPair, AttributionSumsToTheTime) {
  for_cases(64, 1, [](const Case&, const MoeLayer&, const Prediction& prediction) {
    EXPECT_EQ(sum(prediction.attribution), prediction.time);
    for (const Duration part : prediction.attribution) EXPECT_GE(part, Duration(0));
    Attribution kernels{};
    for (const KernelSummary& kernel : prediction.kernels) {
      for (std::size_t b = 0; b < kBlameCount; ++b) {
        kernels[b] += kernel.result.attribution[b];
        EXPECT_GE(kernel.result.attribution[b], Duration(0));
      }
      EXPECT_LE(kernel.result.launch, kernel.result.start);
      EXPECT_LE(kernel.result.start, kernel.result.end);
    }
    EXPECT_EQ(kernels, prediction.attribution);
    TimePoint last;
    for (const KernelSummary& kernel : prediction.kernels) last = std::max(last, kernel.result.end);
    EXPECT_EQ(last - TimePoint(), prediction.time);
  });
}

// --- between bound and serial sum ---

TEST_P(EveryPair, TimeIsNotBelowTheBound) {
  for_cases(64, 2, [](const Case&, const MoeLayer&, const Prediction& prediction) {
    EXPECT_GT(prediction.bound, Duration(0));
    EXPECT_GE(prediction.time, prediction.bound);
  });
}

// One item after another, each alone on the machine and all that it reads from memory, is slower than any overlap.
TEST_P(EveryPair, TimeIsNotAboveTheSerialSum) {
  const Machine machine = build_machine(hardware());
  for_cases(24, 3, [&](const Case& c, const MoeLayer& layer, const Prediction& prediction) {
    const Parameters no_parameters;
    const ImplementationConstants no_constants;
    const Lowered lowered = strategy_choice(GetParam().strategy)
                                .strategy->lower({layer, hardware(), hardware()[Hw::kClockBoost], c.scope, c.launch,
                                                  no_parameters, no_constants, ""});
    double serial = 0;
    for (const Kernel& kernel : std::get<ExecutionPlan>(lowered).kernels()) {
      serial += (machine.launch_spread + std::max(machine.launch_stream, machine.launch_graph)).as_double();
      std::vector<double> alone;  // picoseconds, by class
      for (const ItemClass& item : kernel.classes) {
        Kernel one = kernel;
        one.gang = 1;
        one.classes = {item};
        one.groups = {ItemGroup()};
        one.groups[0].count = 1;
        alone.push_back(simulate(testkit::plan_of(one), machine).total.as_double());
      }
      for (const ItemGroup& group : kernel.groups) serial += static_cast<double>(group.count) * alone[group.item_class];
    }
    EXPECT_LE(prediction.time.as_double(), serial);
  });
}

// --- what timelines show ---

// What a comparison with a measured layer is made by.
TEST_P(EveryPair, KernelsHaveStagesOfALayer) {
  for_cases(8, 3, [&](const Case&, const MoeLayer&, const Prediction& prediction) {
    for (const KernelSummary& kernel : prediction.kernels) EXPECT_TRUE(parse_stages(kernel.stage)) << kernel.stage;
  });
}

// Of each projection: all active experts, each pick's row once, and its useful work; issued work is not less.
TEST_P(EveryPair, ProjectionsAreLabelledWithTheirExperts) {
  for_cases(24, 7, [&](const Case& c, const MoeLayer& layer, const Prediction&) {
    const Lowered lowered = lower_layer(layer, hardware(), strategy_choice(GetParam().strategy), c.options());
    const auto& plan = std::get<ExecutionPlan>(lowered);
    const std::map<std::string, std::int64_t> widths = {{"gemm1", layer.up_width()},
                                                        {"gemm2", layer.intermediate},
                                                        {"gemm1+gemm2", layer.up_width() + layer.intermediate}};
    std::int64_t width_of_all = 0;
    for (const auto& [stage, width] : widths) {
      std::map<std::int32_t, std::int64_t> rows;
      double useful = 0, issued = 0;
      for (const Kernel& kernel : plan.kernels()) {
        if (kernel.stage != stage || kernel.helper) continue;
        for (const LabelRows& label : kernel.labels) rows[label.label] += label.rows;
        for (const ItemGroup& group : kernel.groups) {
          if (group.label >= 0) rows[group.label] += group.rows;
          EXPECT_TRUE(kernel.labels.empty() || group.label < 0);
          useful += static_cast<double>(group.count) * kernel.classes[group.item_class].useful_flops;
          issued += static_cast<double>(group.count) * kernel.classes[group.item_class].issued_flops;
        }
      }
      if (rows.empty()) continue;
      width_of_all += width;
      std::map<std::int32_t, std::int64_t> expected;
      for (std::size_t e = 0; e < layer.rows.size(); ++e) {
        if (layer.rows[e] > 0) expected[static_cast<std::int32_t>(e)] = layer.rows[e];
      }
      EXPECT_EQ(rows, expected) << stage;
      const double work = 2 * static_cast<double>(layer.picks * width * layer.expert_hidden());
      EXPECT_NEAR(useful / work, 1, 0.02) << stage;  // blocks that the matrix does not fill
      EXPECT_GE(issued, useful * 0.999) << stage;
    }
    EXPECT_EQ(width_of_all, layer.picks > 0 ? layer.up_width() + layer.intermediate : 0);
  });
}

// --- bytes ---

TEST_P(EveryPair, BytesAreConserved) {
  for_cases(64, 4, [](const Case&, const MoeLayer& layer, const Prediction& prediction) {
    const Bytes matrices = (layer.up_bytes() + layer.down_bytes()) * layer.active;
    const Bytes rounding(prediction.work_items);  // one byte an item
    EXPECT_GE(prediction.memory_read + rounding, matrices);
    EXPECT_GE(prediction.cache_read, prediction.memory_read);
    EXPECT_GE(prediction.memory_read, prediction.memory_reread);
    EXPECT_GE(prediction.memory_reread, Bytes(0));
    std::int64_t items = 0;
    for (const KernelSummary& kernel : prediction.kernels) {
      items += kernel.result.items;
      EXPECT_GE(kernel.result.slots, 1);
    }
    EXPECT_EQ(items, prediction.work_items);
  });
}

// The same where tokens differ in how many of their picks are local.
TEST_P(EveryPair, BytesAreConservedOnAShard) {
  Case c;
  c.model = "qwen3-30b-a3b";
  c.routing = "uniform";
  c.format = c.activations = "bf16";
  c.scope = Scope::kExpertFfn;
  c.tokens = 9;
  c.ep = 8;
  const MoeLayer layer = c.layer();
  const std::optional<Prediction> prediction = feasible(layer, hardware(), GetParam().strategy, c.options());
  if (!prediction) GTEST_SKIP() << "infeasible";
  const Bytes matrices = (layer.up_bytes() + layer.down_bytes()) * layer.active;
  EXPECT_GE(prediction->memory_read + Bytes(prediction->work_items), matrices);
}

// --- more of a resource ---

TEST_P(EveryPair, MoreMemoryBandwidthIsNotSlower) {
  HardwareModel faster = hardware();
  apply_override(faster, fmt::format("hbm.bandwidth={}B/s", 1.25 * hardware()[Hw::kHbmBandwidth]));
  for_cases(64, 5, [&](const Case& c, const MoeLayer& layer, const Prediction& prediction) {
    PredictOptions options = c.options();
    const std::optional<Prediction> more = feasible(layer, faster, GetParam().strategy, options);
    ASSERT_TRUE(more);
    // The tiles of a cluster with and without rows, dealt to whoever is free, may end with one more or less in a row.
    const double reordered = GetParam().strategy == "grouped_gemm_persistent" ? 1.03 : 1.015;
    EXPECT_LE(more->time.as_double(), prediction.time.as_double() * reordered);
    const bool one_wave = std::ranges::all_of(
        prediction.kernels, [](const KernelSummary& kernel) { return kernel.result.items <= kernel.result.slots; });
    if (!one_wave) return;
    // In one wave nothing can be reordered. Cohorts may still fall otherwise; without them only the solver's tolerance
    // is left.
    options.simulate.cohorts = false;
    const std::optional<Prediction> one = feasible(layer, hardware(), GetParam().strategy, options);
    const std::optional<Prediction> one_more = feasible(layer, faster, GetParam().strategy, options);
    EXPECT_LE(one_more->time.as_double(), one->time.as_double() * 1.00001);
  });
}

// Programmatic launch overlaps prologues with the kernel before; where its gap is the shorter one it can only lose what
// items that wait together and then start together lose: they stay in step.
TEST_P(EveryPair, ProgrammaticLaunchIsNotSlowerThanAGraph) {
  if (hardware().grid == Grid::kSequential) GTEST_SKIP() << "all launch modes are one there";
  if (hardware()[Hw::kLaunchProgrammatic] > hardware()[Hw::kLaunchGraph]) GTEST_SKIP() << "its gap is longer";
  for_cases(24, 9, [&](const Case& c, const MoeLayer& layer, const Prediction&) {
    PredictOptions options = c.options();
    options.launch = LaunchMode::kGraph;
    const std::optional<Prediction> graph = feasible(layer, hardware(), GetParam().strategy, options);
    options.launch = LaunchMode::kProgrammatic;
    const std::optional<Prediction> programmatic = feasible(layer, hardware(), GetParam().strategy, options);
    EXPECT_LE(programmatic->time.as_double(), graph->time.as_double() * 1.05);
  });
}

// --- order ---

TEST_P(EveryPair, ExpertsNumbersDoNotMatter) {
  Random shuffler(6);
  for_cases(48, 7, [&](const Case& drawn, const MoeLayer&, const Prediction&) {
    Case c = drawn;
    c.ep = 1;  // which experts share a device does matter
    RoutedBatch batch = c.batch();
    const std::optional<Prediction> before = feasible(c.layer_of(batch), hardware(), GetParam().strategy, c.options());
    std::vector<std::int32_t> number(static_cast<std::size_t>(batch.experts));
    std::iota(number.begin(), number.end(), 0);
    // Zero experts keep theirs: they do no work.
    for (auto i = static_cast<std::size_t>(model_of(c.model).experts); i > 1; --i) {
      std::swap(number[i - 1], number[static_cast<std::size_t>(shuffler.whole(0, static_cast<std::int64_t>(i) - 1))]);
    }
    for (std::int32_t& id : batch.ids) id = number[static_cast<std::size_t>(id)];
    const std::optional<Prediction> after = feasible(c.layer_of(batch), hardware(), GetParam().strategy, c.options());
    ASSERT_EQ(before.has_value(), after.has_value());
    if (!before) return;
    // Alike experts: nothing changes but names. Others: a run of small kernels or groups may fall differently.
    std::vector<std::int64_t> rows = c.layer_of(batch).rows;
    std::erase(rows, 0);
    // Where items wait for those of their expert, the last experts' picks decide how long.
    const double unlike = GetParam().strategy == "fused_stream_gemv" ? 0.07 : 0.025;
    const double tolerance = std::ranges::adjacent_find(rows, std::not_equal_to<>()) == rows.end() ? 0.01 : unlike;
    EXPECT_NEAR(after->time.as_double(), before->time.as_double(), tolerance * before->time.as_double());
  });
}

TEST_P(EveryPair, SameInputSameResult) {
  for_cases(24, 8, [&](const Case& c, const MoeLayer& layer, const Prediction& prediction) {
    const std::optional<Prediction> again = feasible(layer, hardware(), GetParam().strategy, c.options());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->time, prediction.time);
    EXPECT_EQ(again->attribution, prediction.attribution);
    EXPECT_EQ(again->memory_read, prediction.memory_read);
    EXPECT_EQ(again->cohorts, prediction.cohorts);
  });
}

// --- nothing to do ---

// A shard none of whose experts was picked still routes and combines.
TEST_P(EveryPair, NoLocalPicks) {
  Case c;
  c.model = "olmoe-1b-7b";
  c.routing = "uniform";
  c.format = c.activations = "bf16";
  c.ep = 8;
  MoeLayer layer = c.layer();
  ASSERT_GT(layer.picks, 0);  // the device with the most picks
  std::ranges::fill(layer.rows, 0);
  std::ranges::fill(layer.token_picks, 0);
  layer.picks = layer.active = 0;
  for (const Scope scope : {Scope::kMoeLayer, Scope::kExpertFfn}) {
    c.scope = scope;
    const PredictionOrInfeasible result = predict(layer, hardware(), strategy_choice(GetParam().strategy), c.options());
    if (const auto* prediction = std::get_if<Prediction>(&result)) {
      EXPECT_EQ(sum(prediction->attribution), prediction->time);
      EXPECT_GE(prediction->time, prediction->bound);
      EXPECT_EQ(prediction->active_experts, 0);
    } else {
      EXPECT_EQ(scope, Scope::kExpertFfn) << std::get<Infeasible>(result).reason;
    }
  }
}

// One token on eight devices: most of them hold none of its experts, this one at least one.
TEST_P(EveryPair, OneTokenOnEightShards) {
  for (const char* model : {"olmoe-1b-7b", "qwen3.5-397b-a17b"}) {
    Case c;
    c.model = model;
    c.routing = "uniform";
    c.format = c.activations = "bf16";
    c.ep = 8;
    const MoeLayer layer = c.layer();
    EXPECT_GE(layer.active, 1);
    const std::optional<Prediction> prediction = feasible(layer, hardware(), GetParam().strategy, c.options());
    if (!prediction) continue;
    EXPECT_EQ(sum(prediction->attribution), prediction->time);
    EXPECT_GE(prediction->time, prediction->bound);
  }
}

// What a strategy does by default has a real counterpart that runs 16-bit weights on any of these devices.
TEST_P(EveryPair, DefaultsFitTheDevice) {
  Case c;
  c.model = "qwen3-30b-a3b";
  c.routing = "uniform";
  c.format = c.activations = "bf16";
  for (const std::int64_t tokens : {1, 64}) {
    c.tokens = tokens;
    const PredictionOrInfeasible result =
        predict(c.layer(), hardware(), strategy_choice(GetParam().strategy), c.options());
    const auto* infeasible = std::get_if<Infeasible>(&result);
    EXPECT_EQ(infeasible, nullptr) << infeasible->reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, EveryPair, testing::ValuesIn(all_pairs()),
                         [](const auto& instance) { return pair_name(instance.param); });

}  // namespace
}  // namespace moesim::property
