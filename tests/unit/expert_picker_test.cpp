// Draws without replacement by popularity: inclusion probabilities against closed forms.
#include "workloads/routing/expert_picker.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "workloads/router.h"
#include "workloads/routing/layer_router.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

std::vector<double> inclusion_shares(const std::vector<double>& weights, std::size_t topk, int rows) {
  const ExpertPicker picker(weights);
  HeldExperts held(static_cast<std::int64_t>(weights.size()));
  RandomStream stream(3);
  std::vector<std::int32_t> row(topk);
  std::vector<double> shares(weights.size(), 0);
  for (int i = 0; i < rows; ++i) {
    held.begin_row();
    picker.fill(row, 0, held, stream);
    for (const std::int32_t expert : row) shares[static_cast<std::size_t>(expert)] += 1.0 / rows;
  }
  return shares;
}

// With top-2: P(i) = p_i + sum over j of p_j p_i / (1 - p_j).
std::vector<double> top_two(const std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  std::vector<double> expected;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double p = weights[i] / sum;
    expected.push_back(p);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (j != i) expected.back() += weights[j] / sum * p / (1 - weights[j] / sum);
    }
  }
  return expected;
}

TEST(ExpertPicker, InclusionFollowsSuccessiveSampling) {
  constexpr int kRows = 400'000;
  // The second set is drawn by adding up the rest: after the first pick most of the popularity is held.
  for (const std::vector<double>& weights :
       {std::vector<double>{5, 3, 1, 0.5, 0.5, 2, 1}, std::vector<double>{1, 0.05, 0.02, 1e-3, 0.03}}) {
    const std::vector<double> expected = top_two(weights);
    const std::vector<double> drawn = inclusion_shares(weights, 2, kRows);
    for (std::size_t e = 0; e < weights.size(); ++e) {
      const double standard_error = std::sqrt(expected[e] * (1 - expected[e]) / kRows);
      EXPECT_NEAR(drawn[e], expected[e], 4.5 * standard_error) << "expert " << e;
    }
  }
}

TEST(ExpertPicker, EvenWeightsAreUniform) {
  constexpr int kRows = 100'000;
  for (const double share : inclusion_shares(std::vector<double>(60, 1.0), 4, kRows)) {
    EXPECT_NEAR(share, 4.0 / 60, 5 * std::sqrt(4.0 / 60 / kRows));
  }
}

TEST(ExpertPicker, AllExpertsArePickedWhereARowNeedsThem) {
  const std::vector<double> shares = inclusion_shares({1, 1e-200, 1e-290, 1e-9}, 4, 100);
  for (const double share : shares) EXPECT_NEAR(share, 1, 1e-9);
}

// The fast draws have the law of `draw_batch`, with the same popularity: every expert is picked alike often.
TEST(ExpertPicker, SameInclusionAsDrawBatch) {
  constexpr std::int64_t kTokens = 60'000;
  constexpr std::uint64_t kSeed = 5;
  for (const char* text : {"zipf:1", "lognormal:1.5", "dirichlet:0.3", "uniform"}) {
    const Routing law = parse_routing(text);
    const RouterShape shape{64, 6};
    const std::vector<std::int64_t> slow =
        rows_per_expert(draw_batch(law, shape.experts, shape.topk, kTokens, kSeed, 0));
    const LayerRouter router(law, {}, shape, kSeed, 0);
    RoutedBatch batch{.topk = shape.topk, .experts = shape.experts, .ids = {}};
    RowScratch scratch(shape.experts);
    RandomStream stream(9);
    draw_fresh_batch(router, {}, kTokens, batch, scratch, stream);
    const std::vector<std::int64_t> fast = rows_per_expert(batch);
    for (std::size_t e = 0; e < slow.size(); ++e) {
      const double share = static_cast<double>(slow[e] + fast[e]) / (2.0 * kTokens);
      const double standard_error = std::sqrt(2 * share * (1 - share) * kTokens);
      EXPECT_NEAR(static_cast<double>(fast[e]), static_cast<double>(slow[e]), 4.5 * standard_error + 1)
          << text << ", expert " << e;
    }
  }
}

}  // namespace
}  // namespace moesim
