// Config files as published, from a folder that MOESIM_CONFIGS names: each is read, or refused with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "sim/io/input_error.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(PublishedConfigs, AreReadOrRefusedWithTheReason) {
  const char* folder = std::getenv("MOESIM_CONFIGS");
  if (folder == nullptr) GTEST_SKIP() << "MOESIM_CONFIGS names no folder of *_config.json files";
  // Python writes Infinity, which JSON does not have.
  const auto kNotJson = HasSubstr("expected valid JSON");
  int read = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with("_config.json")) continue;
    try {
      const MoeModel model = load_model(path);
      EXPECT_FALSE(model.family.empty());
      EXPECT_LE(model.topk, model.experts);
      ++read;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), AnyOf(HasSubstr("model_type"), HasSubstr("no key '"), kNotJson)) << path;
      std::cout << error.what() << '\n';
      ++refused;
    }
  }
  EXPECT_GT(read + refused, 0) << "no *_config.json in " << folder;
  std::cout << read << " read, " << refused << " refused\n";
}

}  // namespace
}  // namespace moesim
