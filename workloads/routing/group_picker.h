// Group-limited top-k without a bias: draws distinct experts of one token from its best groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/routing/expert_picker.h"
#include "workloads/routing/routing_options.h"

namespace moesim {

// The score of an expert whose time is t = exp(-logit).
double router_score(Scoring scoring, double t);

// The experts of one group in order of their times, as far as they were asked for.
struct GroupArrivals {
  std::size_t group = 0;
  double score = 0;
  double time = 0;          // of the next one
  std::int32_t expert = 0;  // the next one
  double second_time = 0;   // where two were drawn for the score
  std::int32_t second_expert = -1;
  double held_share = 0;  // of the group's popularity: those that arrived, and kept ones
  std::size_t arrived = 0;
};

// The law is that of scoring all experts; the work is about two arrivals for each group and one for each pick. Times of a
// group's experts are exponential with their popularities as rates, so the first comes after an exponential time with
// the rate of the group's sum, is each expert by popularity, and the next follows alike without it.
class GroupPicker {
 public:
  GroupPicker(const std::vector<double>& weights, const RoutingOptions& options);

  // Fills row[filled...) with experts of the best groups, those of row[0, filled) among them, that `held` does not hold.
  void fill(std::span<std::int32_t> row, std::size_t filled, HeldExperts& held, std::vector<GroupArrivals>& arrivals,
            RandomStream& stream) const;

 private:
  void draw(GroupArrivals& arrivals, double& time, std::int32_t& expert, HeldExperts& held, RandomStream& stream) const;
  void advance(GroupArrivals& arrivals, HeldExperts& held, RandomStream& stream) const;

  std::size_t size_;  // of a group
  std::size_t topk_groups_;
  Scoring scoring_;
  std::vector<ExpertPicker> groups_;
  std::vector<double> weights_;  // of each group
};

}  // namespace moesim
