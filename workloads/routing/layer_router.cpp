// What it models: a router whose logit of expert e for a token is ln p(e) + g(e), p the popularity (mean 1), g standard
// Gumbel noise, independent per token and expert. With t = exp(-logit), which is exponential with rate p(e):
//   softmax score  1/t (over a sum that is the same for all experts)      sigmoid score  1 / (1 + t)
//   sqrt(softplus) score  sqrt(ln(1 + 1/t))
// Plain top-k of any of them is successive sampling by popularity (`ExpertPicker`); only groups and a bias
// change that:
//   groups: a group's score is the sum of its two best (sigmoid, sqrt(softplus): DeepSeek-V3's noaux_tc) or its best
//   (softmax: DeepSeek-V2's group_limited_greedy); the token's experts come from the best groups
//   (`GroupPicker`; with a bias all scores are made, about 10 us a token with 512 experts);
//   bias: selection is by score + bias (auxiliary-loss-free balancing, DeepSeek-V3). Where about a share k/E of scores
//   passes the selection's threshold, loads are even if each expert's score passes it k/E of the time, so the bias that
//   balances is minus the score's upper k/E quantile: t below c / p with c = -ln(1 - k/E). `bias` scales it.
//   For softmax, whose spread differs by expert, that is where learning from drawn tokens begins.
// A domain's popularity is purity x its own + (1 - purity) x the common one; the bias balances the mean over domains, so
// that loads are even in the long run and skewed in a batch of one domain, as in models trained with global balancing.
// It is set once: where popularities drift they leave it behind.
// Stickiness: a token keeps Binomial(k, keep) experts of its predecessor, at random, and draws the others anew among the
// rest: so it repeats `keep` of them, and by chance some more. The law of a token alone stays successive sampling
// (`ExpertPicker::shuffle`); with groups or a bias the kept experts are simply held, and hot ones lose some percent.
// What it leaves out: experts that go together in a token or from layer to layer; logits whose noise differs by expert;
// how the sum in a softmax varies from token to token, which matters where a bias is added.
#include "workloads/routing/layer_router.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sim/units/integer.h"

