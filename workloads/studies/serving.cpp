#include "workloads/studies/serving.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/units/check.h"
#include "workloads/step/predict_step.h"
#include "workloads/step/step_memory.h"

namespace moesim {
namespace {

constexpr double kRequestStep = 0.1;           // requests a second: the search's resolution
constexpr std::int64_t kMostLoad = 1'000'000;  // steps of it
constexpr std::int64_t kCheckedBelow = 2;      // loads below the result of a search

// What one device holds for sequences; `count` 0: weights alone.
StepMemory memory_with(const ConcurrencyRequest& request, std::int64_t count, std::int64_t context) {
  DecodeStep step{request.model, request.step, count, request.tp, 1, request.activations, {}, {{count, 1, context}}};
  step.ep = request.ep;
  if (count > 0) step.mixed.front().count = count * request.ep;
  return memory_of(step);
}

Duration first_token_time(const TurnRecord& turn) { return *turn.first_token - turn.arrival; }

std::optional<Duration> per_token_time(const TurnRecord& turn) {
  if (turn.output < 2) return std::nullopt;
  return Duration((*turn.finish - *turn.first_token).value() / (turn.output - 1));
}

bool missed(const TurnRecord& turn, const ServingGoals& goals) {
  if (!turn.finish) return true;
  if (goals.latency && *turn.finish - turn.arrival > *goals.latency) return true;
  if (goals.first_token && turn.first_token && first_token_time(turn) > *goals.first_token) return true;
  const std::optional<Duration> each = per_token_time(turn);
  return goals.per_token && each && *each > *goals.per_token;
}

class Study {
 public:
  Study(const ServingRequest& request, StepTimes& times)
      : request_(request),
        setup_(request.setup),
        times_(times),
        room_(cache_room(request.engine, setup_.memory_share)) {}

  [[nodiscard]] StrategyServing of(const std::string& name, std::optional<std::size_t> candidate) const {
    StrategyServing result;
    result.strategy = name;
    if (most_sessions() == 0) {
      result.infeasible = no_room();
    } else if (setup_.loads.empty()) {
      search(result, candidate);
    } else {
      for (const double load : setup_.loads) {
        std::optional<ServerRun> run = add_point(result, candidate, load, false);
        if (result.infeasible) return result;
        if (load == setup_.loads.back()) result.run = std::move(run);
      }
      result.shown = result.points.size() - 1;
    }
    return result;
  }

 private:
  [[nodiscard]] TimePoint horizon() const { return TimePoint(setup_.horizon.value()); }
  [[nodiscard]] TimePoint warm_up() const { return TimePoint(setup_.warm_up.value()); }
  [[nodiscard]] bool counted(TimePoint arrival) const { return arrival >= warm_up() && arrival < horizon(); }
  [[nodiscard]] double load_of(std::int64_t k) const {
    return setup_.kind == ServingKind::kRequests ? static_cast<double>(k) * kRequestStep : static_cast<double>(k);
  }

  [[nodiscard]] std::vector<Session> sessions_of(double load) const {
    const std::uint64_t seed = request_.engine.seed;
    switch (setup_.kind) {
      case ServingKind::kClosedStreams:
        return closed_streams(setup_.stream, std::llround(load), horizon(), seed);
      case ServingKind::kOpenStreams:
        return open_streams(setup_.stream, load, setup_.holding, horizon(), seed);
      case ServingKind::kRequests:
        return open_requests(load, setup_.prompt, setup_.output, horizon(), seed);
      case ServingKind::kTrace:
        return request_.trace;
    }
    return {};
  }

  [[nodiscard]] ServerLimits limits() const {
    ServerLimits limits;
    limits.batch = setup_.batch;
    if (setup_.most_sessions) limits.sessions = *setup_.most_sessions;
    limits.context = setup_.context_limit;
    limits.cache = room_ * request_.engine.ep;
    limits.session_bytes = [this](std::int64_t context) { return session_bytes(request_.engine, context); };
    limits.admission = setup_.kind == ServingKind::kOpenStreams ? Admission::kReject : Admission::kQueue;
    limits.host = setup_.host;
    return limits;
  }

