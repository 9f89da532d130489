// Every file of workloads/models, so that data cannot rot.
#include "workloads/model_files.h"

#include <fmt/format.h>
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
  EXPECT_EQ(static_cast<std::int64_t>(model.decoder_layers.size()), model.layers);
  EXPECT_EQ(std::count_if(model.decoder_layers.begin(), model.decoder_layers.end(),
                          [](const DecoderLayer& layer) { return layer.moe; }),
            model.moe_layers);
  EXPECT_FALSE(model.mixers.empty()) << "attention";
  EXPECT_GT(model.vocabulary, 0);
  for (const DecoderLayer& layer : model.decoder_layers) {
    if (layer.mixer) {
      EXPECT_LT(*layer.mixer, model.mixers.size());
    }
  }
}

// The reader's sources name a key that it reads, in quotes.
const std::string& reader_sources() {
  static const std::string kText = [] {
    std::string text;
    for (const char* file : {"model_families", "family_choice", "model_reader", "layer_placement", "mixer_kinds",
                             "mixers", "quantisation_config"}) {
      text += read_text_file(fmt::format(MOESIM_SOURCE_DIR "/workloads/{}.cpp", file), 1 << 20);
    }
    return text;
  }();
  return kText;
}

void expect_read(const JsonView& object, const std::string& key) {
  EXPECT_NE(reader_sources().find("\"" + key + "\""), std::string::npos)
      << object.file() << ": " << object.pointer() << "/" << key << " is read nowhere";
}

// config.json is a foreign format whose unknown keys pass; in our own files a misspelt one must not.
TEST_P(ModelFile, HoldsOnlyKeysThatAreRead) {
  const std::vector<std::string> kNesting = {"moesim",
                                             "text_config",
                                             "ffn_config",
                                             "attn_config",
                                             "linear_attn_config",
                                             "sparse_attention_config",
                                             "attention_other_setting",
                                             "quantization_config"};
  const JsonDocument document = JsonDocument::read_file(GetParam());
  const JsonView root = document.root();
  for (const std::string& key : root.keys()) {
    if (std::find(kNesting.begin(), kNesting.end(), key) == kNesting.end()) expect_read(root, key);
  }
  if (!root.has("text_config")) return;
  const JsonView nested = root.at("text_config");
  for (const std::string& key : nested.keys()) {
    if (std::find(kNesting.begin(), kNesting.end(), key) == kNesting.end()) expect_read(nested, key);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelFile, testing::ValuesIn(files()), test_name);

TEST(ModelFiles, NamesAreThoseOfTheFilesSorted) {
  std::vector<std::string> names;
  for (const std::string& path : files()) names.push_back(std::filesystem::path(path).stem().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(model_names(), names);
  EXPECT_GE(names.size(), 70U);
}

// What was only recalled is a key of the file (or of an object in it), and its value is marked where a model is shown.
TEST(ModelFiles, RecalledValuesAreMarked) {
  int marked = 0;
  for (const std::string& path : files()) {
    const JsonDocument document = JsonDocument::read_file(path);
    if (!document.root().at("moesim").has("recalled")) continue;
    const std::string text = read_text_file(path, 1 << 20);
    const JsonView list = document.root().at("moesim").at("recalled");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = list.at(i).as_string();
      EXPECT_NE(text.find("\"" + key + "\":"), std::string::npos) << path << ": " << key << " is no key";
    }
    ++marked;
  }
  EXPECT_GT(marked, 20);
  const MoeModel grok = load_model("grok-1");
  EXPECT_THAT(grok.origins, testing::Contains(testing::Pair("hidden", "hidden_size, recalled")));
  const MoeModel dbrx = load_model("dbrx");
  EXPECT_THAT(dbrx.origins, testing::Contains(testing::Pair("hidden", "d_model")));
  EXPECT_THAT(dbrx.origins, testing::Contains(testing::Pair("scoring", "rule of dbrx")));
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

}  // namespace
}  // namespace moesim
