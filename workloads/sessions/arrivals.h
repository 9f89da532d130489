// Who asks the server for what, and when: sessions of turns.
//
// A turn is a prompt's tokens, then the output's; a session is turns over one growing context. A request is a session of
// one turn; a stream is a session that sends a chunk every period, answered or not.
// Random numbers: session s draws from a stream of its own, so that a load of n sessions is the first n of a load of
// more, and gaps between arrivals of another rate are the same numbers stretched (common random numbers).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units/quantity.h"
#include "workloads/sessions/length_law.h"

namespace moesim {

struct Turn {
  TimePoint arrival;
  std::int64_t prompt = 1;  // tokens in
  std::int64_t output = 0;  // tokens out; the first comes of the step that ends the prompt
};

struct Session {
  std::int64_t context = 0;  // tokens that it comes with, already in the cache
  std::vector<Turn> turns;   // by arrival, at least one
};

// Chunks of one stream.
struct StreamShape {
  Duration period = Duration(200'000'000'000);  // 200 ms
  LengthLaw tokens_in{LengthLaw::Kind::kFixed, 16, 0};
  LengthLaw tokens_out{LengthLaw::Kind::kFixed, 4, 0};
  Duration jitter;           // a chunk comes up to so much late, uniformly; never before the one before it
  std::int64_t context = 0;  // that a session comes with
};

// `count` streams over all the time until `horizon`; the first chunk of each comes within the first period, uniformly.
std::vector<Session> closed_streams(const StreamShape& shape, std::int64_t count, TimePoint horizon,
                                    std::uint64_t seed);

// Poisson arrivals of streams, `mean_sessions` at a time in the mean (rate x mean holding time), each for an
// exponentially distributed time; the first chunk comes at once.
std::vector<Session> open_streams(const StreamShape& shape, double mean_sessions, Duration mean_holding,
                                  TimePoint horizon, std::uint64_t seed);

// Poisson arrivals of requests.
std::vector<Session> open_requests(double per_second, const LengthLaw& prompt, const LengthLaw& output,
                                   TimePoint horizon, std::uint64_t seed);

}  // namespace moesim
