// Parameters of the models that come with moesim against published counts (tests/data/parameter_counts.json).
#include "workloads/parameter_count.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "sim/io/strict_json.h"
#include "workloads/model_config.h"

namespace moesim {
namespace {

constexpr std::int64_t kMax = std::int64_t{1} << 62;

std::vector<std::string> texts_of(const JsonView& row, const char* key) {
  std::vector<std::string> texts;
  if (!row.has(key)) return texts;
  for (std::size_t i = 0; i < row.at(key).size(); ++i) texts.push_back(row.at(key).at(i).as_string());
  return texts;
}

bool holds(const std::vector<std::string>& texts, const char* text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

struct Published {
  std::string model;
  std::int64_t total = 0, total_rounded_to = 0;
  bool mtp = false, mtp_embeddings = false;  // what the total counts beside ours
  std::int64_t active = 0, active_rounded_to = 0;
  bool active_embeddings = true, active_head = true;
  std::string total_source, active_source;
};

std::vector<Published> read_fixture() {
  const JsonDocument document = JsonDocument::read_file(MOESIM_SOURCE_DIR "/tests/data/parameter_counts.json");
  const JsonView rows = document.root().at("models");
  std::vector<Published> published;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const JsonView row = rows.at(i);
    row.only_keys({"model", "total", "total_rounded_to", "total_counts", "total_source", "active", "active_rounded_to",
                   "active_without", "active_source"});
    Published p;
    p.model = row.at("model").as_string();
    p.total = row.at("total").as_int(1, kMax);
    if (row.has("total_rounded_to")) p.total_rounded_to = row.at("total_rounded_to").as_int(1, kMax);
    p.mtp = holds(texts_of(row, "total_counts"), "mtp");
    p.mtp_embeddings = holds(texts_of(row, "total_counts"), "mtp_embeddings");
    p.total_source = row.at("total_source").as_string();
    if (row.has("active")) {
      p.active = row.at("active").as_int(1, kMax);
      p.active_rounded_to = row.at("active_rounded_to").as_int(1, kMax);
      p.active_source = row.at("active_source").as_string();
    }
    p.active_embeddings = !holds(texts_of(row, "active_without"), "embeddings");
    p.active_head = !holds(texts_of(row, "active_without"), "head");
    published.push_back(p);
  }
  return published;
}

// One more decoder layer like the last, a projection of two hidden states to one, three norms; DeepSeek's files repeat
// embeddings and head.
std::int64_t mtp_parameters(MoeModel model, bool embeddings) {
  const std::int64_t before = total_parameters(model).total();
  model.decoder_layers.push_back(model.decoder_layers.back());
  const std::int64_t layer = total_parameters(model).total() - before;
  return layer + 2 * model.hidden * model.hidden + 3 * model.hidden +
         (embeddings ? 2 * model.vocabulary * model.hidden : 0);
}

std::int64_t comparable_total(const MoeModel& model, const Published& p) {
  return total_parameters(model).total() + (p.mtp ? mtp_parameters(model, p.mtp_embeddings) : 0);
}

std::int64_t comparable_active(const MoeModel& model, const Published& p) {
  const ParameterCount count = active_parameters(model);
  return count.total() - (p.active_embeddings ? 0 : count.embeddings) - (p.active_head ? 0 : count.head);
}

double percent(std::int64_t computed, std::int64_t published) {
  return 100.0 * static_cast<double>(computed - published) / static_cast<double>(published);
}

// Models more than 1 % off, and why.
const std::vector<std::string> kTotalsOff = {
    "step-3.7-flash",     // the published total counts a vision tower and three dense prediction layers
    "ernie-4.5-21b-a3b",  // the card cuts 21.8 off
    "kimi-k2.5",          // the card's "1T" has one digit; Kimi-K2, whose shape it has, agrees to five
};

TEST(ParameterCount, TotalsAgreeWithPublishedOnes) {
  int near = 0;
  for (const Published& p : read_fixture()) {
    const std::int64_t computed = comparable_total(load_model(p.model), p);
    const double off = percent(computed, p.total);
    if (std::abs(off) <= 1) ++near;
    std::cout << fmt::format("total  {:<32} {:>17} published {:>17}{} {:+.3f} %\n", p.model, computed, p.total,
                             p.total_rounded_to > 0 ? " (rounded)" : "", off);
    const bool named = std::find(kTotalsOff.begin(), kTotalsOff.end(), p.model) != kTotalsOff.end();
    EXPECT_EQ(std::abs(off) > 1, named) << p.model << " " << off << " %";
    if (named && p.total_rounded_to > 0) {
      EXPECT_LT(std::abs(computed - p.total), p.total_rounded_to) << p.model;
    }
  }
  EXPECT_GE(near, 45);
}

// Cards round or cut off: a whole unit of the last digit.
TEST(ParameterCount, ActiveOnesAgreeWithPublishedOnes) {
  int compared = 0;
  for (const Published& p : read_fixture()) {
    if (p.active == 0) continue;
    const std::int64_t computed = comparable_active(load_model(p.model), p);
    std::cout << fmt::format("active {:<32} {:>17} published {:>17} {:+.3f} %\n", p.model, computed, p.active,
                             percent(computed, p.active));
    EXPECT_TRUE(std::abs(computed - p.active) < p.active_rounded_to || std::abs(percent(computed, p.active)) <= 1)
        << p.model << ": " << computed << " against " << p.active;
    ++compared;
  }
  EXPECT_GE(compared, 45);
}

// What the Hub counts, tensor by tensor.
TEST(ParameterCount, IsExactWhereEveryTensorIsKnown) {
  const std::vector<Published> fixture = read_fixture();
  for (const char* name :
       {"mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-coder-480b-a35b", "gpt-oss-20b",
        "gpt-oss-120b", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "deepseek-moe-16b", "qwen3-next-80b-a3b",
        "qwen1.5-moe-a2.7b", "minimax-m2", "olmoe-1b-7b", "phi-3.5-moe", "jamba-v0.1", "dbrx"}) {
    const auto published =
        std::find_if(fixture.begin(), fixture.end(), [&](const Published& p) { return p.model == name; });
    ASSERT_NE(published, fixture.end()) << name;
    EXPECT_EQ(total_parameters(load_model(name)).total(), published->total) << name;
  }
}

TEST(ParameterCount, FixtureNamesModelsOnceWithSources) {
  std::vector<std::string> names;
  for (const Published& p : read_fixture()) {
    names.push_back(p.model);
    EXPECT_GT(p.total_source.size(), 5U) << p.model;
    EXPECT_EQ(p.active == 0, p.active_source.empty()) << p.model;
  }
  EXPECT_GE(names.size(), 45U);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

// By hand: 2 layers, one of them dense, of a model in which every part is there.
TEST(ParameterCount, CountsEachPartOnce) {
  MoeModel model;
  model.hidden = 8;
  model.expert_intermediate = 4;
  model.experts = 6;
  model.zero_experts = 3;
  model.topk = 3;
  model.latent = 2;
  model.expert_bias = true;
  model.shared_experts = 1;
  model.shared_intermediate = 5;
  model.shared_gate = true;
  model.vocabulary = 10;
  model.small_parameters = 8;
  Mixer mixer;
  mixer.before = {{.name = "qkv", .n = 7, .k = 8, .count = 2, .split = Split::kRows, .format = {}}};
  mixer.after = {{.name = "o", .n = 8, .k = 3, .count = 1, .split = Split::kColumns, .format = {}}};
  mixer.small_parameters = 11;
  model.mixers = {mixer};
  DecoderLayer dense;
  dense.mixer = 0;
  dense.dense_intermediate = 9;
  DecoderLayer moe;
  moe.moe = true;
  moe.small_parameters = 16;
  model.decoder_layers = {dense, moe};
  model.layers = 2;
  model.moe_layers = 1;

  const ParameterCount total = total_parameters(model);
  EXPECT_EQ(total.embeddings, 80);
  EXPECT_EQ(total.head, 80);
  EXPECT_EQ(total.mixers, 2 * 7 * 8 + 8 * 3);
  EXPECT_EQ(total.dense, 3 * 8 * 9);
  EXPECT_EQ(total.routers, 9 * 8);
  EXPECT_EQ(total.routed_experts, 6 * (3 * 2 * 4 + 2 * 4 + 2));
  EXPECT_EQ(total.shared_experts, 3 * 8 * 5 + 8);
  EXPECT_EQ(total.latent, 2 * 8 * 2);
  EXPECT_EQ(total.small, 8 + 11 + 16);
  EXPECT_EQ(active_parameters(model).routed_experts, 2 * (3 * 2 * 4 + 2 * 4 + 2)) << "3 of 9 picks, 6 of them real";

  model.tied_embeddings = true;
  model.decoder_layers[1].hash_routed = true;
  model.gated = false;
  EXPECT_EQ(total_parameters(model).head, 0);
  EXPECT_EQ(total_parameters(model).routers, 0);
  EXPECT_EQ(total_parameters(model).routed_experts, 6 * (2 * 2 * 4 + 4 + 2));
}

}  // namespace
}  // namespace moesim
