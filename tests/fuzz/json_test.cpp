// JSON, and the files in it: devices, models, measurements. What is accepted has to work.
#include <gmock/gmock.h>

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "hwmodels/device_files.h"
#include "hwmodels/loader.h"
#include "sim/io/strict_json.h"
#include "tests/fuzz/mutate.h"
#include "tests/testkit/models.h"
#include "traces/measurement.h"
#include "workloads/model_config.h"
#include "workloads/model_files.h"
#include "workloads/parameter_count.h"
#include "workloads/predict.h"
#include "workloads/router.h"

namespace moesim::fuzz {
namespace {

std::vector<std::string> texts(std::span<const EmbeddedFile> files) {
  std::vector<std::string> all;
  for (const EmbeddedFile& file : files) all.emplace_back(file.text);
  return all;
}

void walk(const JsonView& view, int& nodes) {
  ++nodes;
  EXPECT_FALSE(view.describe().empty());
  if (view.is_object()) {
    for (const std::string& key : view.keys()) walk(view.at(key), nodes);
  } else if (view.is_array()) {
    for (std::size_t i = 0; i < view.size(); ++i) walk(view.at(i), nodes);
  } else if (view.is_string()) {
    static_cast<void>(view.as_string());
  }
}

TEST(Fuzz, StrictJson) {
  std::vector<std::string> good = {R"({"a": [1, -2.5e3, "x\u00e9\n", null, true], "b": {"c": {}}, "d": []})",
                                   R"([[[]], {"k": "v"}, 0, "", 18446744073709551615, -9223372036854775808])",
                                   "\"text\"", "12"};
  good.emplace_back(device_files().front().text);
  const Tally tally = feed(good, json_words(), 1, 3 * kMutations, [](const std::string& text) {
    const JsonDocument document = JsonDocument::parse(text, "fuzz");
    int nodes = 0;
    walk(document.root(), nodes);
    EXPECT_GT(nodes, 0);
  });
  EXPECT_GT(tally.accepted, kMutations / 40);
  EXPECT_GT(tally.refused, kMutations / 10);
}

// A reader that asks for numbers gets them in range or an InputError.
TEST(Fuzz, JsonNumbers) {
  feed({"1", "-2", "0.5", "1e3", "9007199254740993", "\"1\"", "true"}, json_words(), 2, kMutations,
       [](const std::string& text) {
         const JsonDocument document = JsonDocument::parse(text, "fuzz");
         const std::int64_t whole = document.root().as_int(-5, 1000);
         EXPECT_TRUE(whole >= -5 && whole <= 1000);
       });
  feed({"1", "-2", "0.5", "1e3", "9007199254740993"}, json_words(), 3, kMutations, [](const std::string& text) {
    const JsonDocument document = JsonDocument::parse(text, "fuzz");
    const double value = document.root().as_double(-1, 1e6);
    EXPECT_TRUE(value >= -1 && value <= 1e6);
  });
}

TEST(Fuzz, DeviceFiles) {
  const MoeModel model = testkit::tiny_model();
  const MoeLayer layer = shard_layer(model, draw_batch({}, 8, 2, 3, 1, 0), model.expert_weights, 1, 1);
  const Tally tally = feed(texts(device_files()), json_words(), 4, kMutations, [&](const std::string& text) {
    const HardwareModel hardware = parse_hardware(text, "fuzz.json");
    for (const Strategy& strategy : strategy_catalogue()) {
      const PredictionOrInfeasible result = predict(layer, hardware, {&strategy, {}, "", strategy.name}, {});
      if (const auto* prediction = std::get_if<Prediction>(&result)) {
        EXPECT_EQ(sum(prediction->attribution), prediction->time);
        EXPECT_GE(prediction->time, prediction->bound);
      }
    }
  });
  EXPECT_GT(tally.accepted, kMutations / 40);
  EXPECT_GT(tally.refused, kMutations / 10);
}

TEST(Fuzz, ModelConfigs) {
  const Tally tally = feed(texts(model_files()), json_words(), 5, kMutations, [](const std::string& text) {
    const MoeModel model = parse_model(text, "config.json");
    EXPECT_GE(model.topk, 1);
    const std::int64_t choices = model.experts + model.zero_experts;
    EXPECT_LE(model.topk, choices);
    EXPECT_EQ(static_cast<std::int64_t>(model.decoder_layers.size()), model.layers);
    EXPECT_GT(total_parameters(model).total(), 0);
    const RoutedBatch batch = draw_batch({}, choices, model.topk, 1, 1, 0);
    const MoeLayer layer = shard_layer(model, batch, default_activations(model.expert_weights), 1, 1);
    EXPECT_GT(layer.up_bytes(), Bytes(0));
    EXPECT_GT(layer.down_bytes(), Bytes(0));
  });
  EXPECT_GT(tally.accepted, kMutations / 40);
  EXPECT_GT(tally.refused, kMutations / 40);
}

TEST(Fuzz, Measurements) {
  const std::string row =
      R"({"schema":"moesim.measurement/2","kind":"moe","device":"h200","model":{"name":"m","hidden":2048,)"
      R"("intermediate":768,"experts":128,"topk":8,"gated":true},)"
      R"("tp":1,"ep":1,"weights":"bf16","activations":"bf16","tokens":4,)"
      R"("routing":"uniform","routed_trace":"t.npy","mean_active_experts":28.5,"strategy":"grouped_gemm",)"
      R"("implementation":{"name":"triton","up":{"block_n":32},"swap":false},"launch":"graph","scope":"expert_ffn",)"
      R"("stage":"total","us":61.5,"p90_us":63.0,"sm_mhz":1980,"kernels":[{"name":"k","grid":[8,4],"block":128,)"
      R"("registers":64,"shared_bytes":61440}]})";
  const std::string micro = R"({"schema":"moesim.measurement/2","kind":"micro","benchmark":"read","us":3.5})";
  const std::string path = testing::TempDir() + "fuzz_measurements.jsonl";
  const Tally tally = feed({row, row + "\n" + micro + "\n" + row + "\n", micro}, json_words(), 6, kMutations,
                           [&](const std::string& text) {
                             std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
                             for (const MoeMeasurement& m : read_measurements(path)) {
                               EXPECT_GT(m.us, 0);
                               EXPECT_LE(m.topk, m.experts);
                             }
                           });
  EXPECT_GT(tally.accepted, kMutations / 40);
  EXPECT_GT(tally.refused, kMutations / 10);
}

}  // namespace
}  // namespace moesim::fuzz
