#include "workloads/studies/executor.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <utility>

namespace moesim {
namespace {

using Piece = std::pair<std::size_t, std::string>;

void run_ordered(const OrderedWork& work, std::size_t ahead) {
  std::size_t next = work.first;
  const auto number = [&](tbb::flow_control& control) -> std::size_t {
    if (next >= work.end) {
      control.stop();
      return 0;
    }
    return next++;
  };
  const auto make = [&](std::size_t piece) -> Piece { return {piece, work.make(piece)}; };
  const auto take = [&](const Piece& piece) { work.take(piece.first, piece.second); };
  tbb::parallel_pipeline(ahead, tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, number) &
                                    tbb::make_filter<std::size_t, Piece>(tbb::filter_mode::parallel, make) &
                                    tbb::make_filter<Piece, void>(tbb::filter_mode::serial_in_order, take));
}

}  // namespace

std::size_t default_threads() { return static_cast<std::size_t>(tbb::info::default_concurrency()); }

Executor thread_executor(std::size_t threads) {
  return [threads](const OrderedWork& work) {
    // More than the machine has, too, where asked for.
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena arena(static_cast<int>(threads));
    arena.execute([&] { run_ordered(work, threads * kAheadPerThread); });
  };
}

}  // namespace moesim
