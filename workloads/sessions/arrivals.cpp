#include "workloads/sessions/arrivals.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

// Streams of random numbers: one of the sessions' arrivals, then one of each session.
constexpr std::uint64_t kArrivals = 0x5e55'1015ULL;

RandomStream stream_of_session(std::uint64_t seed, std::uint64_t session) {
  return stream_of(mix(seed ^ kArrivals), session);
}

Duration scaled(Duration d, double factor) { return Duration(std::llround(d.as_double() * factor)); }

double exponential(RandomStream& stream) { return -std::log(stream.unit()); }

// Chunks from `first` on, before `end`.
Session stream_from(const StreamShape& shape, TimePoint first, TimePoint end, RandomStream& stream) {
  Session session{.context = shape.context, .turns = {}};
  TimePoint last;
  for (TimePoint due = first; due < end; due = due + shape.period) {
    const TimePoint at = shape.jitter > Duration(0) ? due + scaled(shape.jitter, stream.unit()) : due;
    last = std::max(last, at);
    const std::int64_t prompt = draw_length(shape.tokens_in, stream);
    session.turns.push_back({.arrival = last, .prompt = prompt, .output = draw_length(shape.tokens_out, stream)});
  }
  return session;
}

}  // namespace

std::vector<Session> closed_streams(const StreamShape& shape, std::int64_t count, TimePoint horizon,
                                    std::uint64_t seed) {
  std::vector<Session> sessions;
  for (std::int64_t s = 0; s < count; ++s) {
    RandomStream stream = stream_of_session(seed, static_cast<std::uint64_t>(s));
    const double phase = 1 - stream.unit();  // in [0, 1)
    Session session = stream_from(shape, TimePoint() + scaled(shape.period, phase), horizon, stream);
    if (!session.turns.empty()) sessions.push_back(std::move(session));
  }
  return sessions;
}

std::vector<Session> open_streams(const StreamShape& shape, double mean_sessions, Duration mean_holding,
                                  TimePoint horizon, std::uint64_t seed) {
  std::vector<Session> sessions;
  RandomStream gaps = stream_of_session(seed, 0);
  const Duration mean_gap = scaled(mean_holding, 1 / mean_sessions);
  for (TimePoint at = TimePoint() + scaled(mean_gap, exponential(gaps)); at < horizon;
       at = at + scaled(mean_gap, exponential(gaps))) {
    RandomStream stream = stream_of_session(seed, sessions.size() + 1);
    // A stream of no time at all still sends its first chunk.
    const Duration holding = std::max(scaled(mean_holding, exponential(stream)), Duration(1));
    sessions.push_back(stream_from(shape, at, std::min(at + holding, horizon), stream));
  }
  return sessions;
}

std::vector<Session> open_requests(double per_second, const LengthLaw& prompt, const LengthLaw& output,
                                   TimePoint horizon, std::uint64_t seed) {
  std::vector<Session> sessions;
  RandomStream gaps = stream_of_session(seed, 0);
  const Duration mean_gap = duration_from_seconds(1 / per_second);
  for (TimePoint at = TimePoint() + scaled(mean_gap, exponential(gaps)); at < horizon;
       at = at + scaled(mean_gap, exponential(gaps))) {
    RandomStream stream = stream_of_session(seed, sessions.size() + 1);
    const std::int64_t in = draw_length(prompt, stream);
    sessions.push_back({.context = 0, .turns = {{at, in, draw_length(output, stream)}}});
  }
  return sessions;
}

}  // namespace moesim