  // How many sessions of the whole context fit.
  [[nodiscard]] std::int64_t most_sessions() const {
    const Bytes each = session_bytes(request_.engine, setup_.context_limit);
    const Bytes room = room_ * request_.engine.ep;
    const std::int64_t fit = each > Bytes(0) ? room.value() / each.value() : kMostLoad;
    return std::min(fit, setup_.most_sessions.value_or(kMostLoad));
  }

  [[nodiscard]] Infeasible no_room() const {
    constexpr double kGiga = 1e9;
    return {fmt::format("a session of {} tokens takes {:.1f} GB, beside weights of {:.1f} GB {:.1f} GB of {} are left",
                        setup_.context_limit, session_bytes(request_.engine, setup_.context_limit).as_double() / kGiga,
                        memory_with(request_.engine, 0, 1).weights().as_double() / kGiga, room_.as_double() / kGiga,
                        request_.engine.hardware.name)};
  }

  // Adds the figures of one load to the result; the run, or none where it is infeasible.
  std::optional<ServerRun> add_point(StrategyServing& result, std::optional<std::size_t> candidate, double load,
                                     bool stop_early) const {
    if (setup_.kind == ServingKind::kClosedStreams && load > static_cast<double>(most_sessions())) {
      result.infeasible =
          Infeasible{fmt::format("{} sessions: {} of {} tokens fit into the memory left for caches, or are admitted",
                                 load, most_sessions(), setup_.context_limit)};
      return std::nullopt;
    }
    const std::vector<Session> sessions = sessions_of(load);
    std::int64_t counted_turns = 0;
    for (const Session& session : sessions) {
      for (const Turn& turn : session.turns) counted_turns += counted(turn.arrival) ? 1 : 0;
    }
    std::int64_t misses = 0;
    const double most = setup_.goals.most_missed * static_cast<double>(counted_turns);
    const auto too_many = [&](const TurnRecord& turn) {
      if (counted(turn.arrival) && missed(turn, setup_.goals)) ++misses;
      return static_cast<double>(misses) > most;
    };
    const ServerLimits server = limits();
    ServerRun run = run_server(
        sessions, server,
        [&](std::size_t step, const std::vector<StepSequences>& batch) { return times_.time(candidate, step, batch); },
        stop_early ? std::function<bool(const TurnRecord&)>(too_many) : nullptr);
    if (run.infeasible) {
      result.infeasible = run.infeasible;
      return std::nullopt;
    }
    result.points.push_back(figures_of(run, load, static_cast<std::int64_t>(sessions.size()), server.cache));
    return run;
  }

  [[nodiscard]] ServingFigures figures_of(const ServerRun& run, double load, std::int64_t sessions, Bytes cache) const {
    ServingFigures f;
    f.load = load;
    f.stopped = run.stopped;
    f.sessions = sessions;
    f.turned_away = run.turned_away;
    std::vector<Duration> latency, first, each, steps;
    for (const TurnRecord& turn : run.turns) {
      if (!counted(turn.arrival) || (run.stopped && !turn.finish)) continue;
      ++f.turns;
      if (missed(turn, setup_.goals)) ++f.misses;
      if (!turn.finish) continue;
      latency.push_back(*turn.finish - turn.arrival);
      if (turn.first_token) first.push_back(first_token_time(turn));
      if (const std::optional<Duration> time = per_token_time(turn)) each.push_back(*time);
    }
    f.steps_by_strategy.assign(times_.candidates().size(), 0);
    const TimePoint end = run.stopped ? last_end(run) : horizon();
    Duration busy;
    std::int64_t in = 0, out = 0, sequences = 0, tokens = 0;
    for (const StepRecord& step : run.steps) {
      steps.push_back(step.time);
      ++f.steps_by_sequences[step.sequences()];
      ++f.steps_by_strategy[step.strategy];
      sequences += step.sequences();
      tokens += step.tokens();
      const TimePoint from = std::max(step.start, warm_up()), to = std::min(step.start + step.time, end);
      if (to <= from) continue;
      busy += to - from;
      in += step.prompt_tokens;
      out += step.decodes;
    }
    // The first token of a turn comes of the step that ends its prompt.
    for (const TurnRecord& turn : run.turns) {
      if (turn.first_token && *turn.first_token > warm_up() && *turn.first_token <= end) ++out;
    }
    if (end > warm_up()) {
      const double seconds = to_seconds(end - warm_up());
      f.utilisation = to_seconds(busy) / seconds;
      f.tokens_in = static_cast<double>(in) / seconds;
      f.tokens_out = static_cast<double>(out) / seconds;
    }
    if (!run.steps.empty()) {
      f.mean_sequences = static_cast<double>(sequences) / static_cast<double>(run.steps.size());
      f.mean_tokens = static_cast<double>(tokens) / static_cast<double>(run.steps.size());
    }
    f.latency = time_quantiles(std::move(latency));
    f.first_token = time_quantiles(std::move(first));
    f.per_token = time_quantiles(std::move(each));
    f.step = time_quantiles(std::move(steps));
    f.most_sessions = run.most_sessions;
    f.cache_share = cache > Bytes(0) ? run.most_cache.as_double() / cache.as_double() : 0;
    add_little(f, run);
    return f;
  }

