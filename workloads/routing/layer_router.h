// The router of one MoE layer: draws the experts of one token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "workloads/routing/expert_picker.h"
#include "workloads/routing/group_picker.h"
#include "workloads/routing/popularity.h"
#include "workloads/routing/routing_options.h"

namespace moesim {

// What drawing a row needs for itself; one for all layers.
struct RowScratch {
  explicit RowScratch(std::int64_t experts) : held(experts) {}

  HeldExperts held;
  std::vector<GroupArrivals> arrivals;
  std::vector<double> scores;
  std::vector<std::pair<double, std::int32_t>> candidates, group_scores;
};

class LayerRouter {
 public:
  // Layer 0 of a seed has the popularity of `draw_batch` with that seed. `law` is a popularity law, both checked.
  LayerRouter(const Routing& law, const RoutingOptions& options, RouterShape shape, std::uint64_t seed,
              std::int64_t layer);

  // Draws into `row`, [topk]. `previous` is the request's token before, or empty; it keeps a share `keep` of its
  // experts.
  void draw_row(std::int64_t domain, std::span<const std::int32_t> previous, double keep, std::span<std::int32_t> row,
                RowScratch& scratch, RandomStream& stream) const;

  // Moves all popularities on; levels correlate by `correlation` over one move.
  void drift(double correlation);

  [[nodiscard]] const std::vector<double>& weights(std::int64_t domain) const {
    return domains_[static_cast<std::size_t>(domain)].weights;
  }

 private:
  struct Domain {
    std::vector<double> weights;  // mean 1
    ExpertPicker picker;
    std::optional<GroupPicker> group_picker;
  };

  void add_domain(std::vector<double> weights);
  void rebuild();
  [[nodiscard]] double mean_weight(std::size_t expert) const;  // over domains
  void balance(RandomStream stream);
  void learn_bias(double c, RandomStream& stream);
  void select(const Domain& domain, std::span<std::int32_t> row, std::size_t filled, RowScratch& scratch,
              RandomStream& stream) const;
  void allow_groups(std::span<const std::int32_t> kept, RowScratch& scratch) const;
  [[nodiscard]] double group_score(std::span<const double> scores) const;

  RoutingOptions options_;
  RouterShape shape_;
  std::vector<DriftingPopularity> sources_;  // the common one, then each domain's own
  RandomStream drift_stream_;
  std::vector<Domain> domains_;
  std::vector<double> bias_;  // [experts]; empty: none
};

}  // namespace moesim
