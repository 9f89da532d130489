#include "workloads/routing/group_picker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kShortestTime = 0x1p-53;  // where a draw is 1 exactly
constexpr double kLeastShare = 1e-15;      // what rounding may leave of nothing

}  // namespace

double router_score(Scoring scoring, double t) {
  switch (scoring) {
    case Scoring::kSoftmax:
      return 1 / t;
    case Scoring::kSigmoid:
      return 1 / (1 + t);
    case Scoring::kSqrtSoftplus:
      return std::sqrt(std::log1p(1 / t));
  }
  return 0;
}

GroupPicker::GroupPicker(const std::vector<double>& weights, const RoutingOptions& options)
    : size_(weights.size() / static_cast<std::size_t>(options.groups)),
      topk_groups_(static_cast<std::size_t>(options.topk_groups)),
      scoring_(options.scoring) {
  const std::span<const double> all(weights);
  for (std::size_t first = 0; first < weights.size(); first += size_) {
    const std::span<const double> group = all.subspan(first, size_);
    groups_.emplace_back(group, static_cast<std::int32_t>(first));
    weights_.push_back(std::accumulate(group.begin(), group.end(), 0.0));
  }
}

// `time` is that of the arrival before, then of the one drawn.
void GroupPicker::draw(GroupArrivals& arrivals, double& time, std::int32_t& expert, HeldExperts& held,
                       RandomStream& stream) const {
  if (arrivals.arrived == size_) {
    time = kNever;
    expert = -1;
    return;
  }
  const double rate = weights_[arrivals.group] * std::max(kLeastShare, 1 - arrivals.held_share);
  time += std::max(kShortestTime, -std::log(stream.unit())) / rate;
  expert = groups_[arrivals.group].next(arrivals.held_share, held, stream);
  ++arrivals.arrived;
}

void GroupPicker::advance(GroupArrivals& arrivals, HeldExperts& held, RandomStream& stream) const {
  if (arrivals.second_expert < 0) {
    draw(arrivals, arrivals.time, arrivals.expert, held, stream);
    return;
  }
  arrivals.time = arrivals.second_time;
  arrivals.expert = arrivals.second_expert;
  arrivals.second_expert = -1;
}

void GroupPicker::fill(std::span<std::int32_t> row, std::size_t filled, HeldExperts& held,
                       std::vector<GroupArrivals>& arrivals, RandomStream& stream) const {
  arrivals.assign(groups_.size(), {});
  for (std::size_t i = 0; i < filled; ++i) {
    GroupArrivals& group = arrivals[static_cast<std::size_t>(row[i]) / size_];
    group.score = kNever;
    group.held_share += groups_[static_cast<std::size_t>(row[i]) / size_].share(row[i]);
    ++group.arrived;
  }
  for (std::size_t g = 0; g < arrivals.size(); ++g) {
    GroupArrivals& group = arrivals[g];
    group.group = g;
    draw(group, group.time, group.expert, held, stream);
    group.score += router_score(scoring_, group.time);
    if (scoring_ == Scoring::kSoftmax) continue;
    group.second_time = group.time;
    draw(group, group.second_time, group.second_expert, held, stream);
    group.score += router_score(scoring_, group.second_time);
  }
  const auto allowed = arrivals.begin() + static_cast<std::ptrdiff_t>(topk_groups_);
  std::partial_sort(arrivals.begin(), allowed, arrivals.end(), [](const GroupArrivals& a, const GroupArrivals& b) {
    return std::tuple(-a.score, a.group) < std::tuple(-b.score, b.group);
  });
  for (std::size_t i = filled; i < row.size(); ++i) {
    const auto next = std::min_element(arrivals.begin(), allowed,
                                       [](const GroupArrivals& a, const GroupArrivals& b) { return a.time < b.time; });
    MOESIM_CHECK(next->expert >= 0);
    row[i] = next->expert;
    advance(*next, held, stream);
  }
}

}  // namespace moesim
