// Every file of workloads/models, so that data cannot rot.
#include "workloads/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "sim/io/strict_json.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

std::vector<std::string> files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MOESIM_SOURCE_DIR "/workloads/models")) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class ModelFile : public testing::TestWithParam<std::string> {};

TEST_P(ModelFile, LoadsAndSaysWhereItsValuesAreFrom) {
  const std::string name = std::filesystem::path(GetParam()).stem().string();
  const MoeModel model = load_model(GetParam());
  EXPECT_EQ(model.name, name);
  EXPECT_GT(model.source.size(), 20U) << "a source that can be found";
  EXPECT_EQ(load_model(name).experts, model.experts) << "the copy compiled in";
}

// config.json is a foreign format whose unknown keys pass; in our own files a misspelt one must not.
TEST_P(ModelFile, HoldsOnlyKeysThatAreRead) {
  const std::vector<std::string> kRead = {"moesim",
                                          "model_type",
                                          "dtype",
                                          "torch_dtype",
                                          "hidden_size",
                                          "num_hidden_layers",
                                          "num_experts",
                                          "num_local_experts",
                                          "n_routed_experts",
                                          "num_experts_per_tok",
                                          "moe_intermediate_size",
                                          "intermediate_size",
                                          "shared_expert_intermediate_size",
                                          "shared_intermediate_size",
                                          "n_shared_experts",
                                          "first_k_dense_replace",
                                          "moe_layer_freq",
                                          "decoder_sparse_step",
                                          "mlp_only_layers",
                                          "n_group",
                                          "topk_group",
                                          "topk_method",
                                          "scoring_func",
                                          "norm_topk_prob",
                                          "routed_scaling_factor",
                                          "quantization_config"};
  const JsonDocument document = JsonDocument::read_file(GetParam());
  std::vector<std::string> outer = kRead;
  outer.emplace_back("text_config");
  EXPECT_NO_THROW(document.root().only_keys(outer));
  if (document.root().has("text_config")) {
    EXPECT_NO_THROW(document.root().at("text_config").only_keys(kRead));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelFile, testing::ValuesIn(files()), test_name);

TEST(ModelFiles, NamesAreThoseOfTheFilesSorted) {
  std::vector<std::string> names;
  for (const std::string& path : files()) names.push_back(std::filesystem::path(path).stem().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(model_names(), names);
  EXPECT_GE(names.size(), 12U);
}

// Published totals of parameters: Qwen3.5-397B-A17B has 386.5 billion in its routed experts (512 experts of three
// 4096 x 1024 matrices in 60 layers), and 7.55 billion of them are active for a token.
TEST(ModelFiles, Qwen35ExpertParametersAddUp) {
  const MoeModel model = load_model("qwen3.5-397b-a17b");
  const std::int64_t expert = 3 * model.hidden * model.expert_intermediate;
  EXPECT_NEAR(static_cast<double>(model.moe_layers * model.experts * expert), 386.5e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(model.moe_layers * model.topk * expert), 7.55e9, 0.01e9);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_TRUE(model.norm_topk);
}

// Names say the totals: the routed experts are most of them and cannot be more (attention, embeddings and shared
// experts are the rest).
TEST(ModelFiles, RoutedExpertsAreMostOfTheNamedTotal) {
  struct Total {
    const char* name;
    double billions;
  };
  for (const Total& total :
       {Total{"qwen3-30b-a3b", 30.5}, Total{"qwen3-235b-a22b", 235}, Total{"qwen3-next-80b-a3b", 80},
        Total{"qwen3.5-122b-a10b", 122}, Total{"qwen3.5-35b-a3b", 35}, Total{"qwen1.5-moe-a2.7b", 14.3},
        Total{"qwen2-57b-a14b", 57.4}, Total{"mixtral-8x7b", 46.7}, Total{"mixtral-8x22b", 141},
        Total{"deepseek-v2", 236}, Total{"deepseek-v3", 671}, Total{"kimi-k2", 1026}, Total{"gpt-oss-20b", 20.9},
        Total{"gpt-oss-120b", 116.8}, Total{"olmoe-1b-7b", 6.9}}) {
    const MoeModel model = load_model(total.name);
    const double routed =
        static_cast<double>(model.moe_layers * model.experts * 3 * model.hidden * model.expert_intermediate) / 1e9;
    EXPECT_GT(routed, 0.85 * total.billions) << total.name;
    EXPECT_LT(routed, total.billions) << total.name;
  }
}

}  // namespace
}  // namespace moesim
