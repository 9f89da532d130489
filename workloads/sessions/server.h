// One server, step after step: sessions in, what became of every turn out.
//
// Models: a server (all devices of a shard together) that runs one step at a time; turns that arrive during a step join
// the next one. A session is admitted when its cache fits beside the others', reserved for the longest context that it
// comes to, in order of arrival, and leaves after its last turn. Turns of a session follow one another: a chunk that comes
// before the one before is done waits. Contexts beyond the limit drop their oldest tokens.
// Leaves out: preemption (nothing is admitted that might not fit), batches that wait to fill, the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "sim/units/quantity.h"
#include "workloads/sessions/arrivals.h"
#include "workloads/sessions/batcher.h"
#include "workloads/step/decode_step.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

struct StepTime {
  Duration time;
  std::size_t strategy = 0;  // index of the one that was taken
};
// How long step number `step` takes, of these sequences: their new tokens and contexts.
using StepTimer =
    std::function<std::variant<StepTime, Infeasible>(std::size_t step, const std::vector<StepSequences>& batch)>;

enum class Admission {
  kQueue,   // a session that does not fit waits, and those behind it
  kReject,  // it is turned away
};

struct ServerLimits {
  BatchLimits batch;
  std::int64_t sessions = 1'000'000;                         // admitted at a time
  std::int64_t context = 1'000'000'000;                      // tokens of a session at most
  Bytes cache;                                               // for all sessions
  std::function<Bytes(std::int64_t context)> session_bytes;  // what a session of that context takes of it
  Admission admission = Admission::kQueue;
  Duration host;  // of each step, beside the device's time
};

struct TurnRecord {
  std::size_t session = 0;
  std::int64_t prompt = 0, output = 0;
  TimePoint arrival;
  std::optional<TimePoint> start, first_token, finish;  // of the first step; none: turned away, or the run was stopped
};

struct StepRecord {
  TimePoint start;
  Duration time;  // with the host's
  std::int64_t decodes = 0, prompts = 0, prompt_tokens = 0;
  std::size_t strategy = 0;

  [[nodiscard]] std::int64_t sequences() const { return decodes + prompts; }
  [[nodiscard]] std::int64_t tokens() const { return decodes + prompt_tokens; }
};

struct ServerRun {
  std::vector<TurnRecord> turns;  // by arrival, then session
  std::vector<StepRecord> steps;
  std::int64_t turned_away = 0;          // sessions
  std::int64_t most_sessions = 0;        // admitted at a time
  Bytes most_cache;                      // reserved at a time
  double turns_in_system_seconds = 0;    // area under the number of turns that had come and were not done
  bool little_exact = false;             // and that area is the sum of the turns' times, to the picosecond
  bool stopped = false;                  // before its end, by `stop`
  std::optional<Infeasible> infeasible;  // of the step at which it ended
};

// Until all is done, or `stop` says so of a turn that has just finished.
ServerRun run_server(const std::vector<Session>& sessions, const ServerLimits& limits, const StepTimer& timer,
                     const std::function<bool(const TurnRecord&)>& stop = {});

}  // namespace moesim
