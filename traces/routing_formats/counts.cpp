#include "traces/routing_formats/counts.h"

#include <algorithm>
#include <numeric>

#include "sim/units/check.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

// Gives `missing` rows away, one each in turn in that order, to experts with fewer rows than tokens.
void give(std::vector<std::int64_t>& rows, const std::vector<std::size_t>& order, std::int64_t missing,
          std::int64_t tokens) {
  for (std::size_t i = 0; missing > 0; i = (i + 1) % order.size()) {
    if (rows[order[i]] == tokens) continue;
    ++rows[order[i]];
    --missing;
  }
}

template <class Key>
std::vector<std::size_t> order_by(std::size_t size, const Key& key) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

std::int64_t sum(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

CountedRows scaled(std::span<const std::int64_t> counts, std::int64_t topk, std::int64_t tokens) {
  CountedRows result{.tokens = tokens, .rows = {}, .impossible = {}};
  const double scale = static_cast<double>(tokens * topk) / static_cast<double>(sum(counts));
  std::vector<double> rests;
  for (const std::int64_t count : counts) {
    const double share = static_cast<double>(count) * scale;
    result.rows.push_back(std::min(static_cast<std::int64_t>(share), tokens));
    rests.push_back(share - static_cast<double>(static_cast<std::int64_t>(share)));
  }
  std::int64_t missing = tokens * topk - sum(result.rows);
  MOESIM_CHECK(missing >= 0);
  for (const std::size_t expert : order_by(counts.size(), [&](std::size_t i) { return -rests[i]; })) {
    if (missing == 0 || rests[expert] == 0) break;
    if (result.rows[expert] == tokens) continue;
    ++result.rows[expert];
    --missing;
  }
  give(result.rows, order_by(counts.size(), [&](std::size_t i) { return -counts[i]; }), missing, tokens);
  return result;
}

}  // namespace

CountedRows counted_rows(std::span<const std::int64_t> counts, std::int64_t topk, std::optional<std::int64_t> tokens) {
  MOESIM_CHECK(topk >= 1 && static_cast<std::size_t>(topk) <= counts.size() && sum(counts) > 0);
  if (tokens) return scaled(counts, topk, *tokens);
  CountedRows result{.tokens = divide_up(sum(counts), topk), .rows = {}, .impossible = {}};
  const auto fullest = std::max_element(counts.begin(), counts.end());
  if (*fullest > result.tokens) {
    result.impossible = static_cast<std::size_t>(fullest - counts.begin());
    return result;
  }
  result.rows.assign(counts.begin(), counts.end());
  const auto emptiest_first = order_by(counts.size(), [&](std::size_t i) { return counts[i]; });
  give(result.rows, emptiest_first, result.tokens * topk - sum(counts), result.tokens);
  return result;
}

}  // namespace moesim
