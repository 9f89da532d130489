// Grids: the order of their points, files, and models of equal size.
#include "workloads/studies/grid.h"

#include <gmock/gmock.h>

#include <optional>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_at(const AxisGrid& grid, std::size_t point) {
  std::vector<std::string> texts;
  for (const AxisValue& value : grid.values(point)) texts.push_back(value.text);
  return texts;
}

std::string error_of(const std::string& text) {
  try {
    parse_grid(text, "grid.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Grid, LastAxisVariesFastest) {
  const AxisGrid grid = parse_grid(
      R"({"schema": "moesim.grid/1", "vary": {"device": ["h200", "b200"], "experts": "64,128", "tp": 2}})", "g");
  ASSERT_EQ(grid.points(), 4U);
  EXPECT_THAT(texts_at(grid, 0), ElementsAre("h200", "64", "2"));
  EXPECT_THAT(texts_at(grid, 1), ElementsAre("h200", "128", "2"));
  EXPECT_THAT(texts_at(grid, 2), ElementsAre("b200", "64", "2"));
  EXPECT_THAT(texts_at(grid, 3), ElementsAre("b200", "128", "2"));
}

TEST(Grid, FileSaysWhatFlagsDo) {
  const AxisGrid grid =
      parse_grid(R"({"schema": "moesim.grid/1", "keep": "total", "strategies": ["grouped_gemm:block_m=32"],
      "vary": {"experts": [64, "128"], "hbm.bandwidth": "3..8TB/s:6", "match": ["duplicates=5%@3,zipf"]}})",
                 "g");
  EXPECT_EQ(grid.keep, Keep::kTotal);
  EXPECT_THAT(grid.strategies, ElementsAre("grouped_gemm:block_m=32"));
  EXPECT_EQ(grid.points(), 12U);
  EXPECT_EQ(grid.axes[1].values, parse_axis("hbm.bandwidth=3..8TB/s:6").values);
  EXPECT_EQ(grid.axes[2].values.front().text, "duplicates=5%@3,zipf");  // one piece of a list
}

TEST(Grid, WrongFilesNameThePlace) {
  const std::string begin = R"({"schema": "moesim.grid/1", )";
  EXPECT_THAT(error_of(begin + R"("vary": {"experts": [64, true]}})"), HasSubstr("grid.json: /vary/experts/1"));
  EXPECT_THAT(error_of(begin + R"("vary": {"expert": [64]}})"), AllOf(HasSubstr("grid.json"), HasSubstr("'experts'?")));
  EXPECT_THAT(error_of(begin + R"("vary": {"experts": []}})"), HasSubstr("no value"));
  EXPECT_THAT(error_of(begin + R"("vary": {"experts": [8.5]}})"), HasSubstr("whole number"));
  EXPECT_THAT(error_of(begin + R"("vary": {"tp": 1, "tp": 2}})"), HasSubstr("tp"));
  EXPECT_THAT(error_of(begin + R"("vary": {}, "axes": 1})"), HasSubstr("axes"));
  EXPECT_THAT(error_of(begin + R"("vary": {}, "keep": "activ"})"), HasSubstr("did you mean 'active'?"));
  EXPECT_THAT(error_of(R"({"schema": "moesim.grid/2", "vary": {}})"), HasSubstr("moesim.grid/1"));
  EXPECT_THAT(error_of(begin + R"("vary": {"experts": "1-9999", "tp": "1-9999", "ep": "1-9999"}})"),
              HasSubstr("at most 1000000000"));
}

// ----------------------------------------------------------------------------------------------------------- --keep

constexpr std::nullopt_t kSame = std::nullopt;
const ExpertShape kQwen397{.experts = 512, .topk = 10, .intermediate = 1024};

ExpertShape kept(const VariedShape& varied, Keep keep) {
  const auto shape = rescale(kQwen397, varied, keep);
  EXPECT_TRUE(std::holds_alternative<ExpertShape>(shape)) << std::get<std::string>(shape);
  return std::get<ExpertShape>(shape);
}

std::string refused(const VariedShape& varied, Keep keep) {
  const auto shape = rescale(kQwen397, varied, keep);
  return std::holds_alternative<std::string>(shape) ? std::get<std::string>(shape) : "";
}

TEST(Keep, NothingChangesOnlyWhatIsVaried) { EXPECT_EQ(kept({64, 7, 100}, Keep::kNothing), (ExpertShape{64, 7, 100})); }

TEST(Keep, ActiveHoldsTopkTimesWidth) {
  EXPECT_EQ(kept({kSame, 20, kSame}, Keep::kActive), (ExpertShape{512, 20, 512}));
  EXPECT_EQ(kept({kSame, kSame, 2048}, Keep::kActive), (ExpertShape{512, 5, 2048}));
  EXPECT_EQ(kept({64, kSame, kSame}, Keep::kActive), (ExpertShape{64, 10, 1024}));  // nothing to rescale
  EXPECT_EQ(kept({64, 5, kSame}, Keep::kActive), (ExpertShape{64, 5, 2048}));
}

TEST(Keep, TotalHoldsExpertsTimesWidth) {
  EXPECT_EQ(kept({64, kSame, kSame}, Keep::kTotal), (ExpertShape{64, 10, 8192}));
  EXPECT_EQ(kept({1024, kSame, kSame}, Keep::kTotal), (ExpertShape{1024, 10, 512}));
  EXPECT_EQ(kept({kSame, kSame, 512}, Keep::kTotal), (ExpertShape{1024, 10, 512}));
  EXPECT_EQ(kept({kSame, 3, kSame}, Keep::kTotal), (ExpertShape{512, 3, 1024}));
}

TEST(Keep, BothScaleTheGrain) {
  EXPECT_EQ(kept({1024, kSame, kSame}, Keep::kBoth), (ExpertShape{1024, 20, 512}));
  EXPECT_EQ(kept({kSame, 5, kSame}, Keep::kBoth), (ExpertShape{256, 5, 2048}));
  EXPECT_EQ(kept({kSame, kSame, 2048}, Keep::kBoth), (ExpertShape{256, 5, 2048}));
}

TEST(Keep, WidthsAreMultiplesOf128AndOffByFivePercentAtMost) {
  EXPECT_EQ(kept({96, kSame, kSame}, Keep::kTotal), (ExpertShape{96, 10, 5504}));  // 5461.3
  EXPECT_THAT(refused({2800, kSame, kSame}, Keep::kTotal), HasSubstr("total parameters would change by -31.6 %"));
  EXPECT_THAT(refused({64, kSame, kSame}, Keep::kBoth),
              HasSubstr("keeps both: active parameters would change by -20.0 %"));
  EXPECT_THAT(refused({kSame, kSame, 4096}, Keep::kActive), HasSubstr("active parameters would change by +20.0 %"));
}

TEST(Keep, AxesThatLeaveNothingToRescaleAreRefused) {
  EXPECT_TRUE(cannot_keep(false, false, false, Keep::kTotal));
  EXPECT_TRUE(cannot_keep(true, true, false, Keep::kBoth));
  EXPECT_TRUE(cannot_keep(false, true, true, Keep::kActive));
  EXPECT_TRUE(cannot_keep(true, false, true, Keep::kTotal));
  EXPECT_FALSE(cannot_keep(true, true, false, Keep::kTotal));
  EXPECT_FALSE(cannot_keep(false, false, false, Keep::kNothing));
}

}  // namespace
}  // namespace moesim
