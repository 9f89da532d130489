// Grids of studies: files, and axes as the command line has them.
#include "workloads/studies/grid.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/fuzz/mutate.h"

namespace moesim::fuzz {
namespace {

// What is accepted can be walked.
void walk(const AxisGrid& grid) {
  ASSERT_GE(grid.points(), 1U);
  for (const std::size_t point : {std::size_t{0}, grid.points() / 2, grid.points() - 1}) {
    const std::vector<AxisValue> values = grid.values(point);
    ASSERT_EQ(values.size(), grid.axes.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_FALSE(values[i].text.empty());
      // Each value is one that could have been typed.
      EXPECT_EQ(axis_of(grid.axes[i].name, {values[i].text}).values.front(), values[i]);
    }
  }
}

TEST(Fuzz, Grids) {
  const Tally tally =
      feed({R"({"schema": "moesim.grid/1", "keep": "total", "strategies": ["grouped_gemm:block_m=32"],
                "vary": {"experts": [64, "128"], "hbm.bandwidth": "3..8TB/s:6:geometric", "concurrency": "1-8,16"}})",
            R"({"schema": "moesim.grid/1", "vary": {"routing": ["uniform", "zipf:0.6"], "weights": "bf16,fp8",
                "clock": ["boost", "1.5GHz"], "grouped_gemm.block_m": 16, "routed_scale": 2.5, "gated": "true"}})"},
           json_words(), 41, kMutations / 4, [](const std::string& text) { walk(parse_grid(text, "fuzz.json")); });
  EXPECT_GT(tally.accepted, kMutations / 400);
  EXPECT_GT(tally.refused, kMutations / 40);
}

TEST(Fuzz, Axes) {
  feed({"hbm.bandwidth=3..8TB/s:6", "experts=64..1024:5:geometric,96", "concurrency=1-8,16", "clock=boost,1..2GHz:3",
        "routing=uniform,zipf:0.6,trace:FILE", "match=duplicates=5%@3",
        "strategy=grouped_gemm:block_m=32,swap_ab=1,auto", "weights=int4:32,fp8", "domain_purity=0.5",
        "seed=2147483647"},
       {"..", "-", ":", ",", "=", "geometric", "1e308", "nan", "inf", "TB/s", "9223372036854775807", "-1", "0"}, 42,
       kMutations, [](const std::string& text) {
         AxisGrid grid;
         add_axis(grid, parse_axis(text), "--vary");
         walk(grid);
       });
}

}  // namespace
}  // namespace moesim::fuzz
