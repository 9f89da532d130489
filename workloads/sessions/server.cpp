#include "workloads/sessions/server.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "sim/units/check.h"

namespace moesim {
namespace {

__extension__ typedef __int128 Wide;  // picoseconds x turns of long runs

class Server {
 public:
  Server(const std::vector<Session>& sessions, const ServerLimits& limits, const StepTimer& timer,
         const std::function<bool(const TurnRecord&)>& stop)
      : sessions_(sessions), limits_(limits), timer_(timer), stop_(stop), states_(sessions.size()) {
    for (std::size_t s = 0; s < sessions.size(); ++s) {
      const Session& session = sessions[s];
      MOESIM_CHECK(!session.turns.empty());
      states_[s].context = std::min(session.context, limits.context);
      std::int64_t longest = session.context;
      for (const Turn& turn : session.turns) {
        longest += turn.prompt + turn.output;
        run_.turns.push_back({s, turn.prompt, turn.output, turn.arrival, {}, {}, {}});
      }
      states_[s].reserved = limits.session_bytes(std::min(longest, limits.context));
    }
    std::stable_sort(run_.turns.begin(), run_.turns.end(),
                     [](const TurnRecord& a, const TurnRecord& b) { return a.arrival < b.arrival; });
  }

  ServerRun run() && {
    for (;;) {
      if (active_.empty()) {
        if (next_ == run_.turns.size()) break;
        now_ = std::max(now_, run_.turns[next_].arrival);
      }
      take_arrivals();
      if (active_.empty()) continue;
      step();
      if (run_.stopped) break;
    }
    run_.turns_in_system_seconds = static_cast<double>(area_) / kPicosecondsPerSecond;
    run_.little_exact = !run_.stopped && area_ == times_;
    return std::move(run_);
  }

 private:
  struct State {
    enum class Place { kNew, kWaiting, kAdmitted, kTurnedAway };
    Place place = Place::kNew;
    std::int64_t context = 0;
    Bytes reserved;
    bool busy = false;               // one of its turns is active
    std::deque<std::size_t> behind;  // turns that wait for that, or for admission
    std::size_t done = 0;
  };

  // The number of turns in the system changes at `at`, in order of time.
  void count(TimePoint at, int change) {
    area_ += Wide{in_system_} * (at - counted_).value();
    counted_ = at;
    in_system_ += change;
  }

  void take_arrivals() {
    for (; next_ < run_.turns.size() && run_.turns[next_].arrival <= now_; ++next_) {
      const TurnRecord& turn = run_.turns[next_];
      State& state = states_[turn.session];
      if (state.place == State::Place::kNew) enter(turn.session);
      if (state.place == State::Place::kTurnedAway) continue;
      arrivals_.push_back(turn.arrival);
      state.behind.push_back(next_);
      go_on(turn.session);
    }
  }

  [[nodiscard]] bool fits(const State& state) const {
    return admitted_ < limits_.sessions && cache_ + state.reserved <= limits_.cache;
  }

  void enter(std::size_t session) {
    State& state = states_[session];
    if (waiting_.empty() && fits(state)) return admit(state);
    if (limits_.admission == Admission::kReject || state.reserved > limits_.cache) {
      state.place = State::Place::kTurnedAway;
      ++run_.turned_away;
      return;
    }
    state.place = State::Place::kWaiting;
    waiting_.push_back(session);
  }

  void admit(State& state) {
    state.place = State::Place::kAdmitted;
    cache_ += state.reserved;
    ++admitted_;
    run_.most_cache = std::max(run_.most_cache, cache_);
    run_.most_sessions = std::max(run_.most_sessions, admitted_);
  }

  // The session's next turn becomes active, where none is.
  void go_on(std::size_t session) {
    State& state = states_[session];
    if (state.place != State::Place::kAdmitted || state.busy || state.behind.empty()) return;
    const TurnRecord& turn = run_.turns[state.behind.front()];
    active_.push_back({state.behind.front(), turn.prompt, turn.output, state.context});
    state.behind.pop_front();
    state.busy = true;
  }