namespace moesim {
namespace {

// Popularities of a layer: one common, then one per domain.
constexpr std::uint64_t kPopularitiesPerLayer = 1024;
constexpr std::uint64_t kDriftPopularity = kPopularitiesPerLayer - 1;
constexpr std::uint64_t kBiasPopularity = kPopularitiesPerLayer - 2;

std::vector<double> with_mean_one(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight *= static_cast<double>(weights.size()) / sum;
  return weights;
}

}  // namespace

LayerRouter::LayerRouter(const Routing& law, const RoutingOptions& options, RouterShape shape, std::uint64_t seed,
                         std::int64_t layer)
    : options_(options),
      shape_(shape),
      drift_stream_(
          popularity_stream(seed, static_cast<std::uint64_t>(layer) * kPopularitiesPerLayer + kDriftPopularity)) {
  const std::int64_t origin = options.layers_alike ? 0 : layer;
  const std::int64_t own = options.domains > 1 ? options.domains : 0;
  for (std::int64_t source = 0; source <= own; ++source) {
    const std::uint64_t index =
        static_cast<std::uint64_t>(origin) * kPopularitiesPerLayer + static_cast<std::uint64_t>(source);
    RandomStream stream = popularity_stream(seed, index);
    std::vector<double> weights = with_mean_one(popularity_weights(law, shape.experts, stream));
    sources_.emplace_back(std::move(weights), stream);
  }
  if (options.layers_alike) drift_stream_ = popularity_stream(seed, kDriftPopularity);
  rebuild();
  if (options.bias > 0) {
    balance(popularity_stream(seed, static_cast<std::uint64_t>(origin) * kPopularitiesPerLayer + kBiasPopularity));
  }
}

void LayerRouter::add_domain(std::vector<double> weights) {
  ExpertPicker picker(weights);
  std::optional<GroupPicker> group_picker;
  if (options_.groups > 1 && options_.bias == 0) group_picker.emplace(weights, options_);
  domains_.push_back({std::move(weights), std::move(picker), std::move(group_picker)});
}

void LayerRouter::rebuild() {
  domains_.clear();
  const std::vector<double>& common = sources_.front().weights();
  if (sources_.size() == 1) add_domain(common);
  for (std::size_t d = 1; d < sources_.size(); ++d) {
    std::vector<double> weights = sources_[d].weights();
    for (std::size_t e = 0; e < weights.size(); ++e) {
      weights[e] = options_.domain_purity * weights[e] + (1 - options_.domain_purity) * common[e];
    }
    add_domain(std::move(weights));
  }
}

double LayerRouter::mean_weight(std::size_t expert) const {
  double sum = 0;
  for (const Domain& domain : domains_) sum += domain.weights[expert];
  return sum / static_cast<double>(domains_.size());
}

void LayerRouter::balance(RandomStream stream) {
  const double share = static_cast<double>(shape_.topk) / static_cast<double>(shape_.experts);
  const double c = -std::log1p(-share);
  bias_.resize(static_cast<std::size_t>(shape_.experts));
  for (std::size_t e = 0; e < bias_.size(); ++e) bias_[e] = -router_score(options_.scoring, c / mean_weight(e));
  if (options_.scoring == Scoring::kSoftmax) learn_bias(c, stream);
  for (double& bias : bias_) bias *= options_.bias;
}

// Steps of 1/round towards even loads, as far as a softmax score's quantile moves with them: an expert p times as popular
// needs p times the bias.
void LayerRouter::learn_bias(double c, RandomStream& stream) {
  constexpr int kRounds = 24;
  constexpr std::int64_t kPicksPerExpert = 12;  // of a round
  const std::int64_t tokens = divide_up(kPicksPerExpert * shape_.experts, shape_.topk);
  RowScratch scratch(shape_.experts);
  std::vector<std::int32_t> row(static_cast<std::size_t>(shape_.topk));
  std::vector<double> load(bias_.size());
  for (int round = 1; round <= kRounds; ++round) {
    std::fill(load.begin(), load.end(), 0);
    for (std::int64_t token = 0; token < tokens; ++token) {
      scratch.held.begin_row();
      select(domains_[static_cast<std::size_t>(token) % domains_.size()], row, 0, scratch, stream);
      for (const std::int32_t expert : row) load[static_cast<std::size_t>(expert)] += 1.0 / kPicksPerExpert;
    }
    for (std::size_t e = 0; e < bias_.size(); ++e) bias_[e] += (1 - load[e]) * mean_weight(e) / c / round;
  }
}

void LayerRouter::drift(double correlation) {
  for (DriftingPopularity& source : sources_) source.move(correlation, drift_stream_);
  rebuild();
}

void LayerRouter::draw_row(std::int64_t domain, std::span<const std::int32_t> previous, double keep,
                           std::span<std::int32_t> row, RowScratch& scratch, RandomStream& stream) const {
  const Domain& of = domains_[static_cast<std::size_t>(domain)];
  const bool plain = options_.groups == 1 && options_.bias == 0;
  scratch.held.begin_row();
  std::size_t filled = 0;
  if (keep > 0 && !previous.empty()) {
    std::copy(previous.begin(), previous.end(), row.begin());
    of.picker.shuffle(row, plain, stream);
    for (std::size_t i = 0; i < row.size(); ++i) filled += stream.unit() <= keep ? 1 : 0;
    for (std::size_t i = 0; i < filled; ++i) scratch.held.add(row[i]);
  }
  if (plain) {
    of.picker.fill(row, filled, scratch.held, stream);
  } else if (of.group_picker) {
    of.group_picker->fill(row, filled, scratch.held, scratch.arrivals, stream);
  } else {
    select(of, row, filled, scratch, stream);
  }
}

void LayerRouter::select(const Domain& domain, std::span<std::int32_t> row, std::size_t filled, RowScratch& scratch,
                         RandomStream& stream) const {
  constexpr double kShortestTime = 0x1p-53;  // where the draw is 1 exactly
  std::vector<double>& scores = scratch.scores;
  scores.resize(domain.weights.size());
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const double t = std::max(kShortestTime, -std::log(stream.unit())) / domain.weights[e];
    scores[e] = router_score(options_.scoring, t);
  }
  for (std::size_t e = 0; e < bias_.size(); ++e) scores[e] += bias_[e];
  if (options_.groups > 1) allow_groups(row.first(filled), scratch);

  std::vector<std::pair<double, std::int32_t>>& candidates = scratch.candidates;
  candidates.clear();
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const auto expert = static_cast<std::int32_t>(e);
    if (!std::isinf(scores[e]) && !scratch.held.holds(expert)) candidates.emplace_back(scores[e], expert);
  }
  const auto wanted = static_cast<std::ptrdiff_t>(row.size() - filled);
  std::partial_sort(candidates.begin(), candidates.begin() + wanted, candidates.end(), std::greater<>());
  for (std::ptrdiff_t i = 0; i < wanted; ++i) row[filled++] = candidates[static_cast<std::size_t>(i)].second;
}

// Scores of experts outside the allowed groups become minus infinity. The groups of kept experts are allowed first.
void LayerRouter::allow_groups(std::span<const std::int32_t> kept, RowScratch& scratch) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto size = static_cast<std::size_t>(shape_.experts / options_.groups);
  const std::span<double> scores(scratch.scores);
  std::vector<std::pair<double, std::int32_t>>& groups = scratch.group_scores;
  groups.clear();
  for (std::int32_t g = 0; g < options_.groups; ++g) {
    groups.emplace_back(group_score(scores.subspan(static_cast<std::size_t>(g) * size, size)), g);
  }
  for (const std::int32_t expert : kept) groups[static_cast<std::size_t>(expert) / size].first = kInfinity;
  std::sort(groups.begin(), groups.end(), std::greater<>());
  for (auto group = groups.begin() + options_.topk_groups; group != groups.end(); ++group) {
    const std::span<double> shut = scores.subspan(static_cast<std::size_t>(group->second) * size, size);
    std::fill(shut.begin(), shut.end(), -kInfinity);
  }
}

double LayerRouter::group_score(std::span<const double> scores) const {
  double best = -std::numeric_limits<double>::infinity(), second = best;
  for (const double s : scores) {
    second = std::max(second, std::min(best, s));
    best = std::max(best, s);
  }
  return options_.scoring == Scoring::kSoftmax || scores.size() == 1 ? best : best + second;
}

}  // namespace moesim