  static TimePoint last_end(const ServerRun& run) {
    return run.steps.empty() ? TimePoint() : run.steps.back().start + run.steps.back().time;
  }

  static void add_little(ServingFigures& f, const ServerRun& run) {
    const double seconds = to_seconds(last_end(run) - TimePoint());
    std::int64_t done = 0;
    for (const TurnRecord& turn : run.turns) done += turn.finish ? 1 : 0;
    if (seconds <= 0 || done == 0) return;
    f.turns_in_system = run.turns_in_system_seconds / seconds;
    f.turns_per_second = static_cast<double>(done) / seconds;
    double sum = 0;
    for (const TurnRecord& turn : run.turns) {
      if (turn.finish) sum += to_seconds(*turn.finish - turn.arrival);
    }
    f.seconds_in_system = sum / static_cast<double>(done);
    f.little_exact = run.little_exact;
  }

  // Largest load with few enough misses, in steps of the resolution.
  void search(StrategyServing& result, std::optional<std::size_t> candidate) const {
    std::map<std::int64_t, bool> passes;  // of the loads that were run
    std::optional<ServerRun> best;
    const auto pass = [&](std::int64_t k) {
      const auto known = passes.find(k);
      if (known != passes.end()) return known->second;
      std::optional<ServerRun> run = add_point(result, candidate, load_of(k), true);
      if (!run) return false;
      const bool good = !run->stopped && result.points.back().miss_share() <= setup_.goals.most_missed;
      passes[k] = good;
      return good;
    };
    const std::int64_t most = setup_.kind == ServingKind::kClosedStreams ? most_sessions() : kMostLoad;
    std::int64_t good = 0, bad = 1;
    while (bad <= most && pass(bad)) {
      good = bad;
      bad = std::min(2 * bad, most + 1);
    }
    if (result.infeasible) return;
    while (bad - good > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      (pass(middle) ? good : bad) = middle;
      if (result.infeasible) return;
    }
    for (std::int64_t k = good - 1; k > 0 && k >= good - kCheckedBelow; --k) {
      if (pass(k)) continue;
      if (result.infeasible) return;
      result.monotone = false;
      good = k - 1;  // and what is below that is looked at
    }
    for (const auto& [k, passed] : passes) {
      if (passed || k > good) continue;
      result.monotone = false;
      good = k - 1;
    }
    result.memory_limited = good == most;
    result.sustainable = good == 0 ? 0 : load_of(good);
    std::sort(result.points.begin(), result.points.end(),
              [](const ServingFigures& a, const ServingFigures& b) { return a.load < b.load; });
    if (good > 0) keep_run(result, candidate, load_of(good));
  }

