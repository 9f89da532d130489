// Times of the steps of a serving study, each simulated once: whole steps on the engine, never interpolated.
//
// What a step's time depends on is its key: new tokens and contexts of its sequences, and which of `samples` routings it
// has (drawn anew for every composition; step number n has a fixed one of them). So that keys come again, a composition is
// rounded first, unless that is switched off:
//   sequences with one new token: their number rounded up to `count_digits` significant binary digits (17 to 18, 100 to
//                                 104), all with their mean context rounded up to a multiple of `context`
//   sequences with more:          the same, all with their mean of new tokens, rounded up to a multiple of `chunk`
// Direction of error: too slow, by half a bucket of context and 3 % of the sequences (beyond 16) in the mean; contexts that
// differ within a step are levelled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "workloads/sessions/server.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

struct StepRounding {
  std::optional<std::int64_t> context = 1024;  // nullopt: nothing is rounded or levelled
  std::int64_t chunk = 1;
  int count_digits = 4;
};

std::vector<StepSequences> rounded_batch(const std::vector<StepSequences>& batch, const StepRounding& rounding);

// Serves several threads.
class StepTimes {
 public:
  // `candidates`: the strategies that there are, none of them auto. The request (of scope step) must outlive it.
  // `heard`: after each run of the engine, of all threads in turn.
  StepTimes(const ConcurrencyRequest& request, std::vector<StrategyChoice> candidates, StepRounding rounding,
            std::function<void(std::size_t runs)> heard);

  // The step under one candidate, or under the fastest of all of them (nullopt). Of equal ones the first.
  std::variant<StepTime, Infeasible> time(std::optional<std::size_t> candidate, std::size_t step,
                                          const std::vector<StepSequences>& batch);

  [[nodiscard]] const std::vector<StrategyChoice>& candidates() const { return candidates_; }
  // So far: distinct compositions x samples, and these x strategies.
  [[nodiscard]] std::size_t compositions() const;
  [[nodiscard]] std::size_t engine_runs() const;

 private:
  using Key = std::pair<std::vector<StepSequences>, std::size_t>;
  using Answer = std::variant<Duration, Infeasible>;

  Answer simulated(const Key& key, std::size_t candidate);

  const ConcurrencyRequest& request_;
  std::vector<StrategyChoice> candidates_;
  StepRounding rounding_;
  std::function<void(std::size_t)> heard_;
  mutable std::mutex mutex_;
  std::map<Key, std::vector<std::optional<Answer>>> known_;
  std::size_t runs_ = 0;
};

}  // namespace moesim
