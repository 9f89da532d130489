// Config files as published, from a folder that MOESIM_CONFIGS names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "workloads/model_config.h"
#include "workloads/parameter_count.h"

namespace moesim {
namespace {

using testing::HasSubstr;

// "A-config.json" of a model whose file names no routed experts anywhere.
bool names_experts(const std::string& path) {
  const std::string text = read_text_file(path, 64 << 20);
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}) {
    const std::size_t at = text.find(std::string("\"") + key + "\":");
    if (at == std::string::npos) continue;
    const std::size_t value = text.find_first_not_of(" \t\n", text.find(':', at) + 1);
    if (text.compare(value, 4, "null") != 0) return true;
  }
  return false;
}

TEST(PublishedConfigs, EveryMoeFileLoadsAndEveryDenseOneIsRefusedAsDense) {
  const char* folder = std::getenv("MOESIM_CONFIGS");
  if (folder == nullptr) GTEST_SKIP() << "MOESIM_CONFIGS names no folder of *_config.json files";
  int read = 0;
  int dense = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with("_config.json") || path.ends_with("_hf_quant_config.json")) continue;
    if (names_experts(path)) {
      MoeModel model;
      ASSERT_NO_THROW(model = load_model(path)) << path;
      EXPECT_LE(model.topk, model.experts + model.zero_experts) << path;
      EXPECT_FALSE(model.mixers.empty()) << path;
      EXPECT_GT(total_parameters(model).total(), active_parameters(model).total()) << path;
      ++read;
      continue;
    }
    try {
      load_model(path);
      ADD_FAILURE() << path << " names no routed experts and was read";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a dense model: it has no routed experts")) << path;
      ++dense;
    }
  }
  EXPECT_GT(read + dense, 0) << "no *_config.json in " << folder;
  std::cout << read << " read, " << dense << " refused as dense\n";
}

}  // namespace
}  // namespace moesim
