// The speed-up ladder: why one strategy is faster than another, effect by effect.
//
// Both strategies are run without the first effect of the order, then without the first two, and so on. What an effect costs a
// strategy is the difference of two consecutive runs; a rung is that difference of the one strategy less the other's. With
// nothing left to leave out what remains is the stream of the bytes. So the rungs sum to the difference of the two times, to the
// picosecond. An effect's cost depends on which were left out before it: the reverse order tells how much.
//
// The order is that of sim/engine/effects.h: prologues before launches, since items that dispatch keeps out of step fill
// each other's gaps; what an item waits for before what it shares; the tail before the bytes in flight, since without
// limit the last items take all of the memory. Times are of the first sample of a concurrency. The streams that remain
// differ where strategies need different bytes (gather_gemv copies each pick's matrix where it copies by elements).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "workloads/predict.h"

namespace moesim {

struct ConcurrencyRequest;

// A strategy's time with the first `left_out` effects of the order left out.
struct LadderRun {
  std::size_t left_out = 0;
  Duration time;
};

struct LadderRung {
  std::string effect;       // as `run --without` takes it; "": what remains
  Duration slower, faster;  // what the effect costs either strategy
  [[nodiscard]] Duration gain() const { return slower - faster; }
};

struct Ladder {
  std::string slower, faster;  // strategies
  Duration slower_time, faster_time;
  std::vector<LadderRung> rungs;                    // in the stated order; the last is what remains
  std::vector<LadderRung> reverse_rungs;            // effects left out from the last of the order to the first
  std::vector<LadderRun> slower_runs, faster_runs;  // of the stated order, the whole one first
  std::vector<LadderRun> slower_reverse_runs, faster_reverse_runs;  // of the reverse order
  std::int64_t concurrency = 0;

  [[nodiscard]] Duration gain() const { return slower_time - faster_time; }
};

using LadderOrInfeasible = std::variant<Ladder, Infeasible>;

// Between two strategies, neither of them auto, at the same routing as the study's. What the request leaves out anyway
// costs nothing.
LadderOrInfeasible ladder_between(const ConcurrencyRequest& request, std::int64_t concurrency,
                                  const StrategyChoice& one, const StrategyChoice& other);

}  // namespace moesim
