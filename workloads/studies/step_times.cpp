#include "workloads/studies/step_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/units/check.h"
#include "sim/units/integer.h"
#include "workloads/routing/random_stream.h"
#include "workloads/studies/samples.h"

namespace moesim {
namespace {

// Alike sequences together, in order.
std::vector<StepSequences> collected(std::vector<StepSequences> batch) {
  const auto alike = [](const StepSequences& a, const StepSequences& b) {
    return a.tokens == b.tokens && a.context == b.context;
  };
  std::sort(batch.begin(), batch.end(), [](const StepSequences& a, const StepSequences& b) {
    return std::pair(a.tokens, a.context) < std::pair(b.tokens, b.context);
  });
  std::vector<StepSequences> result;
  for (const StepSequences& one : batch) {
    if (!result.empty() && alike(result.back(), one)) {
      result.back().count += one.count;
    } else {
      result.push_back(one);
    }
  }
  return result;
}

std::int64_t rounded_count(std::int64_t count, int digits) {
  std::int64_t unit = 1;
  while (count / unit >= std::int64_t{1} << digits) unit *= 2;
  return round_up(count, unit);
}

}  // namespace

std::vector<StepSequences> rounded_batch(const std::vector<StepSequences>& batch, const StepRounding& rounding) {
  if (!rounding.context) return collected(batch);
  std::vector<StepSequences> result;
  for (const bool prompts : {false, true}) {
    StepSequences sum{.count = 0, .tokens = 0, .context = 0};
    for (const StepSequences& one : batch) {
      if ((one.tokens > 1) != prompts) continue;
      sum.count += one.count;
      sum.tokens += one.count * one.tokens;
      sum.context += one.count * one.context;
    }
    if (sum.count == 0) continue;
    const std::int64_t tokens = divide_up(sum.tokens, sum.count);
    const std::int64_t issued = prompts ? round_up(tokens, rounding.chunk) : 1;
    const std::int64_t context = round_up(divide_up(sum.context, sum.count), *rounding.context);
    result.push_back({rounded_count(sum.count, rounding.count_digits), issued, std::max(context, issued)});
  }
  return result;
}

StepTimes::StepTimes(const ConcurrencyRequest& request, std::vector<StrategyChoice> candidates, StepRounding rounding,
                     std::function<void(std::size_t runs)> heard)
    : request_(request), candidates_(std::move(candidates)), rounding_(rounding), heard_(std::move(heard)) {
  MOESIM_CHECK(!candidates_.empty() && request.samples >= 1 && rounding.chunk >= 1);
}

std::variant<StepTime, Infeasible> StepTimes::time(std::optional<std::size_t> candidate, std::size_t step,
                                                   const std::vector<StepSequences>& batch) {
  const Key key{rounded_batch(batch, rounding_), mix(step) % static_cast<std::size_t>(request_.samples)};
  std::optional<StepTime> best;
  std::string reasons;
  for (std::size_t c = candidate.value_or(0); c < candidates_.size(); ++c) {
    const Answer answer = simulated(key, c);
    if (const auto* time = std::get_if<Duration>(&answer)) {
      if (!best || *time < best->time) best = StepTime{*time, c};
    } else if (candidate) {
      return std::get<Infeasible>(answer);
    } else {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidates_[c].text,
                             std::get<Infeasible>(answer).reason);
    }
    if (candidate) break;
  }
  if (best) return *best;
  return Infeasible{reasons};
}

StepTimes::Answer StepTimes::simulated(const Key& key, std::size_t candidate) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<Answer>>& answers = known_[key];
    answers.resize(candidates_.size());
    if (answers[candidate]) return *answers[candidate];
  }
  // Without the lock: two threads that ask for the same at once both find the same.
  const DecodeStep sample = mixed_sample_of(request_, key.first, key.second);
  const PredictionOrInfeasible predicted =
      predict_sample(sample, request_, candidates_[candidate], request_.options.simulate);
  const auto* prediction = std::get_if<Prediction>(&predicted);
  Answer answer = prediction != nullptr ? Answer(prediction->time) : Answer(std::get<Infeasible>(predicted));
  const std::lock_guard lock(mutex_);
  std::optional<Answer>& place = known_.at(key)[candidate];
  if (!place) {
    place = answer;
    ++runs_;
    if (heard_) heard_(runs_);
  }
  return answer;
}

std::size_t StepTimes::compositions() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

std::size_t StepTimes::engine_runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

}  // namespace moesim
