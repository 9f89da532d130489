// Rows per expert, where a file counts and does not say which token picked what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moesim {

struct CountedRows {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> rows;         // sum to tokens x topk, none exceeds the tokens
  std::optional<std::size_t> impossible;  // a count of more rows than tokens; `rows` is empty then
};

// Rows for `topk` experts a token. Without `tokens` the counts themselves: as many tokens as they sum to, and where that
// is not a whole number the few rows that lack go to the emptiest experts, one each in turn. With `tokens`, in proportion
// to the counts (largest remainder), an expert's rows cut at one a token, what that leaves given to the next by count.
CountedRows counted_rows(std::span<const std::int64_t> counts, std::int64_t topk, std::optional<std::int64_t> tokens);

}  // namespace moesim
