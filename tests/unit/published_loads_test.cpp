// The loads of a published benchmark's routings (benchmark tables of ai-dynamo/aiconfigurator, redrawn by an
// independent implementation), where its table is at hand: MOESIM_MEASURED names the folder that holds
// aiconfigurator/synthetic-routing-expected-load.csv.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "workloads/router.h"

namespace moesim {
namespace {

constexpr double kRounding = 0.005;  // of a table with two decimals
constexpr int kDraws = 1000;         // a rare second row of an expert has a spread too
constexpr std::array<std::int64_t, 3> kTileRows = {16, 64, 128};

struct PublishedLoad {
  std::string distribution;
  std::int64_t experts = 0, topk = 0, tokens = 0, draws = 0;
  double distinct = 0, distinct_deviation = 0, max_rows = 0;
  std::array<double, 3> tiles{};
};

std::vector<PublishedLoad> read_table(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<PublishedLoad> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream cells(line);
    PublishedLoad row;
    cells >> row.distribution >> row.experts >> row.topk >> row.tokens >> row.draws >> row.distinct >>
        row.distinct_deviation >> row.max_rows;
    for (double& tiles : row.tiles) cells >> tiles;
    EXPECT_TRUE(cells) << line;
    rows.push_back(row);
  }
  return rows;
}

// Distinct experts, largest load, row tiles.
using Figures = std::array<double, 2 + kTileRows.size()>;

Figures figures_of(const RoutedBatch& batch) {
  const std::vector<std::int64_t> rows = rows_per_expert(batch);
  Figures figures{};
  for (const std::int64_t r : rows) {
    figures[0] += r > 0 ? 1 : 0;
    figures[1] = std::max(figures[1], static_cast<double>(r));
    for (std::size_t m = 0; m < kTileRows.size(); ++m) {
      figures[2 + m] += static_cast<double>((r + kTileRows[m] - 1) / kTileRows[m]);
    }
  }
  return figures;
}

Figures published(const PublishedLoad& row) {
  return {row.distinct, row.max_rows, row.tiles[0], row.tiles[1], row.tiles[2]};
}

std::vector<PublishedLoad> table() {
  const char* folder = std::getenv("MOESIM_MEASURED");
  if (folder == nullptr) return {};
  return read_table(std::string(folder) + "/aiconfigurator/synthetic-routing-expected-load.csv");
}

TEST(PublishedLoads, BalancedExactly) {
  const std::vector<PublishedLoad> rows = table();
  if (rows.empty()) GTEST_SKIP() << "MOESIM_MEASURED is not set";
  int compared = 0;
  for (const PublishedLoad& row : rows) {
    if (row.distribution != "balanced") continue;
    ++compared;
    const RoutedBatch batch = draw_batch(parse_routing("balanced"), row.experts, row.topk, row.tokens, 1, 0);
    EXPECT_EQ(figures_of(batch), published(row)) << fmt::format("{}/{}, {} tokens", row.topk, row.experts, row.tokens);
  }
  EXPECT_GT(compared, 200);
}

TEST(PublishedLoads, PowerLawWithinItsStandardErrors) {
  const std::vector<PublishedLoad> rows = table();
  if (rows.empty()) GTEST_SKIP() << "MOESIM_MEASURED is not set";
  int compared = 0, within_three = 0;
  double worst = 0;
  for (const PublishedLoad& row : rows) {
    const std::string prefix = "power_law_";
    if (!row.distribution.starts_with(prefix)) continue;
    const Routing law = parse_routing("power_law:" + row.distribution.substr(prefix.size()));
    Figures sum{}, squares{};
    for (int sample = 0; sample < kDraws; ++sample) {
      const Figures figures =
          figures_of(draw_batch(law, row.experts, row.topk, row.tokens, 7, static_cast<std::uint64_t>(sample)));
      for (std::size_t f = 0; f < figures.size(); ++f) {
        sum[f] += figures[f];
        squares[f] += figures[f] * figures[f];
      }
    }
    const Figures expected = published(row);
    for (std::size_t f = 0; f < expected.size(); ++f) {
      const double mean = sum[f] / kDraws;
      const double variance = std::max(0.0, (squares[f] - kDraws * mean * mean) / (kDraws - 1));
      const double theirs = f == 0 ? row.distinct_deviation * row.distinct_deviation : variance;
      const double standard_error = std::sqrt(variance / kDraws + theirs / static_cast<double>(row.draws));
      const double beyond = std::max(0.0, std::abs(mean - expected[f]) - kRounding);
      // A deviation of 0 on both sides leaves only the rounding.
      const double errors = beyond == 0 ? 0 : beyond / std::max(standard_error, 1e-12);
      ++compared;
      within_three += errors <= 3 ? 1 : 0;
      worst = std::max(worst, errors);
      EXPECT_LE(errors, 5) << fmt::format("{} {}/{}, {} tokens, figure {}: {} against {}", row.distribution, row.topk,
                                          row.experts, row.tokens, f, mean, expected[f]);
    }
  }
  EXPECT_GE(within_three, 0.99 * compared);
  RecordProperty("compared", compared);
  RecordProperty("within_three", within_three);
  fmt::print("{} of {} within three standard errors, the worst at {:.2f}\n", within_three, compared, worst);
}

}  // namespace
}  // namespace moesim
