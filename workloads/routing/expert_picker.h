// Draws distinct experts for one token with probability in proportion to their popularity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/routing/random_stream.h"

namespace moesim {

// Which experts the current row holds.
class HeldExperts {
 public:
  explicit HeldExperts(std::int64_t experts) : last_row_(static_cast<std::size_t>(experts), 0) {}

  void begin_row() { ++row_; }
  [[nodiscard]] bool holds(std::int32_t expert) const { return last_row_[static_cast<std::size_t>(expert)] == row_; }
  void add(std::int32_t expert) { last_row_[static_cast<std::size_t>(expert)] = row_; }

 private:
  std::vector<std::uint64_t> last_row_;
  std::uint64_t row_ = 0;
};

// Successive sampling without replacement, the law of `draw_batch`'s weighted draws (the k smallest of exponential
// times, Gumbel top-k), in about k steps and not E logarithms: an alias table (Walker 1977, Vose 1991) draws an expert
// by popularity, and one that the row holds is drawn again. Where the held experts have most of the popularity, the
// next is found by adding up the weights of the rest.
// Probabilities are exact to 2^-32 of an expert's even share.
class ExpertPicker {
 public:
  // Of experts first, first + 1, ...
  explicit ExpertPicker(std::span<const double> weights, std::int32_t first = 0);

  // Fills row[filled...) with experts that `held` does not hold, which it then does.
  void fill(std::span<std::int32_t> row, std::size_t filled, HeldExperts& held, RandomStream& stream) const;

  // One expert that `held` does not hold, which it then does. `held_share` is the popularity of those of `held` that this
  // draws from, kept up to date.
  std::int32_t next(double& held_share, HeldExperts& held, RandomStream& stream) const;

  [[nodiscard]] double share(std::int32_t expert) const { return shares_[static_cast<std::size_t>(expert - first_)]; }

  // One Metropolis step over the orders of a row of k experts: proposes a random order. With `by_popularity` it accepts so
  // that the order's law given the set stays that of successive sampling; then keeping the first j experts, whatever j,
  // and filling the row anew leaves the law of the row unchanged. Else it accepts always.
  void shuffle(std::span<std::int32_t> row, bool by_popularity, RandomStream& stream) const;

 private:
  struct Column {
    std::uint32_t own = 0;  // share of the column that is its own expert's, of 2^32
    std::int32_t other = 0;
  };
  [[nodiscard]] std::int32_t pick(RandomStream& stream) const;
  [[nodiscard]] std::int32_t pick_from_rest(const HeldExperts& held, RandomStream& stream) const;

  [[nodiscard]] double order_weight(std::span<const std::int32_t> row) const;

  std::int32_t first_;
  std::vector<Column> columns_;
  std::vector<double> shares_;  // sum 1
};

}  // namespace moesim
