#include "traces/routed_trace_writer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "tests/testkit/run_command.h"
#include "traces/routed_trace.h"
#include "traces/routing_formats/sidecar.h"
#include "workloads/router.h"

namespace moesim {
namespace {

std::vector<RoutedBatch> batches_of(std::int64_t experts, int count) {
  std::vector<RoutedBatch> batches;
  for (int i = 0; i < count; ++i) {
    batches.push_back(draw_batch(parse_routing("uniform"), experts, 4, 3, 1, static_cast<std::uint64_t>(i)));
  }
  return batches;
}

TEST(RoutedTraceWriter, WhatIsWrittenIsReadBack) {
  const std::string folder = temp_folder();
  for (const std::int64_t experts : {512, 40'000}) {  // int16, int32
    const std::string path = folder + std::to_string(experts) + ".npy";
    const std::vector<RoutedBatch> batches = batches_of(experts, 6);
    RoutedTraceWriter writer(path, {.steps = 2, .layers = 3, .tokens = 3, .topk = 4, .experts = experts}, "--out");
    for (const RoutedBatch& batch : batches) writer.add(batch);
    EXPECT_FALSE(std::filesystem::exists(path)) << "before it is whole";
    writer.finish({.model = "m", .source = "a test", .routing = "uniform", .seed = 7});
    const std::vector<RoutedBatch> read = read_routed_trace(path, experts);
    ASSERT_EQ(read.size(), batches.size());
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].ids, batches[i].ids);

    const auto sidecar = nlohmann::json::parse(read_text_file(trace_sidecar_path(path), 1 << 20));
    EXPECT_EQ(sidecar.at("schema"), "moesim.routing/1");
    EXPECT_EQ(sidecar.at("model"), "m");
    EXPECT_EQ(sidecar.at("experts"), experts);
    EXPECT_EQ(sidecar.at("source"), "a test");
    EXPECT_EQ(sidecar.at("seed"), 7);
    EXPECT_EQ(sidecar.at("routing"), "uniform");
    EXPECT_EQ(sidecar.at("shape"), nlohmann::json({2, 3, 3, 4}));
  }
}

TEST(RoutedTraceWriter, AnInterruptedOneLeavesNothingAndKeepsTheOldFile) {
  const std::string folder = temp_folder();
  const std::string path = temp_file("trace.npy", "old");
  {
    RoutedTraceWriter writer(path, {.steps = 2, .layers = 1, .tokens = 3, .topk = 4, .experts = 16}, "--out");
    writer.add(batches_of(16, 1).front());
  }
  EXPECT_EQ(read_text_file(path, 1 << 20), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(RoutedTraceWriter, WrongPathsNameTheFlag) {
  const std::string folder = temp_folder();
  std::filesystem::create_directory(folder + "a.npy");
  for (const std::string& wrong : {folder + "trace.bin", folder + "none/trace.npy", folder + "a.npy"}) {
    try {
      RoutedTraceWriter(wrong, {.steps = 1, .layers = 1, .tokens = 3, .topk = 4, .experts = 16}, "--out");
      FAIL() << wrong;
    } catch (const InputError& error) {
      EXPECT_EQ(error.problem().file, "--out");
    }
  }
}

}  // namespace
}  // namespace moesim
