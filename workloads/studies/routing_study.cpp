#include "workloads/studies/routing_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostKeptBytes = std::int64_t{1} << 30;  // of the previous tokens of all requests and layers

struct Sums {
  double sum = 0, squares = 0;

  void add(double value) {
    sum += value;
    squares += value * value;
  }
  [[nodiscard]] std::optional<double> deviation(double count) const {
    if (count < 2) return std::nullopt;
    return std::sqrt(std::max(0.0, (squares - sum * sum / count) / (count - 1)));
  }
};

double effective_experts(std::span<const std::int64_t> rows) {
  double all = 0, entropy = 0;
  for (const std::int64_t r : rows) all += static_cast<double>(r);
  for (const std::int64_t r : rows) {
    const double share = static_cast<double>(r) / all;
    if (r > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

// Share of a request's picks that its token of the step before had.
class Repeats {
 public:
  Repeats(std::int64_t layers, std::int64_t experts) : previous_(static_cast<std::size_t>(layers)), held_(experts) {}

  void add(std::size_t layer, const RoutedBatch& batch) {
    std::vector<std::int32_t>& before = previous_[layer];
    const auto topk = static_cast<std::size_t>(batch.topk);
    for (std::size_t first = 0; first < before.size(); first += topk) {
      held_.begin_row();
      for (std::size_t i = 0; i < topk; ++i) held_.add(before[first + i]);
      for (std::size_t i = 0; i < topk; ++i) repeated_ += held_.holds(batch.ids[first + i]) ? 1 : 0;
    }
    picks_ += static_cast<std::int64_t>(before.size());
    before = batch.ids;
  }
  void new_trace() {
    for (std::vector<std::int32_t>& before : previous_) before.clear();
  }
  [[nodiscard]] std::optional<double> share() const {
    if (picks_ == 0) return std::nullopt;
    return static_cast<double>(repeated_) / static_cast<double>(picks_);
  }

 private:
  std::vector<std::vector<std::int32_t>> previous_;
  HeldExperts held_;
  std::int64_t repeated_ = 0, picks_ = 0;
};

// The batches of one concurrency, as they come: seed by seed, step by step, layer by layer.
class PointSums {
 public:
  PointSums(std::int64_t layers, std::int64_t experts)
      : meter_(experts), of_layer_(static_cast<std::size_t>(layers)), long_run_(static_cast<std::size_t>(layers)) {
    for (std::vector<std::int64_t>& rows : long_run_) rows.assign(static_cast<std::size_t>(experts), 0);
  }

  void add(std::size_t layer, const RoutedBatch& batch) {
    const Loads& loads = meter_.measure(batch);
    for (std::size_t l = 0; l < kLoadCount; ++l) {
      batches_[l].add(loads[l]);
      of_layer_[layer][l].add(loads[l]);
      of_seed_[l] += loads[l];
    }
    for (std::size_t b = 0; b < kHistogramBins; ++b) histogram_[b] += static_cast<double>(meter_.histogram()[b]);
    for (const std::int32_t id : batch.ids) ++long_run_[layer][static_cast<std::size_t>(id)];
    ++count_;
    ++count_of_seed_;
  }

  void end_seed() {
    for (std::size_t l = 0; l < kLoadCount; ++l) seeds_[l].add(of_seed_[l] / static_cast<double>(count_of_seed_));
    of_seed_ = {};
    count_of_seed_ = 0;
    ++seed_count_;
    for (std::vector<std::int64_t>& rows : long_run_) {
      effective_.push_back(effective_experts(rows));
      std::fill(rows.begin(), rows.end(), 0);
    }
  }

  [[nodiscard]] RoutingPoint point(std::int64_t tokens) const {
    RoutingPoint point;
    point.tokens = tokens;
    point.batches = count_;
    const auto count = static_cast<double>(count_);
    const auto layers = static_cast<double>(of_layer_.size());
    for (std::size_t l = 0; l < kLoadCount; ++l) {
      LoadSummary& summary = point.loads[l];
      summary.mean = batches_[l].sum / count;
      summary.batch_deviation = batches_[l].deviation(count).value_or(0);
      Sums layer_means;
      for (const auto& layer : of_layer_) layer_means.add(layer[l].sum * layers / count);
      summary.layer_deviation = layer_means.deviation(layers);
      summary.seed_deviation = seeds_[l].deviation(static_cast<double>(seed_count_));
    }
    for (std::size_t b = 0; b < kHistogramBins; ++b) point.histogram[b] = histogram_[b] / count;
    Sums long_run;
    for (const double effective : effective_) long_run.add(effective);
    point.long_run_mean = long_run.sum / static_cast<double>(effective_.size());
    point.long_run_least = *std::min_element(effective_.begin(), effective_.end());
    point.long_run_most = *std::max_element(effective_.begin(), effective_.end());
    return point;
  }

 private:
  LoadMeter meter_;
  std::array<Sums, kLoadCount> batches_, seeds_;
  std::vector<std::array<Sums, kLoadCount>> of_layer_;
  Loads of_seed_{};
  std::array<double, kHistogramBins> histogram_{};
  std::vector<std::vector<std::int64_t>> long_run_;
  std::vector<double> effective_;
  std::int64_t count_ = 0, count_of_seed_ = 0, seed_count_ = 0;
};

RoutingPoint trace_point(const RoutingStudyRequest& request) {
  PointSums sums(1, request.router.experts);
  for (const RoutedBatch& batch : request.trace) {
    sums.add(0, batch);
    if (request.sink) request.sink(batch);
  }
  sums.end_seed();
  return sums.point(request.trace.front().tokens);
}

void check_memory(const RoutingStudyRequest& request, std::int64_t tokens) {
  if (request.steps == 1) return;
  const std::int64_t bytes = request.layers * tokens * request.router.topk * std::int64_t{sizeof(std::int32_t)};
  if (bytes <= kMostKeptBytes) return;
  throw InputError({"--concurrency", "", fmt::format("{} tokens in {} layers", tokens, request.layers),
                    "fewer: the experts of the step before would take more than 1 GiB", ""});
}

}  // namespace

RoutingStudy run_routing_study(const RoutingStudyRequest& request) {
  RoutingStudy study;
  if (request.law.kind == RoutingKind::kTrace) {
    study.points.push_back(trace_point(request));
    return study;
  }
  const std::size_t all =
      request.concurrencies.size() * static_cast<std::size_t>(request.samples * request.steps * request.layers);
  std::size_t done = 0;
  for (const std::int64_t tokens : request.concurrencies) {
    check_memory(request, tokens);
    PointSums sums(request.layers, request.router.experts);
    Repeats repeats(request.layers, request.router.experts);
    for (std::int64_t sample = 0; sample < request.samples; ++sample) {
      RoutingGenerator generator(request.law, request.options, {request.layers, tokens, request.router},
                                 request.seed + static_cast<std::uint64_t>(sample));
      repeats.new_trace();
      for (std::int64_t step = 0; step < request.steps; ++step) {
        for (std::size_t layer = 0; layer < static_cast<std::size_t>(request.layers); ++layer) {
          const RoutedBatch& batch = generator.next();
          sums.add(layer, batch);
          if (request.steps > 1) repeats.add(layer, batch);
          if (request.sink) request.sink(batch);
          ++done;
        }
        if (request.progress) request.progress(done, all);
      }
      sums.end_seed();
    }
    study.points.push_back(sums.point(tokens));
    study.points.back().repeated = repeats.share();
  }
  return study;
}

}  // namespace moesim
