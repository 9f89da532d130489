#include "workloads/studies/ladder.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
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

// A strategy's runs that leave out nothing more than the request does, then the order's first effect too, and so on.
struct Climb {
  const StrategyChoice* choice;
  std::vector<EffectSet> without;
  std::vector<LadderRun> runs;

  Climb(const StrategyChoice& of, EffectSet request_leaves_out, const Order& order)
      : choice(&of), without{request_leaves_out}, runs(order.size() + 1) {
    for (const Effect effect : order) {
      without.push_back(without.back());
      without.back().add(effect);
    }
  }
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
  const DecodeStep sample = sample_of(request, concurrency, 0);
  const StrategyChoice* slower = &one;
  const StrategyChoice* faster = &other;
  std::vector<Duration> times;
  for (const StrategyChoice* choice : {slower, faster}) {
    const PredictionOrInfeasible whole = predict_sample(sample, request, *choice, request.options.simulate);
    if (const auto* reason = std::get_if<Infeasible>(&whole)) return Infeasible{choice->text + ": " + reason->reason};
    times.push_back(std::get<Prediction>(whole).time);
  }
  if (times[0] < times[1]) std::swap(slower, faster);

  const Order order = all_effects();
  const EffectSet base = request.options.simulate.without;
  std::vector<Climb> climbs = {{*slower, base, order},
                               {*faster, base, order},
                               {*slower, base, reversed(order)},
                               {*faster, base, reversed(order)}};
  const std::size_t each = order.size() + 1;
  tbb::parallel_for(std::size_t{0}, climbs.size() * each, [&](std::size_t i) {
    Climb& climb = climbs[i / each];
    const std::size_t left_out = i % each;
    SimulateOptions simulate = request.options.simulate;
    simulate.without = climb.without[left_out];
    const PredictionOrInfeasible run = predict_sample(sample, request, *climb.choice, simulate);
    climb.runs[left_out] = {left_out, std::get<Prediction>(run).time};
  });

  Ladder ladder;
  ladder.concurrency = concurrency;
  ladder.slower = slower->text;
  ladder.faster = faster->text;
  ladder.slower_time = climbs[0].runs.front().time;
  ladder.faster_time = climbs[1].runs.front().time;
  ladder.rungs = rungs_of(order, climbs[0].runs, climbs[1].runs);
  ladder.reverse_rungs = rungs_of(reversed(order), climbs[2].runs, climbs[3].runs);
  ladder.slower_runs = std::move(climbs[0].runs);
  ladder.faster_runs = std::move(climbs[1].runs);
  ladder.slower_reverse_runs = std::move(climbs[2].runs);
  ladder.faster_reverse_runs = std::move(climbs[3].runs);
  return ladder;
}

}  // namespace moesim
