// What holds for decode steps of all models, devices and strategies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "hwmodels/loader.h"
#include "tests/testkit/kernels.h"
#include "tests/testkit/step_models.h"
#include "tests/testkit/steps.h"
#include "workloads/step/predict_step.h"
#include "workloads/step/step_memory.h"

namespace moesim {
namespace {

using namespace testkit;

// Every device with every strategy, on one and on several of its kind.
TEST(StepProperty, PartsSumToATimeThatTheBoundDoesNotExceed) {
  const MoeModel model = tiny_step_model();
  for (const std::string& device : device_names()) {
    const HardwareModel hardware = load_hardware(device);
    if (hardware.grid == Grid::kSequential) continue;
    for (const StepShape& shape : {StepShape{.sequences = 1}, StepShape{.sequences = 70, .tp = 2}}) {
      const DecodeStep step = step_of(model, shape);
      for (const Strategy& strategy : strategy_catalogue()) {
        if (strategy.grid == Grid::kSequential) continue;
        const Prediction p = predicted(step, hardware, strategy.name);
        const std::string where = fmt::format("{} {} {}", device, strategy.name, shape.sequences);
        EXPECT_GE(p.time, p.bound) << where;
        EXPECT_EQ(std::accumulate(p.parts.begin(), p.parts.end(), Duration()), p.time) << where;
        EXPECT_EQ(sum(p.attribution), p.time) << where;
        EXPECT_EQ(part_of(p, StepPart::kCollectives) > Duration(), shape.tp > 1) << where;
      }
    }
  }
}

TEST(StepProperty, MemoryDeliversWhatTheClosedFormCounts) {
  const HardwareModel h200 = load_hardware("h200");
  for (const MoeModel& model : {mixtral_model(), deepseek_v3_model(), qwen35_model()}) {
    for (const std::int64_t sequences : {1, 32}) {
      const DecodeStep step = step_of(model, {.sequences = sequences, .tp = 8, .options = {.layers = 8}});
      const Prediction p = predicted(step, h200);
      const Bytes once = p.memory_read - p.memory_reread;
      // Items' bytes are whole numbers, and what a recurrent state's write left in the cache is no miss.
      EXPECT_NEAR(once.as_double() / bytes_read(step).as_double(), 1, 1e-4) << model.name << " " << sequences;
      EXPECT_GE(p.time, p.bound) << model.name << " " << sequences;
    }
  }
}

TEST(StepProperty, MoreContextIsNeverFaster) {
  const HardwareModel h200 = load_hardware("h200");
  for (const MoeModel& model : {mixtral_model(), deepseek_v3_model(), qwen35_model()}) {
    for (const std::int64_t sequences : {1, 16}) {
      Duration last;
      for (const std::int64_t context : {1, 100, 1'000, 4'096, 16'384, 131'072}) {
        const DecodeStep step =
            step_of(model, {.sequences = sequences, .tp = 8, .options = {.context = context, .layers = 4}});
        const Duration time = predicted(step, h200).time;
        EXPECT_GE(time, last) << model.name << " " << sequences << " at " << context;
        last = time;
      }
    }
  }
}

TEST(StepProperty, EachFurtherLayerTakesTime) {
  const MoeModel model = deepseek_v3_model();
  const HardwareModel h200 = load_hardware("h200");
  Duration last;
  for (std::int64_t layers = 1; layers <= 6; ++layers) {
    const Duration time = predicted(step_of(model, {.tp = 8, .options = {.layers = layers}}), h200).time;
    EXPECT_GT(time, last) << layers;
    last = time;
  }
}

TEST(StepProperty, AutoIsTheFastestStrategy) {
  const MoeModel model = tiny_step_model();
  const HardwareModel h200 = load_hardware("h200");
  const DecodeStep step = step_of(model, {.sequences = 4});
  const Prediction best = predicted(step, h200, "auto");
  for (const Strategy& strategy : strategy_catalogue()) {
    if (strategy.grid != h200.grid || strategy.what_if_of != nullptr) continue;
    EXPECT_LE(best.time, predicted(step, h200, strategy.name).time) << strategy.name;
  }
}

// A layer's figures in a step are those of the layer alone, up to what the caches do.
TEST(StepProperty, AStepsMoeLayersTakeAsLongAsAlone) {
  const MoeModel model = mixtral_model();
  const HardwareModel h200 = load_hardware("h200");
  const DecodeStep step = step_of(model, {.options = {.layers = 4}});
  Duration alone;
  for (const MoeLayer& layer : step.moe_layers) {
    alone += std::get<Prediction>(predict(layer, h200, parse_strategy("stream_gemv"))).time;
  }
  const double within = moe_time(predicted(step, h200, "stream_gemv").parts).as_double();
  EXPECT_NEAR(within / alone.as_double(), 1, 0.01);
}

TEST(StepProperty, SameInputSameTimes) {
  const MoeModel model = qwen35_model();
  const HardwareModel b200 = load_hardware("b200");
  const auto once = [&] { return predicted(step_of(model, {.sequences = 3, .tp = 4}), b200); };
  EXPECT_EQ(once().time, once().time);
  EXPECT_EQ(once().parts, once().parts);
}

}  // namespace
}  // namespace moesim
