#include "workloads/studies/ladder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/units/check.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

using Order = std::array<Effect, kEffectCount>;

Order reversed(Order order) {
  std::reverse(order.begin(), order.end());
  return order;
}

// A strategy's runs in the stated order and in the reverse one.
struct Climb {
  std::vector<LadderRun> runs, reverse_runs;
};

class Climber {
 public:
  Climber(const ConcurrencyRequest& request, std::int64_t concurrency) : request_(request) {
    for (std::int64_t i = 0; i < sample_count(request); ++i) {
      samples_.push_back(sample_of(request, concurrency, static_cast<std::size_t>(i)));
    }
  }

  [[nodiscard]] std::int64_t samples() const { return static_cast<std::int64_t>(samples_.size()); }

  [[nodiscard]] std::variant<Climb, Infeasible> climb(const StrategyChoice& choice, const Order& order) const {
    SimulateOptions all_out = request_.options.simulate;
    for (const Effect effect : order) all_out.without.add(effect);
    const auto first = mean_time(choice, request_.options.simulate);
    if (const auto* reason = std::get_if<Infeasible>(&first)) return *reason;
    const Duration whole = std::get<Duration>(first);
    const Duration rest = std::get<Duration>(mean_time(choice, all_out));
    return Climb{runs(choice, order, whole, rest), runs(choice, reversed(order), whole, rest)};
  }

 private:
  [[nodiscard]] std::variant<Duration, Infeasible> mean_time(const StrategyChoice& choice,
                                                             const SimulateOptions& simulate) const {
    Duration sum;
    for (const DecodeStep& sample : samples_) {
      PredictionOrInfeasible predicted = predict_sample(sample, request_, choice, simulate);
      if (auto* reason = std::get_if<Infeasible>(&predicted)) return std::move(*reason);
      sum += std::get<Prediction>(predicted).time;
    }
    return Duration(std::llround(sum.as_double() / static_cast<double>(samples_.size())));
  }

  [[nodiscard]] std::vector<LadderRun> runs(const StrategyChoice& choice, const Order& order, Duration whole,
                                            Duration rest) const {
    SimulateOptions simulate = request_.options.simulate;
    std::vector<LadderRun> runs = {{0, whole}};
    while (runs.size() < order.size()) {
      simulate.without.add(order[runs.size() - 1]);
      runs.push_back({runs.size(), std::get<Duration>(mean_time(choice, simulate))});
    }
    runs.push_back({runs.size(), rest});
    return runs;
  }

  const ConcurrencyRequest& request_;
  std::vector<DecodeStep> samples_;
};

std::vector<LadderRung> rungs_of(const Order& order, const std::vector<LadderRun>& slower,
                                 const std::vector<LadderRun>& faster) {
  std::vector<LadderRung> rungs;
  for (std::size_t i = 0; i < order.size(); ++i) {
    rungs.push_back(
        {std::string(effect_name(order[i])), slower[i].time - slower[i + 1].time, faster[i].time - faster[i + 1].time});
  }
  rungs.push_back({"", slower.back().time, faster.back().time});
  return rungs;
}

}  // namespace

LadderOrInfeasible ladder_between(const ConcurrencyRequest& request, std::int64_t concurrency,
                                  const StrategyChoice& one, const StrategyChoice& other) {
  MOESIM_CHECK(one.strategy != nullptr && other.strategy != nullptr);
  const Order order = all_effects();
  const Climber climber(request, concurrency);
  Ladder ladder;
  ladder.concurrency = concurrency;
  ladder.samples = climber.samples();
  std::vector<std::pair<std::string, Climb>> climbs;
  for (const StrategyChoice* choice : {&one, &other}) {
    std::variant<Climb, Infeasible> climb = climber.climb(*choice, order);
    if (const auto* reason = std::get_if<Infeasible>(&climb)) return Infeasible{choice->text + ": " + reason->reason};
    climbs.emplace_back(choice->text, std::get<Climb>(std::move(climb)));
  }
  if (climbs[0].second.runs.front().time < climbs[1].second.runs.front().time) std::swap(climbs[0], climbs[1]);
  auto& [slower_name, slower] = climbs[0];
  auto& [faster_name, faster] = climbs[1];
  ladder.slower = slower_name;
  ladder.faster = faster_name;
  ladder.slower_time = slower.runs.front().time;
  ladder.faster_time = faster.runs.front().time;
  ladder.rungs = rungs_of(order, slower.runs, faster.runs);
  ladder.reverse_rungs = rungs_of(reversed(order), slower.reverse_runs, faster.reverse_runs);
  ladder.slower_runs = std::move(slower.runs);
  ladder.faster_runs = std::move(faster.runs);
  ladder.slower_reverse_runs = std::move(slower.reverse_runs);
  ladder.faster_reverse_runs = std::move(faster.reverse_runs);
  return ladder;
}

}  // namespace moesim
