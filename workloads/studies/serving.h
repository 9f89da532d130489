// Sessions on a server: how long chunks or requests take under a load, what part misses its goals, and the largest load at
// which few enough do.
//
// Arrivals (workloads/sessions/arrivals) go through a server (…/server) whose steps take what the engine says
// (step_times). Counted are turns that arrive after the warm-up and before the horizon; the server goes on until all are
// done. A search doubles the load until too many miss, and bisects; all loads see the same random numbers. Misses need not
// grow with every single load: the two loads below the result are run as well, and the result is lowered past one that
// fails (`monotone` says so). Nor is a run with faster steps always the one with fewer misses: auto, which takes the fastest
// strategy for every step, may sustain a percent less than one strategy alone where batches fall otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workloads/sessions/server.h"
#include "workloads/studies/concurrency.h"
#include "workloads/studies/step_times.h"

namespace moesim {

enum class ServingKind {
  kClosedStreams,  // load: sessions, for ever
  kOpenStreams,    // load: sessions in the mean; they come and go
  kRequests,       // load: requests a second
  kTrace,          // as recorded; load 1
};

struct ServingGoals {
  std::optional<Duration> latency;      // arrival to last token: a chunk's deadline
  std::optional<Duration> first_token;  // arrival to first token
  std::optional<Duration> per_token;    // (last - first token) / (tokens - 1)
  double most_missed = 0.01;            // share of turns
};

// What of a study does not concern the engine.
struct ServingSetup {
  ServingKind kind = ServingKind::kClosedStreams;
  StreamShape stream;
  Duration holding;  // mean of an open stream
  LengthLaw prompt, output;
  std::string trace_file;
  std::vector<double> loads;  // ascending; empty: searched for
  ServingGoals goals;
  Duration horizon, warm_up;
  BatchLimits batch;
  std::optional<std::int64_t> most_sessions;  // admitted at a time; nullopt: as memory allows
  std::int64_t context_limit = 0;             // tokens of a session
  double memory_share = 0.9;                  // of the device's memory: weights and caches
  Duration host;                              // of each step
  StepRounding rounding;
};

struct ServingRequest {
  ConcurrencyRequest
      engine;  // of scope step; its concurrencies are not looked at, its samples are routings of a composition
  ServingSetup setup;
  std::vector<Session> trace;                             // of kTrace
  std::function<void(std::size_t engine_runs)> progress;  // of all threads in turn
};

// Over turns, by nearest rank; of none: 0.
struct TimeQuantiles {
  std::int64_t count = 0;
  Duration mean, p50, p95, p99, most;
};

struct ServingFigures {
  double load = 0;
  bool stopped = false;  // as soon as too many had missed: what follows is of the turns until then
  std::int64_t sessions = 0, turned_away = 0;
  std::int64_t turns = 0, misses = 0;  // counted ones
  TimeQuantiles latency, first_token, per_token, step;
  double utilisation = 0;                // share of the time between warm-up and horizon with a step running
  double tokens_in = 0, tokens_out = 0;  // a second, likewise
  std::map<std::int64_t, std::int64_t> steps_by_sequences;  // all steps
  double mean_sequences = 0, mean_tokens = 0;               // of a step
  std::vector<std::int64_t> steps_by_strategy;              // of the study's candidates
  std::int64_t most_sessions = 0;                           // admitted at a time
  double cache_share = 0;                                   // reserved of what there is, at most
  // Little's law over the whole run: turns in the system = rate x time in the system.
  double turns_in_system = 0, turns_per_second = 0, seconds_in_system = 0;
  bool little_exact = false;

  [[nodiscard]] double miss_share() const {
    return turns == 0 ? 0 : static_cast<double>(misses) / static_cast<double>(turns);
  }
};

struct StrategyServing {
  std::string strategy;  // as asked for
  std::optional<Infeasible> infeasible;
  std::vector<ServingFigures> points;  // by load
  // Of a search: the largest load with few enough misses, 0 where there is none.
  std::optional<double> sustainable;
  bool memory_limited = false;  // no more sessions fit
  bool monotone = true;
  std::optional<ServerRun> run;  // at the sustainable, or the last load
  std::size_t shown = 0;         // that load's place in `points`
};

struct ServingStudy {
  Provenance provenance;
  ServingSetup setup;
  std::vector<std::string> candidates;  // what auto takes from
  std::vector<StrategyServing> strategies;
  Bytes weights, cache;  // that a device holds, and has left for sessions
  Bytes session_bytes;   // of one at the limit of its context
  std::size_t compositions = 0, engine_runs = 0;

  [[nodiscard]] bool feasible() const;
};

// Throws InputError (flags) where the request makes no sense.
ServingStudy run_serving_study(const ServingRequest& request);

// Of a device: what is left for caches, and what a session takes of it.
Bytes cache_room(const ConcurrencyRequest& request, double memory_share);
Bytes session_bytes(const ConcurrencyRequest& request, std::int64_t context);

TimeQuantiles time_quantiles(std::vector<Duration> times);

}  // namespace moesim