  void step() {
    const std::vector<BatchPiece> pieces = next_batch(active_, limits_.batch);
    StepRecord record{.start = now_, .time = {}};
    std::vector<StepSequences> batch;
    for (const BatchPiece& piece : pieces) {
      const ActiveTurn& turn = active_[piece.active];
      const std::int64_t context = std::min(turn.context + piece.tokens, std::max(limits_.context, piece.tokens));
      batch.push_back({1, piece.tokens, context});
      (piece.prompt ? record.prompts : record.decodes) += 1;
      if (piece.prompt) record.prompt_tokens += piece.tokens;
      TurnRecord& of = run_.turns[turn.turn];
      if (!of.start) of.start = now_;
    }
    const std::variant<StepTime, Infeasible> answer = timer_(run_.steps.size(), batch);
    if (const auto* reason = std::get_if<Infeasible>(&answer)) {
      run_.infeasible = *reason;
      run_.stopped = true;
      return;
    }
    const auto& taken = std::get<StepTime>(answer);
    record.time = taken.time + limits_.host;
    record.strategy = taken.strategy;
    MOESIM_CHECK(record.time > Duration(0));
    now_ = now_ + record.time;
    run_.steps.push_back(record);
    // Turns that came during the step are in the system before those that it ends leave it.
    for (const BatchPiece& piece : pieces) advance(active_[piece.active], piece);
    leave();
  }

  void advance(ActiveTurn& turn, const BatchPiece& piece) {
    turn.context = std::min(turn.context + piece.tokens, limits_.context);
    if (piece.prompt) turn.prompt_left -= piece.tokens;
    if (turn.prompt_left > 0) return;
    if (turn.output_left > 0) {
      --turn.output_left;
      TurnRecord& record = run_.turns[turn.turn];
      if (!record.first_token) record.first_token = now_;
    }
    if (turn.output_left == 0) run_.turns[turn.turn].finish = now_;
  }

  // Turns that are done make room; sessions go on to their next turn, or leave.
  void leave() {
    std::vector<std::size_t> sessions;
    for (const ActiveTurn& turn : active_) {
      TurnRecord& record = run_.turns[turn.turn];
      if (!record.finish) continue;
      State& state = states_[record.session];
      state.context = turn.context;
      state.busy = false;
      ++state.done;
      times_ += (*record.finish - record.arrival).value();
      ++finished_;
      if (stop_ && stop_(record)) run_.stopped = true;
      if (state.done == sessions_[record.session].turns.size()) {
        cache_ -= state.reserved;
        --admitted_;
      }
      sessions.push_back(record.session);
    }
    std::erase_if(active_, [&](const ActiveTurn& turn) { return run_.turns[turn.turn].finish.has_value(); });
    take_arrivals();
    for (const TimePoint at : arrivals_) count(at, 1);
    arrivals_.clear();
    for (; finished_ > 0; --finished_) count(now_, -1);
    for (const std::size_t session : sessions) go_on(session);
    while (!waiting_.empty() && fits(states_[waiting_.front()])) {
      admit(states_[waiting_.front()]);
      go_on(waiting_.front());
      waiting_.pop_front();
    }
  }

  const std::vector<Session>& sessions_;
  const ServerLimits& limits_;
  const StepTimer& timer_;
  const std::function<bool(const TurnRecord&)>& stop_;
  std::vector<State> states_;
  std::vector<ActiveTurn> active_;   // in the order in which they became so
  std::deque<std::size_t> waiting_;  // sessions
  TimePoint now_;
  std::size_t next_ = 0;  // turn that has not come
  std::int64_t admitted_ = 0;
  Bytes cache_;
  std::vector<TimePoint> arrivals_;  // not yet counted
  std::int64_t finished_ = 0;        // not yet counted
  TimePoint counted_;
  std::int64_t in_system_ = 0;
  Wide area_ = 0, times_ = 0;
  ServerRun run_;
};

}  // namespace

ServerRun run_server(const std::vector<Session>& sessions, const ServerLimits& limits, const StepTimer& timer,
                     const std::function<bool(const TurnRecord&)>& stop) {
  return Server(sessions, limits, timer, stop).run();
}

}  // namespace moesim
