// Who does the work of a study: threads here, other processes from tools.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace moesim {

// Pieces numbered [first, end) as text, since they may come from another process. `make` runs anywhere, in any order, many
// at a time; `take` sees one at a time, in the order of their numbers. What either throws ends the work and comes out of
// the executor. Only a bounded number of pieces is made ahead of the one that is taken next: memory does not grow with
// the work.
struct OrderedWork {
  std::size_t first = 0, end = 0;
  std::function<std::string(std::size_t)> make;
  std::function<void(std::size_t, const std::string&)> take;
};
using Executor = std::function<void(const OrderedWork&)>;

// So many pieces, for each of the threads that make them, may be made ahead: pieces differ widely in what they cost.
inline constexpr std::size_t kAheadPerThread = 64;

// As many threads as this process may use.
std::size_t default_threads();
Executor thread_executor(std::size_t threads);

}  // namespace moesim
