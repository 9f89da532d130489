#include "traces/routing_formats/warm_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace moesim {
namespace {

// A coincidence of uniform random routing is believed up to 2^-40: in no recording of a trillion steps.
constexpr double kBelievedBits = 40;

class Detector {
 public:
  explicit Detector(const RoutedTrace& trace)
      : steps_(trace.steps), width_(trace.topk), row_bits_(log2_choices(trace.experts, trace.topk)) {
    row_bits_ *= static_cast<double>(trace.layers.size());
  }

  // Leading steps that are warm-up.
  [[nodiscard]] std::size_t leading() const {
    std::size_t count = 0;
    while (count < steps_.size() && warm(count)) ++count;
    return count;
  }

 private:
  static double log2_choices(std::int64_t experts, std::int64_t topk) {
    const auto log_factorial = [](std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1); };
    return (log_factorial(experts) - log_factorial(topk) - log_factorial(experts - topk)) / std::log(2.0);
  }

  [[nodiscard]] bool beyond_chance(std::int64_t rows) const {
    return static_cast<double>(rows) * row_bits_ > kBelievedBits;
  }
  [[nodiscard]] bool same_row(const RoutedBatch& a, std::int64_t row_a, const RoutedBatch& b) const {
    return std::equal(b.ids.begin(), b.ids.begin() + width_, a.ids.begin() + row_a * width_);
  }
  // In every layer all rows are the first.
  [[nodiscard]] bool uniform(const TraceStep& step) const {
    return std::all_of(step.layers.begin(), step.layers.end(), [&](const RoutedBatch& batch) {
      std::int64_t row = 1;
      while (row < batch.tokens && same_row(batch, row, batch)) ++row;
      return row >= batch.tokens;
    });
  }
  [[nodiscard]] bool same_first_rows(const TraceStep& a, const TraceStep& b) const {
    return std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(),
                      [&](const RoutedBatch& x, const RoutedBatch& y) { return same_row(x, 0, y); });
  }
  static bool same_ids(const TraceStep& a, const TraceStep& b) {
    return std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(),
                      [](const RoutedBatch& x, const RoutedBatch& y) { return x.ids == y.ids; });
  }

  [[nodiscard]] bool warm(std::size_t index) const {
    const TraceStep& step = steps_[index];
    const std::int64_t tokens = step.layers.front().tokens;
    const bool alike = uniform(step);
    if (alike && beyond_chance(tokens - 1)) return true;
    // A step of few tokens, whose rows are those of the dummy batch before it.
    if (index > 0 && alike && beyond_chance(tokens) && uniform(steps_[index - 1]) &&
        same_first_rows(step, steps_[index - 1])) {
      return true;
    }
    const bool repeated = (index > 0 && same_ids(step, steps_[index - 1])) ||
                          (index + 1 < steps_.size() && same_ids(step, steps_[index + 1]));
    return repeated && beyond_chance(tokens);
  }

  const std::vector<TraceStep>& steps_;
  std::int64_t width_;
  double row_bits_;
};

}  // namespace

void drop_warm_up(RoutedTrace& trace) {
  const std::size_t count = Detector(trace).leading();
  if (count == 0 || count == trace.steps.size()) return;
  trace.warm_up = {.steps = static_cast<std::int64_t>(count),
                   .tokens = 0,
                   .first = trace.steps.front().id,
                   .last = trace.steps[count - 1].id};
  for (std::size_t i = 0; i < count; ++i) trace.warm_up.tokens += trace.steps[i].layers.front().tokens;
  trace.steps.erase(trace.steps.begin(), trace.steps.begin() + static_cast<std::ptrdiff_t>(count));
  trace.notes.push_back(
      fmt::format("identical routing at the start, as of warm-up, left out: steps {} to {} ({} in number, {} tokens)",
                  trace.warm_up.first, trace.warm_up.last, count, trace.warm_up.tokens));
}

}  // namespace moesim