  // Of the result, once more: its steps are all known.
  void keep_run(StrategyServing& result, std::optional<std::size_t> candidate, double load) const {
    StrategyServing again;
    result.run = add_point(again, candidate, load, false);
    const auto place = std::find_if(result.points.begin(), result.points.end(),
                                    [&](const ServingFigures& f) { return f.load == load; });
    result.shown = static_cast<std::size_t>(place - result.points.begin());
    if (place == result.points.end()) result.points.push_back(again.points.front());
  }

  const ServingRequest& request_;
  const ServingSetup& setup_;
  StepTimes& times_;
  Bytes room_;
};

std::vector<StrategyChoice> candidates_of(const ConcurrencyRequest& engine) {
  std::vector<StrategyChoice> candidates;
  for (const StrategyChoice& choice : engine.strategies) {
    if (choice.strategy != nullptr) candidates.push_back(choice);
  }
  if (!candidates.empty()) return candidates;
  for (const Strategy& strategy : strategy_catalogue()) {
    if (strategy.grid == engine.hardware.grid) candidates.push_back(parse_strategy(strategy.name));
  }
  return candidates;
}

}  // namespace

TimeQuantiles time_quantiles(std::vector<Duration> times) {
  TimeQuantiles q;
  q.count = static_cast<std::int64_t>(times.size());
  if (times.empty()) return q;
  std::sort(times.begin(), times.end());
  const auto rank = [&](double share) {
    const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(times.size())));
    return times[std::max<std::size_t>(place, 1) - 1];
  };
  double sum = 0;
  for (const Duration time : times) sum += time.as_double();
  q.mean = Duration(std::llround(sum / static_cast<double>(times.size())));
  q.p50 = rank(0.5);
  q.p95 = rank(0.95);
  q.p99 = rank(0.99);
  q.most = times.back();
  return q;
}

Bytes cache_room(const ConcurrencyRequest& request, double memory_share) {
  const double all = memory_share * request.hardware[Hw::kHbmCapacity];
  const double left = all - memory_with(request, 0, 1).weights().as_double();
  return Bytes(std::llround(std::max(0.0, left)));
}

Bytes session_bytes(const ConcurrencyRequest& request, std::int64_t context) {
  const StepMemory memory = memory_with(request, 1, std::max<std::int64_t>(1, context));
  return memory.cache + memory.state;
}

bool ServingStudy::feasible() const {
  return std::any_of(strategies.begin(), strategies.end(), [](const StrategyServing& s) { return !s.infeasible; });
}

ServingStudy run_serving_study(const ServingRequest& request) {
  MOESIM_CHECK(request.engine.options.scope == Scope::kStep && !request.engine.strategies.empty());
  check_step_model(request.engine.model);
  StepTimes times(request.engine, candidates_of(request.engine), request.setup.rounding, request.progress);
  ServingStudy study;
  study.provenance = provenance_of(request.engine);
  study.provenance.step->context = 0;
  study.setup = request.setup;
  for (const StrategyChoice& candidate : times.candidates()) study.candidates.push_back(candidate.text);
  study.weights = memory_with(request.engine, 0, 1).weights();
  study.cache = cache_room(request.engine, request.setup.memory_share);
  study.session_bytes = session_bytes(request.engine, request.setup.context_limit);
  const Study runs(request, times);
  study.strategies.resize(request.engine.strategies.size());
  // Auto last: most of its steps are known then.
  for (const bool autos : {false, true}) {
    tbb::parallel_for(std::size_t{0}, study.strategies.size(), [&](std::size_t s) {
      const StrategyChoice& choice = request.engine.strategies[s];
      if ((choice.strategy == nullptr) != autos) return;
      std::optional<std::size_t> candidate;
      if (!autos) {
        const std::vector<std::string>& names = study.candidates;
        candidate = static_cast<std::size_t>(std::find(names.begin(), names.end(), choice.text) - names.begin());
      }
      study.strategies[s] = runs.of(choice.text, candidate);
    });
  }
  study.compositions = times.compositions();
  study.engine_runs = times.engine_runs();
  return study;
}

}  // namespace moesim
